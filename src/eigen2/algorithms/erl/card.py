"""The model card of an ERL champion: what it is, what it earned, what that is worth, and how to use it."""

from collections.abc import Mapping
from typing import Any

from eigen2.config import Config, fingerprint
from eigen2.envs.config import TradingConfig

RULES = {
    "orders": "(coefficient in [-1, 1], sale target in [0, 1]) per symbol: a coefficient above the threshold asks to open a "
    "position, one below zero closes it",
    "original": "(coefficient in [-1, 1], sale target in [0, 1]) per symbol, without exits by coefficient",
    "weights": "one logit in [-10, 10] per symbol and, last, one for cash; their softmax is the portfolio, rebalanced daily",
}


def market_card(facts: Mapping[str, Any], config: Config, history: int) -> str:
    """Markdown."""
    env = config.env
    assert isinstance(env, TradingConfig)
    name, days = facts["run"].get("name", "unnamed"), facts["days"]
    return "\n".join(
        [
            f"# ERL champion for {facts['market']}",
            "",
            f"An agent of the run `{name}`, seed {config.seed}, that trades {len(facts['tradable'])} symbols: "
            f"{', '.join(facts['tradable'])}.",
            "",
            "## What it earned",
            "",
            *_verdicts(facts["verdict"]),
            "",
            "## Use it",
            "",
            "```",
            "eigen2 decide . --data newer.csv --capital 10000",
            "```",
            "",
            "`newer.csv` holds the same symbols, and at least five of the days that are known already. In Python:",
            "",
            "```python",
            "import eigen2",
            "",
            'champion = eigen2.load(".")',
            "observation = {",
            f'    "day": {facts["last_day"]},  # the last one, counted from the first of champion.market',
            '    "positions": [[0.0, 0.0, 0.0, 0.0]] * len(champion.market.tradable),',
            '    "account": [1.0, 0.0, 0.0, 1.0, 0.0],  # all in cash, at the start of an episode',
            "}",
            "action = champion.act(observation)",
            "```",
            "",
            "| file | |",
            "|---|---|",
            "| `champion.safetensors` | the weights; loading runs no code |",
            "| `champion.json` | symbols, features and their scale, rules, costs, verdict, config |",
            "| `champion.pt2` | the policy as a graph: `torch.export.load(path).module()(days, positions, account)`, "
            f"days `[{history}, {len(facts['symbols'])}, {len(facts['features']) + 1}]` |",
            "| `prices.parquet` | the days it was trained and evaluated on, if they came from your file |",
            "",
            "## What it sees and does",
            "",
            f"- Actions: `{env.actions}`, {RULES[env.actions]}. Decided after a close, filled at the next "
            f"{'open' if 'open' in facts['fields'] else 'close'}.",
            f"- Features: {', '.join(feature['name'] for feature in facts['features'])}; less their mean, divided by their "
            f"deviation on the training days, cut at {facts['clip']:g} deviations.",
            f"- Costs: fee {env.fee_bp:g} and slippage {env.slippage_bp:g} basis points a side; a delisted holding loses "
            f"{env.delisting_penalty:.0%}.",
            f"- Trained on {days['train'][0]} to {days['train'][1]}, chosen on {days['validation'][0]} to "
            f"{days['validation'][1]}, held out {days['holdout'][0]} to {days['holdout'][1]}.",
            f"- Data `{facts['data_fingerprint']}`, config `{fingerprint(config)}`.",
            "",
            "## Limits",
            "",
            "- Without evidence of skill, hold equal weight: it is cheaper and as good.",
            "- Fills at the quoted price less slippage: large orders move prices, and the costs of that are not in it.",
            "- One seed. Markets change; retrain, and test on days that nobody has seen.",
            "",
        ]
    )


def _verdicts(verdicts: Mapping[str, Any]) -> list[str]:
    if not verdicts:
        return ["It has not been evaluated: `eigen2 evaluate RUN --split holdout`."]
    return [f"- {split}: {found.get('verdict', 'unknown')}." for split, found in verdicts.items()]


def control_card(facts: Mapping[str, Any], config: Config, mean_return: float, episodes: int) -> str:
    name, size = facts["run"].get("name", "unnamed"), facts["observation_size"]
    return "\n".join(
        [
            f"# ERL champion for {facts['task']}",
            "",
            f"An agent of the run `{name}`, seed {config.seed}. Mean return over {episodes} fresh episodes: "
            f"{mean_return:.1f}.",
            "",
            "```python",
            "import eigen2",
            "import numpy as np",
            "",
            'champion = eigen2.load(".")',
            f"action = champion.act(np.zeros({size}, dtype=np.float32))  # in the environment's own bounds",
            "```",
            "",
            f"Actions are bounded by {facts['action']['low']} and {facts['action']['high']}; `champion.act` and "
            "`champion.pt2` (`torch.export.load(path).module()(observations)`) apply the bounds.",
            f"Config `{fingerprint(config)}`. One seed: compare several before you believe a difference.",
            "",
        ]
    )
