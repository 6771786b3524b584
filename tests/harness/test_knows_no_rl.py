"""The harness knows no RL: it runs a sorting algorithm, because that keeps the contract."""

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file

from eigen2 import seeds
from eigen2.algorithms import registry
from eigen2.algorithms.contract import (
    Algorithm,
    AlgorithmConfig,
    Evaluation,
    Experiment,
    Metrics,
    Services,
    Trainer,
    WhatIf,
)
from eigen2.config import Config
from eigen2.errors import ConfigError, ResourceError, StoppedEarly
from eigen2.harness.directory import find_run
from eigen2.harness.evaluating import evaluate_run
from eigen2.harness.export import export_run
from eigen2.harness.listing import list_runs
from eigen2.harness.run import Run
from eigen2.harness.tables import from_parquet
from eigen2.harness.training import resume_run, start_run
from eigen2.harness.verify import run_fingerprint, verify_resume
from eigen2.section import Section
from eigen2.store import disk
from eigen2.store.disk import MARGIN_BYTES
from eigen2.store.integrity import verify
from eigen2.store.objects import reference


class SortConfig(AlgorithmConfig):
    kind: Literal["bubble_sort"] = "bubble_sort"
    size: int = 12
    """Numbers to sort."""


class Sorter(Trainer):
    phases = ("pass",)
    headline = ("inversions",)
    stop_after: ClassVar[int | None] = None

    def __init__(self, config: SortConfig, seed: int, services: Services) -> None:
        self.numbers = seeds.generator(seed, "numbers").permutation(config.size)
        self.passes, self._services = 0, services

    @property
    def steps(self) -> int:
        return len(self.numbers)

    @property
    def done(self) -> bool:
        return self.passes >= self.steps

    @property
    def best_score(self) -> float:
        return -float(self.inversions) if self.passes else float("-inf")

    @property
    def inversions(self) -> int:
        return int(np.triu(self.numbers[:, None] > self.numbers[None, :], 1).sum())

    def step(self) -> Metrics:
        if self.passes == Sorter.stop_after:
            raise StoppedEarly("stopped by the test")
        for i in range(len(self.numbers) - 1):
            self.numbers[i : i + 2] = np.sort(self.numbers[i : i + 2])
            self._services.progress("pass", i + 1, len(self.numbers) - 1)
        self.passes += 1
        return {"inversions": float(self.inversions)}

    def state_dict(self) -> dict[str, Any]:
        return {"numbers": self.numbers, "passes": self.passes}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.numbers, self.passes = state["numbers"].copy(), state["passes"]

    def best_weights(self) -> dict[str, torch.Tensor]:
        return {"numbers": torch.as_tensor(self.numbers)}


class Sorting(Experiment):
    def __init__(self, trainer: Sorter) -> None:
        self.trainer: Sorter = trainer

    def evaluate(self, split: str, what_if: WhatIf | None = None) -> Evaluation:
        facts = {"split": split, "inversions": self.trainer.inversions}
        return Evaluation(
            facts, f"{self.trainer.inversions} inversions", {"numbers": {"x": self.trainer.numbers}}
        )


class BubbleSort(Algorithm):
    name = "bubble_sort"
    config = SortConfig
    opened = 0

    def accepts(self, env: Section) -> str | None:
        return None if env.model_dump()["kind"] == "gym" else "bubble_sort needs no market."

    @contextmanager
    def open(self, config: Config, services: Services) -> Iterator[Experiment]:
        assert isinstance(config.alg, SortConfig)
        BubbleSort.opened += 1
        yield Sorting(Sorter(config.alg, config.seed, services))


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(registry.BUILT_IN, "bubble_sort", f"{__name__}:BubbleSort")
    monkeypatch.setitem(
        __import__("sys").modules, __name__, __import__("types").SimpleNamespace(BubbleSort=BubbleSort)
    )
    monkeypatch.setattr(Sorter, "stop_after", None)
    monkeypatch.setattr(BubbleSort, "opened", 0)
    yield
    registry.algorithm.cache_clear()


def sort(root: Path, *overrides: str) -> dict[str, Any]:
    words = ["alg=bubble_sort", "env=gym", f"run.root={root}", *overrides]
    return start_run(words, Console(file=io.StringIO()))


def test_a_run_is_opened_once_trained_and_evaluated(tmp_path: Path) -> None:
    facts = sort(tmp_path)
    assert BubbleSort.opened == 1
    assert facts["evaluation"] == {"split": "validation", "inversions": 0}
    run = find_run("bubble_sort_Pendulum-v1_seed7", tmp_path)
    metrics = [json.loads(line) for line in run.log("metrics").read_text().splitlines()]
    assert metrics[0].keys() == {"step", "inversions", "best_score"}
    assert (len(metrics), metrics[-1]["inversions"]) == (12, 0)
    assert verify(run.checkpoints).ok
    assert run.metadata()["steps"] == 12


def test_a_stopped_run_resumes_to_the_same_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sort(tmp_path, "run.name=straight")
    monkeypatch.setattr(Sorter, "stop_after", 5)
    with pytest.raises(StoppedEarly):
        sort(tmp_path, "run.name=cut")
    monkeypatch.setattr(Sorter, "stop_after", None)
    resume_run("cut", [f"run.root={tmp_path}"], Console(file=io.StringIO()))
    cut, straight = find_run("cut", tmp_path), find_run("straight", tmp_path)
    assert run_fingerprint(cut, print) == run_fingerprint(straight, print)
    assert cut.log("metrics").read_bytes() == straight.log("metrics").read_bytes()
    assert verify_resume(cut, lambda _: None).ok


def test_own_data_is_made_once_and_handed_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, handed = [], []
    enter = Sorter.__init__

    def own_data(self: Sorting) -> bytes:
        made.append(1)
        return b"numbers of one's own"

    def init(self: Sorter, config: SortConfig, seed: int, services: Services) -> None:
        handed.append(services.data and services.data.read_bytes())
        enter(self, config, seed, services)

    monkeypatch.setattr(Sorting, "own_data", own_data)
    monkeypatch.setattr(Sorter, "__init__", init)
    monkeypatch.setattr(Sorter, "stop_after", 5)
    with pytest.raises(StoppedEarly):
        sort(tmp_path)
    monkeypatch.setattr(Sorter, "stop_after", None)
    resume_run(None, [f"run.root={tmp_path}"], Console(file=io.StringIO()))
    run = find_run(None, tmp_path)
    evaluate_run(run, "validation", lambda _: None)
    assert verify_resume(run, lambda _: None).ok
    assert (made, handed) == ([1], [None, *[b"numbers of one's own"] * 3])


def test_own_data_that_disappears_while_the_run_trains_is_stored_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content, step = b"numbers of one's own", Sorter.step

    def careless(self: Sorter) -> Metrics:
        if self.passes == 5:
            find_run(None, tmp_path).checkpoints.objects.delete(reference([content]).hash)
        return step(self)

    monkeypatch.setattr(Sorting, "own_data", lambda self: content)
    monkeypatch.setattr(Sorter, "step", careless)
    sort(tmp_path)
    assert verify(find_run(None, tmp_path).checkpoints).ok


def test_own_data_counts_when_room_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "free_bytes", lambda path: MARGIN_BYTES + 10_000)
    sort(tmp_path, "run.name=fits", "run.report=false")
    monkeypatch.setattr(Sorting, "own_data", lambda self: bytes(20_000))
    with pytest.raises(ResourceError, match="of disk space"):
        sort(tmp_path, "run.name=does_not", "run.report=false")
    assert [found["name"] for found in list_runs(tmp_path)] == ["fits"]
    sort(tmp_path, "run.name=does_not", "run.report=false", "run.keep_data=false")


def test_series_of_evaluations_stay_with_the_run(tmp_path: Path) -> None:
    sort(tmp_path)
    run = find_run(None, tmp_path)
    evaluate_run(run, "holdout", lambda _: None)
    resume_run(None, [f"run.root={tmp_path}"], Console(file=io.StringIO()))
    records = run.evaluations()
    assert [record["split"] for record in records] == ["validation", "holdout", "validation"]
    for record in records:
        table = from_parquet(run.checkpoints.objects.read(record["series"]["numbers"]))
        assert table["x"].tolist() == list(range(12))
    assert verify(run.checkpoints).orphaned == ()


def test_an_export_is_replaced_by_the_same_run_and_by_nothing_else(tmp_path: Path) -> None:
    sort(tmp_path)
    run = find_run(None, tmp_path)
    for _ in range(2):
        facts = export_run(run, None, lambda _: None)
    assert list(facts["files"]) == ["best_agent.safetensors"]
    assert {path.name for path in (run.path / "export").iterdir()} == {
        "best_agent.safetensors",
        "README.md",
        "export.json",
    }
    (run.path / "export" / "mine.txt").write_text("precious")
    with pytest.raises(ConfigError, match="is not an export"):
        export_run(run, None, lambda _: None)


def test_an_environment_it_does_not_take_is_refused_in_its_own_words(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"bubble_sort needs no market\."):
        start_run(["alg=bubble_sort", "env=trading", f"run.root={tmp_path}"], Console(file=io.StringIO()))
    assert list(tmp_path.iterdir()) == []


def test_garbage_waits_while_somebody_adds_an_evaluation(tmp_path: Path) -> None:
    sort(tmp_path)
    run = find_run(None, tmp_path)
    objects = run.checkpoints.objects
    with objects.guest():
        name = objects.put(b"a series that no line names yet").hash
        assert Run(run.path).checkpoints.collect_garbage() == 0
        assert objects.find(name) is not None
    assert Run(run.path).checkpoints.collect_garbage() == 1


def test_a_series_that_is_gone_is_missed(tmp_path: Path) -> None:
    sort(tmp_path)
    run = find_run(None, tmp_path)
    run.checkpoints.objects.delete(run.evaluations()[0]["series"]["numbers"])
    (sentence,) = verify(run.checkpoints).missing
    assert sentence.endswith("is missing; an evaluation or an unfinished upload needs it")


def test_a_run_of_a_plug_in_that_is_not_here_is_listed_and_verified_but_not_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sort(tmp_path)
    monkeypatch.delitem(registry.BUILT_IN, "bubble_sort")
    registry.algorithm.cache_clear()
    run = find_run(None, tmp_path)
    assert [found["state"] for found in list_runs(tmp_path)] == ["done"]
    assert verify(run.checkpoints).ok
    with pytest.raises(ConfigError, match="needs the package that brings it"):
        run.read_config()


def test_a_plug_in_that_cannot_be_loaded_is_in_nobody_elses_way(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = EntryPoint("broken", "no_such_module:Thing", registry.GROUP)
    monkeypatch.setattr(registry, "_plug_ins", lambda: [broken])
    assert registry.preset("pwm_tiny")[0].name == "pwm"
    with pytest.raises(ConfigError, match="the algorithm broken of no_such_module:Thing cannot be loaded"):
        registry.preset("something_else")


def test_careless_numbers_and_weights_of_a_plug_in_do_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NumPy's numbers, NaN, and weights that share or skip memory: what people return without thinking."""
    shared = torch.arange(12.0).reshape(3, 4)
    monkeypatch.setattr(
        Sorter, "best_weights", lambda self: {"a": shared.T, "b": shared[:, ::2], "c": shared}
    )
    step, evaluate = Sorter.step, Sorting.evaluate

    def careless_step(self: Sorter) -> Metrics:
        return step(self) | {"single": np.float32(0.5), "unknown": float("nan"), "tensor": torch.tensor(2.0)}  # type: ignore[return-value]

    def careless_facts(self: Sorting, split: str, what_if: WhatIf | None = None) -> Evaluation:
        found = evaluate(self, split)
        return Evaluation(found.facts | {"odd": [np.int64(3), float("inf")]}, found.shown, found.series)

    monkeypatch.setattr(Sorter, "step", careless_step)
    monkeypatch.setattr(Sorting, "evaluate", careless_facts)
    sort(tmp_path)
    run = find_run(None, tmp_path)
    last = json.loads(run.log("metrics").read_text().splitlines()[-1])
    assert (last["single"], last["unknown"], last["tensor"]) == (0.5, None, 2.0)
    assert run.evaluations()[0]["odd"] == [3, None]
    weights = load_file(run.path / "best_agent.safetensors")
    assert torch.equal(weights["a"], shared.T)
    assert torch.equal(weights["b"], shared[:, ::2])


def test_records_for_a_log_that_does_not_exist_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Sorter, "take_records", lambda self: {"diary": [{}]})
    with pytest.raises(ValueError, match="no log called 'diary', only metrics, events, lineage, memory"):
        sort(tmp_path)
