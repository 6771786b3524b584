"""A device that runs out of memory: half the rows at a time, or one sentence and exit code 4."""

import io
from pathlib import Path
from typing import Any

import pytest
import torch
from command_lab import FLOW_WORLD_MODEL, PENDULUM, SB3, WEIGHTS, WORLD_MODEL
from rich.console import Console

from eigen2.algorithms.erl.control import ControlTask
from eigen2.algorithms.erl.direct import DirectGradient
from eigen2.algorithms.erl.market import MarketTask
from eigen2.algorithms.pwm import policy_learning
from eigen2.algorithms.pwm.critic import ValueEnsemble
from eigen2.algorithms.pwm.world_model import WorldModel
from eigen2.errors import ResourceError
from eigen2.harness.journal import read_log
from eigen2.harness.training import start_run

Metrics = list[dict[str, Any]]


def train(root: Path, name: str, words: tuple[str, ...]) -> tuple[Metrics, list[dict[str, Any]]]:
    start_run([*words, f"run.root={root}", f"run.name={name}"], Console(file=io.StringIO()))
    events = read_log(root / name / "events.jsonl")
    return read_log(root / name / "metrics.jsonl"), [e for e in events if e["kind"] == "out_of_memory"]


def small_device(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, rows: Any, room: int) -> None:
    """`owner.name` runs out of memory when `rows(arguments)` is more than `room` and gradients are wanted."""
    real = getattr(owner, name)

    def limited(*arguments: Any) -> Any:
        if torch.is_grad_enabled() and rows(*arguments) > room:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")
        return real(*arguments)

    monkeypatch.setattr(owner, name, limited)


PLACES = {
    "critics and actors": (PENDULUM, ControlTask, "value", lambda task, critic, state, action: len(state), 5),
    "market": (WEIGHTS, MarketTask, "value", lambda task, critic, state, action: len(state.day), 5),
    "direct gradient": (
        WEIGHTS, DirectGradient, "loss", lambda direct, actor, drawn, runs: runs.stop - runs.start, 1,
    ),
    "world model": (FLOW_WORLD_MODEL, WorldModel, "loss", lambda model, batch, *_: batch.action.shape[1], 3),
    "imagination": (WORLD_MODEL, policy_learning, "imagine", lambda world, actor, start, *_: len(start), 3),
    "values": (WORLD_MODEL, ValueEnsemble, "loss", lambda critic, latent, target: len(latent), 5),
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_a_run_goes_on_with_fewer_rows_at_a_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str
) -> None:
    words, owner, name, rows, room = PLACES[place]
    expected, none = train(tmp_path, "whole", words)
    small_device(monkeypatch, owner, name, rows, room)
    found, events = train(tmp_path, "parts", words)
    assert none == []
    assert events
    assert "rounded differently in the last bits" in events[0]["message"]
    # Only the first steps: later on what is rounded differently has grown.
    for before, after in zip(expected[:1], found[:1], strict=True):
        assert before.keys() == after.keys()
        for key, value in before.items():
            assert after[key] == pytest.approx(value, rel=1e-3, abs=1e-3), key


def test_where_nothing_can_be_halved_it_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from stable_baselines3 import SAC

    def train_on_a_full_device(*arguments: Any, **options: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")

    monkeypatch.setattr(SAC, "train", train_on_a_full_device)
    with pytest.raises(
        ResourceError, match=r"^A step does not fit into memory \(CUDA out of memory"
    ) as caught:
        train(tmp_path, "sac", SB3["sac"])
    assert caught.value.exit_code == 4
    assert "the last checkpoint is saved" in str(caught.value)
