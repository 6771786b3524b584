"""Claims about stored state that a user can check: fingerprint and verify-resume."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from eigen2.algorithms import registry
from eigen2.algorithms.contract import Trainer
from eigen2.errors import ConfigError, DamagedStateError
from eigen2.harness.host import Host
from eigen2.harness.identity import check_config, check_data, retired_settings
from eigen2.harness.loop import restore
from eigen2.harness.mending import REPAIRED
from eigen2.harness.metadata import processor
from eigen2.harness.own_data import kept_file, missing_data_explained
from eigen2.harness.run import Run
from eigen2.store.checkpoints import Checkpoint, tell_refused
from eigen2.store.objects import reference
from eigen2.store.state import fingerprint

VOLATILE = ("ram_bytes",)
"""Facts in a replay's manifest that describe the process, not the contents."""


def run_fingerprint(run: Run, say: Callable[[str], None]) -> dict[str, Any]:
    """One hash over the training state and the replay of the newest checkpoint whose state is good.

    Replay objects that are damaged are named; the hash is of what the checkpoint says they are.
    """
    recovery, found = run.checkpoints.read_newest(_fingerprint)
    tell_refused(recovery, say)
    if recovery.checkpoint is None or found is None:
        raise ConfigError(f"{run.path} has no checkpoint yet.")
    hash_, damaged = found
    inexact = recovery.checkpoint.manifest.inexact
    for sentence in (*inexact, *damaged):
        say(sentence)
    facts = {"step": recovery.checkpoint.manifest.step, "fingerprint": hash_}
    return facts | {"damaged": damaged, "inexact": list(inexact)}


def _fingerprint(checkpoint: Checkpoint) -> tuple[str, list[str]]:
    replay = checkpoint.manifest.replay or {}
    contents = {key: value for key, value in replay.items() if key not in VOLATILE}
    found = fingerprint({"state": checkpoint.state(), "replay": contents})
    damaged = []
    for ref in checkpoint.manifest.below("replay/").values():
        try:
            checkpoint.objects.check(ref.hash, ref.size)
        except DamagedStateError as error:
            damaged.append(f"the replay is damaged: {error}")
    return found, damaged


@dataclass(frozen=True)
class Proof:
    """Outcome of running the steps between two checkpoints again."""

    first: int
    last: int
    differing: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not self.differing

    def to_json(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "from_step": self.first,
            "to_step": self.last,
            "differing": list(self.differing),
        }


def verify_resume(run: Run, say: Callable[[str], None]) -> Proof:
    """Resume from `previous` in this process, run up to `latest`, and compare every tensor and the replay."""
    # Also of a run that trains: what the two name is kept until they are compared.
    with run.checkpoints.objects.reader():
        return _prove(run, say)


def _prove(run: Run, say: Callable[[str], None]) -> Proof:
    missing = {"previous", "latest"} - set(run.checkpoints.names())
    if missing:
        raise ConfigError(f"{run.path} has no {' and no '.join(sorted(missing))} checkpoint to compare yet.")
    before, after = run.checkpoints.load("previous"), run.checkpoints.load("latest")
    if before.manifest.replay is not None and before.manifest.replay_step != before.manifest.step:
        raise ConfigError(
            "The previous checkpoint has no replay of its own (replay.every > 1): nothing to prove."
        )
    if retired := retired_settings(run, after.manifest.identity):
        raise ConfigError(
            f"The latest checkpoint was computed with {', '.join(retired)}, which version {version('eigen2')} no longer has: "
            "there is nothing to prove before the next one."
        )
    for sentence in after.manifest.inexact:
        say(sentence)
    noted = {*after.manifest.inexact} ^ {*before.manifest.inexact}
    if any(REPAIRED in sentence for sentence in noted):
        raise ConfigError(
            "The latest checkpoint is as a repair left it, not as training made it of the previous one: there is nothing to prove "
            "before the next one."
        )
    config = run.read_config()
    check_config(run, before.manifest.identity, config)
    algorithm, host = registry.algorithm(config.alg.kind), Host(config, run, data=kept_file(before, after))
    with missing_data_explained(run, before), algorithm.open(config, host.services) as experiment:
        if check_data(after.manifest.identity, experiment):
            raise ConfigError(
                "The latest checkpoint was computed on a processor that rounds the generated data of this run differently: there "
                "is nothing to prove here before the next one."
            )
        restore(run, config, experiment, before, say)
        trainer = experiment.trainer
        for _ in range(before.manifest.step, after.manifest.step):
            trainer.step()
        again = trainer.state_dict()
        differing = _differing(trainer.upgraded(after.state()), again)
        if after.manifest.replay is not None and after.manifest.replay_step == after.manifest.step:
            replay = _manifest_now(trainer)
            differing += _differing_replay(after.manifest.replay, replay)
    elsewhere = after.manifest.identity.get("processor", "an unknown processor")
    if differing and elsewhere != processor():
        raise ConfigError(
            f"{', '.join(differing)} differ after the step was run again. That proves nothing: the step was computed on "
            f"{elsewhere}, this is {processor()}, and processors may round differently. Try again after the next step."
        )
    return Proof(before.manifest.step, after.manifest.step, tuple(differing))


def _differing(stored: dict[str, Any], again: dict[str, Any]) -> list[str]:
    return [
        name
        for name in sorted(stored.keys() | again.keys())
        if fingerprint({name: stored.get(name)}) != fingerprint({name: again.get(name)})
    ]


def _manifest_now(trainer: Trainer) -> Mapping[str, Any]:
    """The manifest that a save of the trainer's replay would write; nothing is stored."""
    if trainer.replay is None:
        return {}
    return trainer.replay.snapshot().write(lambda chunks: reference(chunks).hash, lambda name: True)


def _differing_replay(stored: Any, again: Any) -> list[str]:
    keys = sorted((stored.keys() | again.keys()) - set(VOLATILE))
    return [f"replay.{key}" for key in keys if stored.get(key) != _as_json(again.get(key))]


def _as_json(value: Any) -> Any:
    """What a value is after a trip through a manifest: tuples become lists."""
    if isinstance(value, dict):
        return {str(key): _as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in value]
    return value
