"""The checkpoints of a damaged run: good copies of objects and manifests are fetched, what is left is used.

What is exact comes first: a good copy, then an earlier checkpoint, from which a resume computes the same again. Only
when there is neither, transitions are dropped, and the checkpoint says from then on that it is not exact.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from eigen2.cloud.copies import RunCopy
from eigen2.errors import Eigen2Error
from eigen2.harness.beginning import beginning
from eigen2.harness.run import Run
from eigen2.store.aside import keep_aside, move_aside
from eigen2.store.checkpoints import Checkpoint, without_replay
from eigen2.store.durable import Buffer
from eigen2.store.integrity import Show, Survey, unseen
from eigen2.store.manifest import OWN_DATA, Manifest
from eigen2.store.objects import reference
from eigen2.store.parity import healed
from eigen2.store.retention import NAMES, RESUMABLE

REPAIRED = "the run was repaired on"
"""In every sentence that says why a repaired checkpoint is not exact."""


@dataclass
class Account:
    """What a repair found and did, a sentence each."""

    damaged: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)
    """Good copies that were put in place."""
    rebuilt: list[str] = field(default_factory=list)
    """What was made again from what is here, and what that costs."""
    lost: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        return {name: list(getattr(self, name)) for name in ("damaged", "fetched", "rebuilt", "lost")}


class Mending:
    """Works on a run whose lock is held; `bad` are the objects for which no good copy was found."""

    def __init__(self, run: Run, found: Survey, absent: Sequence[str], copies: Sequence[RunCopy], account: Account) -> None:  # fmt: skip
        self.run, self.found, self.absent, self.copies, self.account = run, found, absent, copies, account
        self.objects = run.checkpoints.objects
        self.manifests = dict(found.manifests)
        self.bad: set[str] = set(found.bad)
        self.dropped: list[str] = []
        self.changed: dict[str, Manifest] = {}
        self.set_back = False
        """Whether `latest` is an earlier checkpoint now."""

    def mend(self, show: Show = unseen) -> None:
        """Fetch, decide, and leave the manifests that shall be written in `changed` and `dropped`."""
        self.fetch_objects(show)
        if not (self.bad or self.found.refused or self.absent):
            return
        for name in ("latest", "final", "previous", "best", "init"):
            if name in self.found.refused or name in self.absent or self._lost_in(self.manifests.get(name)):
                self._mend(name)
        if self.newest() is None:
            # Without a checkpoint a resume would begin anew. That is the user's decision: all stays as it is.
            self.changed, self.dropped = {}, []
            self.manifests = dict(self.found.manifests)
        lost_data = {m.objects[OWN_DATA].hash for m in self._present() if OWN_DATA in m.objects} & self.bad
        if lost_data:
            self.account.lost.append(
                f"the run's copy of its data; `eigen2 train --resume {self.run.path} env.data=PATH` puts it back"
            )

    def fetch_objects(self, show: Show = unseen) -> None:
        """Good copies of damaged and missing objects, each put in place by one rename when it is proven."""
        refs = {ref.hash: ref.size for m in self.manifests.values() for ref in m.objects.values()}
        for name in self.bad:
            keep_aside(self.run.path, self.objects.path(name))
        for name in healed(self.objects, self.manifests.values(), self.bad):
            self.bad.discard(name)
            self.account.rebuilt.append(f"object {name[:16]}... from parity, bit for bit")
        total, done = sum(refs.get(name, 0) for name in self.bad), 0
        for name in sorted(self.bad):
            if copy := self._given(name, refs.get(name)):
                self.bad.discard(name)
                self.account.fetched.append(f"object {name[:16]}... from {copy}")
            done += refs.get(name, 0)
            show(done, total)
        if self.bad:
            self._compute_again()

    def _compute_again(self) -> None:
        """What follows from the config alone: the first state, parts of which later ones share, and the kept data."""
        try:
            contents = beginning(self.run)
        except Eigen2Error as error:
            self.account.rebuilt.append(f"the first state could not be computed again ({error})")
            return
        for chunks in contents:
            if (name := reference(chunks).hash) in self.bad:
                self.objects.put(chunks)
                self.bad.discard(name)
                self.account.rebuilt.append(f"object {name[:16]}... from the config, bit for bit")

    def commit(self) -> None:
        """By the order of the protocol: new manifests, each by one rename; then the others are moved aside."""
        checkpoints = self.run.checkpoints
        ordered = [self.changed[name] for name in reversed(NAMES) if name in self.changed]
        for name in (*self.changed, *self.found.refused):
            keep_aside(self.run.path, checkpoints.path(name))
        checkpoints.commit(ordered)
        for name in self.dropped:
            move_aside(self.run.path, checkpoints.path(name))
        if self.dropped or set(self.absent) - set(checkpoints.names()):
            # The others must not ask for what is gone.
            checkpoints.commit(self._present())

    def newest(self) -> Manifest | None:
        """The checkpoint that a resume will begin from."""
        usable = [m for m in self._present() if m.name in RESUMABLE]
        return max(usable, key=lambda m: m.step, default=None)

    def change(self, edit: Callable[[Manifest], Manifest]) -> None:
        """Let every manifest that stays say something else."""
        for manifest in self._present():
            if (edited := edit(manifest)) != manifest:
                self.changed[manifest.name] = edited

    def _present(self) -> list[Manifest]:
        known = {**self.manifests, **self.changed}
        return [known[name] for name in NAMES if name in known and name not in self.dropped]

    def _given(self, name: str, size: int | None) -> str | None:
        return next((copy.url for copy in self.copies if copy.give(name, size, self.objects)), None)

    def _lost_in(self, manifest: Manifest | None) -> set[str]:
        """Logical names of the objects that a checkpoint needs and that are lost; the user's data apart."""
        if manifest is None:
            return set()
        return {n for n, ref in manifest.objects.items() if ref.hash in self.bad and n != OWN_DATA}

    # One checkpoint

    def _mend(self, name: str) -> None:
        old = self.manifests.get(name)
        if name in RESUMABLE:
            new = self._exact(name, old) or self._not_exact(name, old)
        else:
            new = self._fetched(name, old) or self._twin(name, old)
        if new is not None:
            self.changed[name] = replace(new, name=name)
            return
        if name == "final":
            self.account.rebuilt.append(
                "checkpoint 'final' is set aside: a resume computes the end of the run again"
            )
        elif name == "previous":
            self.account.rebuilt.append(
                "checkpoint 'previous' is set aside; verify-resume has nothing to compare until the next save"
            )
        elif name == "best" and old is not None and self._comes_again(old):
            self.account.rebuilt.append("checkpoint 'best' is set aside: a resume finds it again")
        else:
            what = "the run has no checkpoint to resume from" if name == "latest" else "it is only looked at"
            self.account.lost.append(f"checkpoint '{name}': {what}")
        if name not in self.absent:
            self.dropped.append(name)

    def _exact(self, name: str, old: Manifest | None) -> Manifest | None:
        """A good copy of the checkpoint; else, for `latest`, the newest earlier one; for `final`, its twin."""
        if (copy := self._fetched(name, old)) is not None:
            return copy
        if (twin := self._twin(name, old)) is not None:
            return twin
        if name != "latest":
            return None
        earlier = [m for m in self._healthy() if m.name in RESUMABLE]
        for copy_ in self.copies:
            theirs = [m for n, m in copy_.manifests.items() if n in RESUMABLE and not self._unknown(m)]
            earlier += [m for m in theirs if self._adopted(copy_, m)]
        best = max(earlier, key=lambda m: m.step, default=None)
        if best is None:
            return None
        self.set_back = True
        self.account.rebuilt.append(
            f"checkpoint 'latest' is that of step {best.step} now; a resume computes the steps after it again"
        )
        if "previous" in self.manifests and self.manifests["previous"].step >= best.step:
            self.dropped.append("previous")
            del self.manifests["previous"]
        return best

    def _unknown(self, manifest: Manifest) -> list[str]:
        """Why a checkpoint of a copy is not exact, as far as that is not true here as well: the copy was repaired by itself."""
        here = {sentence for m in self.found.manifests.values() for sentence in m.inexact}
        return [sentence for sentence in manifest.inexact if sentence not in here]

    def _fetched(self, name: str, old: Manifest | None, exact: bool = True) -> Manifest | None:
        """The same checkpoint from a copy; one that is known to be older here is not taken for it."""
        for copy in self.copies:
            theirs = copy.manifests.get(name)
            if theirs is None or (old is not None and theirs.step < old.step):
                continue
            if exact and self._unknown(theirs):
                continue
            newest = max((m.step for m in self._healthy() if m.name in RESUMABLE), default=-1)
            if (name == "latest" and theirs.step < newest) or not self._adopted(copy, theirs):
                continue
            self.account.fetched.append(f"checkpoint '{name}' at step {theirs.step} from {copy.url}")
            self.account.lost += self._unknown(theirs)
            return theirs
        return None

    def _adopted(self, copy: RunCopy, manifest: Manifest) -> bool:
        """Whether every object of a checkpoint is here or could be fetched."""
        return all(
            self.objects.find(ref.hash) is not None or copy.give(ref.hash, ref.size, self.objects)
            for ref in manifest.objects.values()
        )

    def _twin(self, name: str, old: Manifest | None) -> Manifest | None:
        """A good checkpoint of the same step: `final` and `latest` of a finished run are the same state."""
        known = {m.name: m for m in (*self._healthy(), *self.changed.values())}
        if name in ("latest", "final"):
            other = known.get("final" if name == "latest" else "latest")
            newest = max((m.step for m in known.values()), default=-1)
            same = other is not None and (
                other.step == old.step if old is not None else self._is_done() and other.step == newest
            )
            ended = name == "latest" or not self.set_back
            if other is not None and same and ended and not other.inexact:
                self.account.rebuilt.append(f"checkpoint '{name}' from '{other.name}', the same state")
                return other
        elif old is not None:
            for other in known.values():
                if other.step == old.step:
                    self.account.rebuilt.append(f"checkpoint '{name}' from '{other.name}', the same state")
                    return without_replay(other)
        return None

    def _is_done(self) -> bool:
        return self.run.facts().get("status") == "done"

    def _comes_again(self, manifest: Manifest) -> bool:
        """Whether a resume passes the step of a checkpoint again."""
        newest = self.newest()
        return newest is not None and newest.step < manifest.step and not newest.inexact

    def _healthy(self) -> list[Manifest]:
        return [m for m in self.manifests.values() if not self._lost_in(m)]

    def _not_exact(self, name: str, old: Manifest | None) -> Manifest | None:
        """What can be done without what is lost: a copy that is not exact, fewer transitions, or the state of a checkpoint to
        look at."""
        if name == "latest" and (copy := self._fetched(name, old, exact=False)) is not None:
            return copy
        if old is not None and all(
            logical.startswith(("replay/", "parity/")) for logical in self._lost_in(old)
        ):
            return self._without_segments(old)
        if name != "latest":
            return None
        base = max(
            (m for m in self._healthy() if m.name not in RESUMABLE), key=lambda m: m.step, default=None
        )
        if base is None:
            return None
        said = (
            f"step {base.step}: later states were lost and {REPAIRED} {_today()} from checkpoint "
            f"'{base.name}'; it is not exact."
        )
        self.account.lost.append(said)
        donors = [m for m in self.manifests.values() if m.replay is not None]
        donor = max(donors, key=lambda m: m.replay_step or 0, default=None)
        if donor is not None:
            donor = self._without_segments(donor) if self._lost_in(donor) else donor
            refs = {n: ref for n, ref in donor.objects.items() if n.startswith("replay/")}
            base = replace(
                base, objects={**base.objects, **refs}, replay=donor.replay, replay_step=donor.replay_step
            )
        return replace(base, inexact=(*base.inexact, said))

    def _without_segments(self, manifest: Manifest) -> Manifest:
        """The checkpoint with the transitions that are left, proven by restoring them."""
        from eigen2.replay import Replay
        from eigen2.replay.salvage import salvage
        from eigen2.replay.snapshot import manifest_segments

        assert manifest.replay is not None
        refs = {ref.hash: ref for ref in manifest.below("replay/").values()}

        def put(pieces: Sequence[Buffer]) -> str:
            ref = self.objects.put(pieces)
            refs[ref.hash] = ref
            return ref.hash

        with Checkpoint(manifest, self.objects).loading():
            left = salvage(manifest.replay, self.objects.read, self.bad, put)
            Replay.restore(left.manifest, self.objects.read)
        said = (
            f"step {manifest.step}: {left.lost:,} of {left.lost + left.kept:,} transitions were lost with damaged replay "
            f"objects and {REPAIRED} {_today()}; it is not exact."
        )
        # An object that could be computed again has its old name, and is good now.
        self.bad -= manifest_segments(left.manifest).keys()
        if left.lost and said not in self.account.lost:
            self.account.lost.append(said)
        light = without_replay(manifest)
        kept = {**light.objects} | {f"replay/{name}": refs[name] for name in manifest_segments(left.manifest)}
        inexact = manifest.inexact if left.lost == 0 else (*manifest.inexact, said)
        return replace(manifest, objects=kept, replay=left.manifest, inexact=inexact, parity=light.parity)


def _today() -> str:
    return time.strftime("%Y-%m-%d", time.gmtime())
