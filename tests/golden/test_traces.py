"""Golden traces: what a few steps of every algorithm computed once, later versions compute again.

`python tests/golden/test_traces.py [CASE ...]` writes the traces anew; do that only in a commit that means to change a result.
"""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file

sys.path.insert(0, str(Path(__file__).parents[1] / "harness" / "lab"))

from command_lab import ROUNDING, Lab  # noqa: E402

TRACES = Path(__file__).with_name("traces.json")
MARKET = (
    "env.data=planted_reversal", "env.target_fill=same_close", "env.synthetic.days=500", "env.synthetic.symbols=5", "env.window=8",
    "env.trading_days=30", "env.settlement_days=5", "env.max_holding_days=5", "env.validation_days=60",
    "env.holdout_days=60", "env.embargo_days=5", "alg.population=8", "alg.generations=8", "alg.windows=3",
    "alg.validation_windows=3", "alg.batch=32", "alg.hidden=8", "alg.learning_starts=500", "replay.capacity=4000", "seed=3",
)  # fmt: skip
"""The presets as they are, only smaller: CEM and the direct gradient are on."""
WORLD_MODEL = (
    "alg.iterations=6", "alg.environments=4", "alg.steps=8", "alg.random_steps=24", "alg.evaluate_every=2",
    "alg.evaluate_episodes=3", "alg.model.bootstrap_updates=4", "alg.model.batch=16", "alg.actor.batch=16",
    "alg.model.latent=16", "alg.model.encoder_units=[16]", "alg.model.units=[16,16]", "alg.actor.units=[16]",
    "alg.critic.units=[16]", "replay.capacity=2000", "seed=3",
)  # fmt: skip
RATE = "alg.model.learning_rate=5e-4"
"""What the small presets had when their traces were recorded."""
CASES = {
    "erl_orders": MARKET,
    "erl_weights": ("env.actions=weights", *MARKET),
    "erl_ddpg": ("alg=erl_ddpg", *MARKET, "alg.learners=8", "alg.elites=3"),
    "erl_gym": (
        "env=gym", "env.max_episode_steps=40", "alg.generations=5", "alg.gradient_steps=20",
        "alg.learning_starts=400", "seed=3",
    ),
    "pwm_mlp": ("alg=pwm_small", "env=pendulum", RATE, *WORLD_MODEL),
    "pwm_flow": ("alg=pwm_small_flow", "env=dflex_hopper", RATE, *WORLD_MODEL),
    "pwm_gym": ("alg=pwm_tiny", "env=gym", "env.max_episode_steps=30", *WORLD_MODEL),
    "pwm_pretrain": ("alg=pwm_tiny", "env=pendulum", "alg.pretrain.replay=pwm_mlp", "alg.pretrain.updates=8", *WORLD_MODEL),
    "pwm_tasks": (
        "alg=pwm_tiny", "env=tasks", "env.replays=[pwm_mlp,pwm_gym]", "alg.multitask.policy_iterations=3",
        *WORLD_MODEL,
    ),
}  # fmt: skip
NEEDS = {"pwm_pretrain": ("pwm_mlp",), "pwm_tasks": ("pwm_mlp", "pwm_gym")}
"""Runs whose replays a case begins with."""


def trace(lab: Lab, name: str, root: Path) -> dict[str, Any]:
    for source in NEEDS.get(name, ()):
        if not (root / source).exists():
            lab.train(source, CASES[source], root)
    run = lab.train(name, CASES[name], root, "--holdout")
    lines = {log: _lines(run / f"{log}.jsonl") for log in ("metrics", "lineage", "evaluations")}
    (evaluation,) = lines["evaluations"]
    figures = evaluation.get("returns") or evaluation.get("tasks") or evaluation["champion"]
    weights = {
        name: [float(tensor.astype("f8").sum()), float((tensor.astype("f8") ** 2).sum())]
        for name, tensor in load_file(run / "best_agent.safetensors").items()
    }
    return {
        "metrics": lines["metrics"],
        "lineage": [[r["agent"], r["operator"], r["parents"], r["fitness"]] for r in lines["lineage"]],
        "evaluation": figures,
        "weights": weights,
    }


def _lines(path: Path) -> list[dict[str, Any]]:
    return (
        [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    )


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for key in sorted(value) for leaf in (key, *leaves(value[key]))]
    if isinstance(value, list):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


@pytest.mark.parametrize("name", CASES)
def test_a_few_steps_are_computed_as_they_were(lab: Lab, name: str, tmp_path: Path) -> None:
    recorded = json.loads(TRACES.read_text(encoding="utf-8"))[name]
    found = trace(lab, name, tmp_path)
    for part in recorded:
        ours, theirs = leaves(found[part]), leaves(recorded[part])
        assert [name for name in ours if isinstance(name, str)] == [
            n for n in theirs if isinstance(n, str)
        ], part
        ours, theirs = ([value for value in values if isinstance(value, float)] for values in (ours, theirs))
        assert ours == pytest.approx(theirs, rel=ROUNDING, abs=1e-6), part


if __name__ == "__main__":
    traces = json.loads(TRACES.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as place, Lab(Path(place)) as laboratory:
        os.environ["EIGEN2_LEDGER"] = f"{place}/ledger"
        for case in sys.argv[1:] or CASES:
            traces[case] = trace(laboratory, case, Path(place) / "runs")
    TRACES.write_text(json.dumps({name: traces[name] for name in CASES}, indent=1) + "\n", encoding="utf-8")
