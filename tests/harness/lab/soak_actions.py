"""The soak: random actions on a world of runs, each followed by a look at what must be true."""

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from command_lab import resumable
from soak_troubles import Troubles
from soak_world import LIVES, MOST_PROBLEMS, Life, World, lines


class Soak:
    def __init__(self, world: World) -> None:
        self.world, self.stream = world, world.stream
        self.troubles = Troubles(world)
        self._actions: dict[str, tuple[int, Callable[[Life], None]]] = {
            "train": (10, self.train),
            "look": (5, self.look),
            "move": (1, self.move),
            "damage": (3, self.damage),
            "elsewhere": (2, self.elsewhere),
            "push": (1, self.push),
            "end": (1, self.end_of_life),
        }

    def run(self, seconds: float) -> None:
        """Until the time is over; then every run is trained to its end."""
        world, began, told = self.world, time.monotonic(), 0.0
        world.learn()
        while time.monotonic() - began < seconds and len(world.problems) < MOST_PROBLEMS:
            self.act()
            if time.monotonic() - told > 60:
                told = time.monotonic()
                self.world.tell(f"soak: {(told - began) / 60:.0f} min, {self.summary()}")
        for life in list(world.lives):
            if not life.away:
                self._do("conclude", life, lambda life: self.troubles.quiet(life, "--resume", life.path))

    def act(self) -> None:
        if len(self.world.lives) < LIVES and (not self.world.lives or self.stream.random() < 0.5):
            self.birth()
            return
        life = self.stream.choice(self.world.lives)
        weights = {name: weight for name, (weight, _) in self._actions.items()}
        if life.finished:
            # Nothing more can happen to its training.
            weights |= {"train": 1, "end": 5}
        if life.away:
            weights = {"elsewhere": 1}
        (name,) = self.stream.choices(list(weights), list(weights.values()))
        self._do(name, life, self._actions[name][1])

    def _do(self, name: str, life: Life, action: Callable[[Life], None]) -> None:
        world = self.world
        before = len(world.problems)
        world.doing = f"{name}: {life}"
        world.counts[name] += 1
        try:
            action(life)
        except (OSError, ValueError, LookupError) as error:
            world.problem(f"{life}: the soak itself stumbled: {error!r}")
        if life not in world.lives:
            return
        sound = world.examine(life)
        if len(world.problems) > before:
            world.keep_evidence(life)
        if not sound:
            world.bury(life)

    # Actions

    def birth(self) -> None:
        world = self.world
        world.born += 1
        kind = self.stream.choice([*world.kinds, "orders", "gym", "mlp"])
        on_small = world.small is not None and self.stream.random() < 0.25
        root = (
            world.small if on_small and world.small else world.base / f"machine-{self.stream.randint(1, 3)}"
        )
        life = Life(f"run-{world.born}", kind, root, cloud=not on_small and self.stream.random() < 0.35)
        world.lives.append(life)
        words = [*world.kinds[kind], f"run.root={root}", f"run.name={life.name}"]
        if life.cloud:
            words += [f"cloud.url=file://{world.bucket}", "cloud.drain_seconds=60"]
        self._do("birth", life, lambda life: self._troubled(life, *words))

    def train(self, life: Life) -> None:
        self._troubled(life, "--resume", life.path)

    def look(self, life: Life) -> None:
        """Readers of a run that rests."""
        if life.committed < 0:
            return
        for _ in range(self.stream.randint(1, 3)):
            self.troubles.look(life)
        if self.stream.random() < 0.3:
            self.world.command("verify-resume", life.path, allowed=(0, 2))
        if self.stream.random() < 0.2:
            # Before the first step some algorithms have no policy to give away.
            allowed = (0, 2) if life.committed == 0 else (0,)
            self.world.command("export", life.path, "--to", self.world.base / "export", allowed=allowed)
            shutil.rmtree(self.world.seen(self.world.base / "export"), ignore_errors=True)

    def move(self, life: Life) -> None:
        """To another machine's disk; a run without a cloud may get another name, too."""
        there = self.world.base / f"machine-{self.stream.randint(1, 3)}"
        if life.root == self.world.small:
            return
        there.mkdir(exist_ok=True)
        name = life.name if life.cloud else f"{life.name.partition('.')[0]}.{self.world.counts['move']}"
        os.rename(life.path, there / name)
        life.root, life.name = there, name

    def damage(self, life: Life) -> None:
        """Flip bits in a copy of the run; verify must see it, repair must not lose more than it says."""
        if life.committed < 0:
            return
        world = self.world
        twin = Life(life.name, life.kind, world.base / "twins")
        shutil.copytree(world.seen(life.path), twin.path, symlinks=True)
        flipped = [self._flip(twin.path) for _ in range(self.stream.choice((1, 1, 2, 5)))]
        world.doing = f"damage {', '.join(flipped)}: {life}"
        world.command("verify", twin.path, allowed=(5,))
        for verb in self.stream.sample(("evaluate", "fingerprint", "memory", "runs"), 2):
            path = ("--root", twin.root) if verb == "runs" else (twin.path,)
            done = world.command(verb, *path, allowed=(0, 2, 5) if verb == "evaluate" else (0, 5))
            # Before the first step some algorithms have no champion to evaluate; damage may throw a run back there.
            if done.code == 2 and life.committed > 0 and "of step 0 is used instead" not in done.err:
                world.problem("a damaged run that has a champion refuses to evaluate it", done)
        if self.stream.random() < 0.5:
            self._repair_from(life, twin)
        else:
            self._repair_alone(twin)
        shutil.rmtree(twin.path, ignore_errors=True)

    def _repair_from(self, life: Life, twin: Life) -> None:
        world = self.world
        world.counts["repair from a copy"] += 1
        done = world.command("repair", twin.path, "--from", life.path)
        world.command("verify", twin.path)
        if world.same_bits(twin.kind, twin.path) < resumable(world.seen(life.path)):
            world.problem("the repaired run is behind its good copy", done)

    def _repair_alone(self, twin: Life) -> None:
        """Its own cloud, if it has one, is asked; what cannot be had again is lost with a sentence."""
        world = self.world
        world.counts["repair alone"] += 1
        done = world.command("repair", twin.path, allowed=(0, 5))
        world.command("verify", twin.path, allowed=(0,) if done.code == 0 else (0, 5))
        if done.code == 0:
            world.same_bits(twin.kind, twin.path)
        world.command("train", "--resume", twin.path, "cloud.url=off", allowed=(0, 5))

    def elsewhere(self, life: Life) -> None:
        """The machine is gone; another one goes on from the bucket."""
        world = self.world
        remote = world.in_bucket(life)
        if not life.cloud or resumable(remote) < 0:
            return
        shutil.rmtree(world.seen(life.path), ignore_errors=True)
        life.evaluations = lines(remote / "evaluations.jsonl")
        life.committed, life.away = resumable(remote), True
        life.root = world.base / f"machine-{self.stream.randint(1, 3)}"
        words = ("--resume", f"file://{world.bucket}/{life.name}", f"run.root={life.root}")
        trouble = self.stream.choice(("quiet", "quiet", "kill", "kill_at_operation", "stop"))
        world.doing = f"elsewhere {trouble}: {life}"
        world.counts[f"with {trouble}"] += 1
        codes = world.codes.copy()
        getattr(self.troubles, trouble)(life, *words)
        ended = world.codes - codes
        # Once a process has stopped in order there, the run is that machine's.
        life.away = (
            not any(code.endswith((" 0", " 75")) for code in ended) or resumable(life.path) < life.committed
        )

    def push(self, life: Life) -> None:
        world = self.world
        if not life.cloud or life.committed < 0:
            return
        world.command("sync", "push", life.path)
        facts = json.loads(world.command("sync", "status", life.path, "--verify", "--json").out)
        if not facts["complete"]:
            world.problem(f"{life}: the bucket is not complete after a push: {facts}")

    def end_of_life(self, life: Life) -> None:
        """Room for others; a run without a cloud may be made again under its name."""
        world = self.world
        world.bury(life)
        if not life.cloud and self.stream.random() < 0.5:
            again = Life(life.name, self.stream.choice([*world.kinds]), life.root)
            world.lives.append(again)
            words = (*world.kinds[again.kind], f"run.root={again.root}", f"run.name={again.name}")
            self._do("again", again, lambda again: self._troubled(again, *words))

    def _troubled(self, life: Life, *words: str | Path) -> None:
        weights = self.troubles.possible(life)
        (trouble,) = self.stream.choices(list(weights), list(weights.values()))
        self.world.doing = f"{self.world.doing.split(':')[0]} {trouble}: {life}"
        self.world.counts[f"with {trouble}"] += 1
        getattr(self.troubles, trouble)(life, *words)

    def _flip(self, run: Path) -> str:
        """One bit of an object that a manifest names, or of a manifest."""
        manifests = sorted((run / "checkpoints").glob("*.json"))
        path = self.stream.choice(manifests)
        if self.stream.random() < 0.8:
            try:
                named = json.loads(path.read_bytes())["body"]["objects"].values()
                refs = sorted(ref["hash"] for ref in named if ref["size"])
            except (ValueError, LookupError, AttributeError):
                refs = []
            if refs:
                name = self.stream.choice(refs)
                path = run / "objects" / name[:2] / name[2:]
        content = bytearray(path.read_bytes())
        content[self.stream.randrange(len(content))] ^= 1 << self.stream.randrange(8)
        path.write_bytes(content)
        return str(path.relative_to(run))[:30]

    # The account

    def summary(self) -> str:
        actions = sum(
            count for name, count in self.world.counts.items() if not name.startswith(("with", "read"))
        )
        return f"{actions} actions, {self.world.commands} commands, {len(self.world.problems)} wrong"

    def table(self) -> str:
        world = self.world
        lines = [f"{name:32}{count:8}" for name, count in sorted(world.counts.items())]
        codes = [f"{name:44}{count:8}" for name, count in sorted(world.codes.items())]
        return "\n".join(["action, trouble or reader           times", *lines, "", "exit codes", *codes])
