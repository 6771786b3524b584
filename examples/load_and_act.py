"""Let a trained champion act: `python examples/load_and_act.py RUN_OR_EXPORT [GYMNASIUM_ID]`.

A champion of a market trades its own days again; one of a control task needs the environment's name, e.g. Pendulum-v1.
"""

import sys

import gymnasium

import eigen2
from eigen2.evaluation.champion import MarketChampion


def environment_for(champion: object, name: str | None) -> gymnasium.Env:
    if isinstance(champion, MarketChampion):
        # The same prices, costs and rules; `compact` observations name the day instead of copying its window.
        rules = champion.config.model_dump()
        return gymnasium.make(
            "eigen2/Trading-v0", market=champion.market, split="validation", observation="compact", **rules
        )
    return gymnasium.make(name or "Pendulum-v1")


def main(path: str, name: str | None = None) -> float:
    champion = eigen2.load(path)  # reads safetensors and JSON; no code in the files is run
    env = environment_for(champion, name)
    observation, _ = env.reset(seed=0)
    total, ended = 0.0, False
    while not ended:
        observation, reward, terminated, truncated, _ = env.step(champion.act(observation))
        total, ended = total + float(reward), terminated or truncated
    print(f"{env.spec.id if env.spec else name}: return {total:.4f}")
    return total


if __name__ == "__main__":
    main(*sys.argv[1:])
