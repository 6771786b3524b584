"""What a run leaves on disk and sends on the way: states that are kept and superseded, the replay, logs."""

import math

from eigen2.algorithms.contract import Needs
from eigen2.config import Config
from eigen2.harness.reporting import page_bytes
from eigen2.replay.size import ReplaySize
from eigen2.store.parity import group_size

MANIFEST = 4_000
MANIFEST_SEGMENT = 410
"""Bytes of a manifest, and of each replay segment that it names."""
MOST_SAVES = 500
"""Saves that are looked at one by one."""
OBJECT = 16 << 20
"""Bytes of the largest object that a state is cut into."""
FACTS = 8_000
"""config.yaml, run.json and the first lines of the logs."""


def replay_size(config: Config, needs: Needs) -> ReplaySize | None:
    return ReplaySize(needs.record, config.replay.capacity) if needs.record else None


class Saves:
    """When a run of `steps` steps saves, its start aside: every n-th step, and its end."""

    def __init__(self, steps: int, every: int) -> None:
        self.steps, self.every = steps, every

    @property
    def count(self) -> int:
        return -(-self.steps // self.every)

    def at(self, number: int) -> int:
        """Step of the save `number`, counted from 1."""
        return min(number * self.every, self.steps)

    def some(self) -> list[int]:
        """Steps of saves spread evenly over the run, the last two among them: all, if they are not very many."""
        count = self.count
        stride = max(1, count // MOST_SAVES)
        return (
            [self.at(n) for n in sorted({*range(1, count + 1, stride), max(1, count - 1), count})]
            if count
            else []
        )


def disk_use(config: Config, needs: Needs) -> dict[str, tuple[int, int]]:
    """Bytes that are left at the end, and that are sent on the way, by component."""
    saves = Saves(needs.steps, config.checkpoint.every).count
    changing = needs.state - needs.best
    kept = needs.first_state + min(saves, 2) * changing
    chances = min(needs.evaluations, saves)
    # Among many checkpoints the best is an older one, and the newest ones carry the same copy of it. Among a few it is as
    # likely as not.
    older = not needs.best_is_newest and chances > 4
    kept += changing + needs.best if older else min(2, chances) * needs.best
    kept += changing // 2 if 2 < chances <= 4 else 0
    kept += needs.best_agent
    sent = needs.first_state + saves * changing + chances * needs.best + needs.best_agent
    replay_kept, replay_sent, named, all_named = _replay_disk(config, needs)
    manifests = 5 * MANIFEST + named * MANIFEST_SEGMENT
    sent_manifests = (2 * saves + 3) * MANIFEST + all_named * MANIFEST_SEGMENT
    logs = needs.steps * needs.log + FACTS
    page = page_bytes(needs.steps, needs.evaluation) if config.run.report else 0
    return {
        "checkpoints": (kept, sent),
        "replay": (replay_kept, replay_sent),
        "parity": _parity(config, needs, older),
        "logs": (logs + manifests + needs.evaluation, logs + sent_manifests + needs.evaluation),
        "own data": (needs.own_data, needs.own_data),
        "report": (page, page),
    }


def _replay_disk(config: Config, needs: Needs) -> tuple[int, int, int, int]:
    """Bytes kept and sent; segments named by the manifests at the end, and by all that were sent."""
    size = replay_size(config, needs)
    if size is None or not needs.steps:
        return 0, 0, 0, 0
    packed = needs.packed if config.replay.compress else 1.0
    # A save that leaves the replay out names the one before.
    saves = Saves(needs.steps, math.lcm(config.checkpoint.every, config.replay.every))
    saved = saves.some()
    share = saves.count / len(saved)
    written = [needs.transitions * step // needs.steps for step in saved]
    tails = [size.tail(count) for count in written]
    in_segments = round(share * sum(tails)) + (written[-1] // size.segment) * size.segment * size.record
    # The checkpoint before names its own open segment, and what has left since.
    left = (
        max(0, min(written[-1] - size.capacity, written[-1] - written[-2])) * size.record
        if len(tails) > 1
        else 0
    )
    kept = size.stored(written[-1]) + (tails[-2] + left if len(tails) > 1 else 0)
    named = [-(-size.stored(count) // (size.segment * size.record)) for count in written]
    return round(packed * kept), round(packed * in_segments), 3 * named[-1], round(2 * share * sum(named))


def _parity(config: Config, needs: Needs, best_is_older: bool) -> tuple[int, int]:
    """What `checkpoint.parity` adds: each group of objects one more, as long as its longest. States and the replay are
    grouped apart; the groups of a state change with every save, of the replay those do that a new segment joins."""
    if not config.checkpoint.parity:
        return 0, 0
    most = group_size(config.checkpoint.parity)

    def of_state(size: int) -> int:
        return -(-size // (OBJECT * most)) * min(OBJECT, round(needs.largest * size))

    saves = Saves(needs.steps, config.checkpoint.every).count
    kept = of_state(needs.first_state) + (min(saves, 2) + best_is_older) * of_state(needs.state)
    sent = of_state(needs.first_state) + saves * of_state(needs.state)
    size = replay_size(config, needs)
    if size is None or not needs.steps:
        return kept, sent
    packed = needs.packed if config.replay.compress else 1.0
    replays = Saves(needs.steps, math.lcm(config.checkpoint.every, config.replay.every))
    written = [needs.transitions * step // needs.steps for step in replays.some()]
    longest = [round(packed * size.record * min(count, size.segment)) for count in written]
    groups = -(-size.stored(written[-1]) // (size.segment * size.record * most))
    kept += groups * longest[-1] + (longest[-2] if len(written) > 1 else 0)
    full = written[-1] // (size.segment * most) * longest[-1]
    return kept, sent + full + round(replays.count / len(written) * sum(longest))


def saved_at_once(config: Config, needs: Needs) -> int:
    """What a save of the replay writes before the old ones go."""
    size = replay_size(config, needs)
    if size is None or not needs.steps:
        return 0
    share = min(needs.transitions // needs.steps * config.checkpoint.every, size.slots)
    return share * size.record + size.segment * size.record
