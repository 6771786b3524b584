"""A few steps in a process of their own, to see what a run really holds and how long it takes.

The child opens the experiment, takes the steps with a frozen state beside them, as a save would have it, encodes what a
save would write without writing it, and evaluates. The parent watches its memory and ends it before the machine runs
out: a calibration must not do the harm that it is there to prevent.

    python -m eigen2.harness.calibration < config.json > measured.json
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from tempfile import TemporaryFile
from typing import Any

import psutil

from eigen2.algorithms import registry
from eigen2.algorithms.contract import Experiment, Services, Trainer
from eigen2.config import Config, validate
from eigen2.errors import ResourceError
from eigen2.harness.answer import answering
from eigen2.harness.forecast import Measured

SECONDS = 180.0
"""Longer calibrations are given up; the forecast is then what was computed."""
LOOK = 0.05
"""Seconds between two looks at the child's memory."""


class TooSlow(ResourceError):
    """The steps take longer than anybody wants to wait for a forecast."""


def calibrate(config: Config, room: int, seconds: float = SECONDS) -> Measured:
    """Raises ResourceError when the steps take more than `room` bytes of memory, or fail; TooSlow after `seconds`."""
    command = [sys.executable, "-m", "eigen2.harness.calibration"]
    # Files, not pipes: an environment may print more than a pipe holds while nobody reads.
    with TemporaryFile("w+") as asked, TemporaryFile("w+") as answers, TemporaryFile("w+") as complaints:
        asked.write(config.model_dump_json())
        asked.seek(0)
        child = subprocess.Popen(command, stdin=asked, stdout=answers, stderr=complaints, text=True)
        try:
            _watch(child, room, seconds)
        finally:
            child.kill()
            child.wait()
        answers.seek(0)
        complaints.seek(0)
        answer, complaint = answers.read(), complaints.read()
    if child.returncode != 0:
        lines = complaint.strip().splitlines()
        raise ResourceError(f"the calibration failed: {lines[-1] if lines else f'exit {child.returncode}'}")
    return Measured(**json.loads(answer))


def _watch(child: "subprocess.Popen[str]", room: int, seconds: float) -> None:
    until = time.monotonic() + seconds
    while True:
        try:
            child.wait(LOOK)
            return
        except subprocess.TimeoutExpired:
            pass
        try:
            held = psutil.Process(child.pid).memory_info().rss
        except psutil.NoSuchProcess:
            continue
        if held > room:
            raise ResourceError(f"one step alone takes more than {room / 1e9:.2f} GB of memory")
        if time.monotonic() > until:
            raise TooSlow(f"a few steps take longer than {seconds:.0f} s")


# In the child


def measure(config: Config, services: Services, clock: "PhaseClock") -> Measured:
    """Take the steps of an algorithm's calibration in this process."""
    from eigen2.memory.peak import peak_bytes, resident_bytes
    from eigen2.store.state import freeze, largest_share, state_bytes

    algorithm = registry.algorithm(config.alg.kind)
    how = algorithm.calibration(config)
    assert how is not None
    began = time.monotonic()
    with algorithm.open(how.config.model_copy(update={"cluster": "inline"}), services) as experiment:
        trainer = experiment.trainer
        total = _steps(experiment, config)
        opening, opened = time.monotonic() - began, resident_bytes()
        frozen: Mapping[str, Any] = freeze(trainer.state_dict())
        first = state_bytes(frozen)
        logs = []
        for _ in range(how.steps):
            clock.begin()
            metrics = trainer.step()
            clock.end()
            logs.append(_log_bytes(metrics, trainer))
        # A save freezes the state while the one before may still be in memory.
        frozen = freeze(trainer.state_dict())
        replay = trainer.replay
        stored = _stored(trainer)
        began = time.monotonic()
        evaluation = experiment.evaluate("validation")
        evaluating = time.monotonic() - began
        record, kept = _record(trainer), _evaluation_bytes(evaluation)
        return Measured(
            opened=opened,
            peak=peak_bytes(),
            first_state=first,
            state=state_bytes(frozen),
            replay_held=0 if replay is None else replay.ram_bytes,
            transitions=0 if replay is None else len(replay) // how.steps,
            record=record,
            packed=stored / (len(replay) * record) if replay is not None and len(replay) else 1.0,
            steps=total,
            log=max(logs, default=0),
            own_data=_own_data(config, experiment),
            evaluation=kept,
            seconds=opening + how.seconds(clock.steps, total) + evaluating,
            gpu=_gpu_peak(),
            largest=largest_share(frozen),
        )


class PhaseClock:
    """Seconds of each step by phase, from what a trainer reports."""

    def __init__(self) -> None:
        self.steps: list[dict[str, float]] = []
        self._phase, self._since = "", 0.0

    def begin(self) -> None:
        self.steps.append({})
        self._phase, self._since = "", time.monotonic()

    def report(self, phase: str, done: int, total: int) -> None:
        """Work is reported when it is done, except that a phase may say that it begins (0 of n)."""
        if self.steps:
            self._add(phase if done or not self._phase else self._phase)
            self._phase = phase

    def end(self) -> None:
        self._add(self._phase)

    def _add(self, phase: str) -> None:
        now = time.monotonic()
        self.steps[-1][phase] = self.steps[-1].get(phase, 0.0) + now - self._since
        self._since = now


def _steps(experiment: Experiment, config: Config) -> int:
    """Of the real run: its length may be counted in rounds that the short one cuts."""
    needs = registry.algorithm(config.alg.kind).needs(config, Services(_Nowhere(), lambda state: ""))
    return experiment.trainer.steps if needs is None or not needs.steps else needs.steps


def _record(trainer: Trainer) -> int:
    """Bytes that a transition really takes: large observations count with what the replay made of them."""
    from eigen2.replay.size import LINK_BYTES

    replay = trainer.replay
    if replay is None:
        return 0
    if not replay.windows or not len(replay):
        return int(replay.ring.layout.nbytes)
    return max(1, replay.ram_bytes // len(replay) - LINK_BYTES)


def _stored(trainer: Trainer) -> int:
    """Bytes of the objects that a snapshot of the replay writes; nothing is written."""
    replay, sizes = trainer.replay, list[int]()
    if replay is None:
        return 0

    def put(chunks: Iterable[Any]) -> str:
        sizes.append(sum(memoryview(chunk).nbytes for chunk in chunks))
        return f"{len(sizes):064x}"

    snapshot = replay.snapshot()
    try:
        snapshot.write(put, lambda name: False)
    finally:
        snapshot.close()
    return sum(sizes)


def _log_bytes(metrics: Mapping[str, float], trainer: Trainer) -> int:
    """Of one step, about: metrics, records and a line of memory.jsonl."""
    records = [record for made in trainer.take_records().values() for record in made]
    lines = [dict(metrics), {"owners": trainer.owners(), "time": 0.0}, *records]
    return sum(len(json.dumps(line, default=str)) for line in lines) + 80


def _evaluation_bytes(evaluation: Any) -> int:
    from eigen2.harness.tables import to_parquet

    tables = sum(len(to_parquet(table)) for table in evaluation.series.values())
    return tables + len(json.dumps(evaluation.facts, default=str))


def _own_data(config: Config, experiment: Experiment) -> int:
    kept = experiment.own_data() if config.run.keep_data else None
    return 0 if kept is None else len(kept)


def _gpu_peak() -> int:
    import torch

    return int(torch.cuda.max_memory_reserved()) if torch.cuda.is_available() else 0


class _Nowhere:
    """Stored experience that a calibration does without."""

    def locate(self, source: Any) -> Any:
        return source

    def config(self, source: Any) -> Any:
        raise ResourceError("a calibration reads no stored experience")

    def replay(self, source: Any) -> Any:
        raise ResourceError("a calibration reads no stored experience")


def main() -> None:
    from eigen2.store.state import fingerprint

    config, clock = validate(json.load(sys.stdin)), PhaseClock()
    with answering() as answer:
        measured = measure(config, Services(_Nowhere(), fingerprint, clock.report), clock)
        answer.write(json.dumps(asdict(measured)))


if __name__ == "__main__":
    main()
