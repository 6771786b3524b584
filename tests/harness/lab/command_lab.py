"""How the tests run `eigen2`: real processes, tiny configurations."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

ROUNDING = 1e-4
"""What a few steps of training may differ on another processor, relatively: one without AVX2 was 1.4e-5 off."""
SERVER = Path(__file__).with_name("command_server.py")
ALGORITHM = (
    "alg.population=4", "alg.generations=3", "alg.windows=2", "alg.validation_windows=2", "alg.learners=1",
    "alg.elites=1", "alg.gradient_steps=2", "alg.batch=16", "alg.learning_starts=10", "alg.hidden=8",
    "replay.capacity=2000", "run.report=false",
)  # fmt: skip
ORDERS = (
    "env.data=random_walk", "env.synthetic.days=400", "env.synthetic.symbols=4", "env.window=8",
    "env.trading_days=20", "env.settlement_days=5", "env.max_holding_days=5", "env.validation_days=60",
    "env.holdout_days=60", "env.embargo_days=5", "alg.direct_steps=0", *ALGORITHM,
)  # fmt: skip
"""Four agents, three generations, four symbols: less than a second of training."""
WEIGHTS = (
    *ORDERS, "env.actions=weights", "alg.direct_steps=2",
)  # fmt: skip
PENDULUM = ("env=gym", "env.id=Pendulum-v1", "env.max_episode_steps=20", *ALGORITHM)
SMALL_PWM = (
    "env=pendulum", "alg.iterations=3", "alg.environments=4", "alg.steps=4", "alg.random_steps=12",
    "alg.horizon=4", "alg.evaluate_every=1", "alg.evaluate_episodes=2", "alg.model.updates=2",
    "alg.model.bootstrap_updates=2", "alg.model.batch=8", "alg.model.latent=16", "alg.model.encoder_units=[16]",
    "alg.model.units=[16]", "alg.actor.units=[16]", "alg.actor.batch=8", "alg.actor.updates=1",
    "alg.critic.units=[16]", "replay.capacity=2000", "checkpoint.every=1", "run.report=false",
)  # fmt: skip
WORLD_MODEL = ("alg=pwm_tiny", *SMALL_PWM)
FLOW_WORLD_MODEL = (
    "alg=pwm_tiny_flow", "alg.model.flow.integrator=heun", "alg.model.flow.substeps=4", *SMALL_PWM,
)  # fmt: skip
SB3 = {
    name: (
        f"alg=sb3_{name}", "env=gym", "env.max_episode_steps=30", "alg.env_steps=150", "alg.steps_per_round=50",
        "alg.evaluate_episodes=1", f"alg.settings={{{settings}, policy_kwargs: {{net_arch: [8]}}}}", "replay.capacity=1000",
        "run.report=false",
    )
    for name, settings in (
        ("sac", "learning_starts: 20, batch_size: 16, train_freq: 3"), ("td3", "learning_starts: 20, batch_size: 16, train_freq: 3"),
        ("ppo", "n_steps: 50, batch_size: 25, n_epochs: 2"),
    )
}  # fmt: skip
PLUG_INS = os.pathsep.join(str(Path(__file__).parents[3] / place) for place in ("examples", "tests/plugin"))
"""PYTHONPATH under which alg=random_search, the example, is registered."""
RANDOM_SEARCH = (
    "alg=random_search",
    "env=gym",
    "env.max_episode_steps=30",
    "alg.tries=8",
    "run.report=false",
)


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    """Exit code; minus the signal's number when it was killed."""
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON value on stdout."""
        (line,) = self.out.splitlines()
        return json.loads(line)

    @property
    def killed(self) -> bool:
        return self.code < 0


@dataclass(frozen=True)
class Moment:
    """Something that happens to a command on the `count`-th time; see command_server.py."""

    on: str
    do: str
    count: int = 1
    path: str = ""
    room: int = 0


@dataclass(frozen=True)
class Fault:
    """A disk whose file operations `first` to `last` below `directory` fail; see failing_calls.c."""

    directory: Path
    log: Path
    """Gets a line for every operation below the directory."""
    first: int = 0
    last: int = 0
    error: int = errno.EIO
    reads: bool = False
    """Reading counts, too."""

    def request(self) -> dict[str, Any]:
        return vars(self) | {"directory": str(self.directory), "log": str(self.log)}

    def environment(self) -> str:
        """EIGEN2_FAILING_CALLS for a process that is not forked here."""
        return f"{self.first}:{self.last}:{self.error}:{int(self.reads)}:{self.directory}:{self.log}"


def compiled(source: str, directory: Path) -> Path | None:
    """A library of this directory to be loaded first, built in `directory`; None where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or sys.platform != "linux":
        return None
    library = directory / f"{Path(source).stem}.so"
    command: list[str | Path] = [
        compiler,
        "-O1",
        "-shared",
        "-fPIC",
        "-o",
        library,
        Path(__file__).with_name(source),
        "-ldl",
    ]
    subprocess.run(command, check=True)
    return library


class Started:
    """A command that is running."""

    def __init__(self, lab: "Lab", pid: int, out: Path, err: Path) -> None:
        self.lab, self.pid, self.out, self.err = lab, pid, out, err

    def wait(self) -> Done:
        code = int(self.lab.ask({"wait": self.pid, "stopped": False})["status"])
        return Done(code, self.out.read_text(encoding="utf-8"), self.err.read_text(encoding="utf-8"))

    def wait_stopped(self) -> None:
        """Wait for the moment at which SIGSTOP holds the command; `signal(SIGCONT)` lets it go on."""
        assert self.is_held(), self.err.read_text(encoding="utf-8")

    def is_held(self) -> bool:
        """The same; False when the command came to its end instead, which must not be waited for again."""
        return bool(self.lab.ask({"wait": self.pid, "stopped": True})["held"])

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)


class Lab:
    """Runs commands below `directory`, which is their working directory unless another is given."""

    def __init__(
        self, directory: Path, prefix: tuple[str, ...] = (), warm_up: tuple[tuple[str, ...], ...] = ()
    ) -> None:
        self.directory = directory
        # The package under test is the one that the tests import, also when it is not the installed one.
        inherited = [os.environ["PYTHONPATH"]] if "PYTHONPATH" in os.environ else []
        self._server = subprocess.Popen(
            [*prefix, sys.executable, str(SERVER), json.dumps(warm_up)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([PLUG_INS, *inherited])},
        )
        self._count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait()

    @property
    def pid(self) -> int:
        return self._server.pid

    def start(
        self,
        *arguments: str | Path,
        cwd: Path | None = None,
        moments: tuple[Moment, ...] = (),
        cpu_seconds: float | None = None,
        environment: dict[str, str] | None = None,
        fault: Fault | None = None,
    ) -> Started:
        # A page, and a film, for every run of the tests would take longer than the runs.
        own = any(str(argument).startswith(("run.report=", "--show-config")) for argument in arguments)
        if arguments[:1] == ("train",) and not own:
            arguments = (*arguments, "run.report=false")
        self._count += 1
        out, err = (self.directory / f"command-{self._count}.{kind}" for kind in ("out", "err"))
        for path in (out, err):
            # A command that a signal ends before it opens them has said nothing.
            path.touch()
        answer = self.ask(
            {
                "arguments": [str(argument) for argument in arguments],
                "cwd": str(cwd or self.directory),
                # As it is now: the process that commands are forked from is older than the test.
                "environment": {"EIGEN2_LEDGER": os.environ["EIGEN2_LEDGER"], **(environment or {})},
                "out": str(out),
                "err": str(err),
                "moments": [vars(moment) for moment in moments],
                "cpu_seconds": cpu_seconds,
                "fault": None if fault is None else fault.request(),
            }
        )
        return Started(self, answer["pid"], out, err)

    def run(self, *arguments: str | Path, **options: Any) -> Done:
        return self.start(*arguments, **options).wait()

    def train(
        self, run_name: str, overrides: tuple[str, ...], root: Path, *more: str, **options: Any
    ) -> Path:
        """Train to the end; returns the run directory."""
        done = self.run("train", *overrides, f"run.root={root}", f"run.name={run_name}", *more, **options)
        assert done.code == 0, done.err
        return root / run_name

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        answer: dict[str, Any] = json.loads(self._server.stdout.readline())
        return answer


def write_prices(path: Path, factor: float = 1.0) -> None:
    """A user's own file: the closes of four symbols."""
    import numpy as np
    import pandas as pd

    steps = np.random.Generator(np.random.PCG64(1)).normal(0, 0.01, (400, 4))
    table = pd.DataFrame(100 * factor * np.exp(steps.cumsum(axis=0)), columns=["A", "B", "C", "D"])
    table.insert(0, "date", pd.bdate_range("2015-01-01", periods=400))
    table.to_csv(path, index=False)


def newest(run: Path) -> int:
    """Step of the newest committed checkpoint; -1 when there is none."""
    manifests = [json.loads(path.read_bytes())["body"] for path in (run / "checkpoints").glob("*.json")]
    return max((manifest["step"] for manifest in manifests), default=-1)


def resumable(run: Path) -> int:
    """Step of the newest checkpoint that a resume may take; -1 when there is none, or `init` alone."""
    paths = [run / "checkpoints" / f"{name}.json" for name in ("latest", "previous", "final")]
    texts = [path.read_bytes() for path in paths if path.exists()]
    return max((json.loads(text)["body"]["step"] for text in texts), default=-1)


def files(run: Path) -> dict[str, bytes]:
    """Everything in a run, by its path there."""
    return {str(path.relative_to(run)): path.read_bytes() for path in run.rglob("*") if path.is_file()}


def story(run: Path) -> dict[str, bytes]:
    """What two runs of the same seed must have in common to the last byte, beside their fingerprint."""
    return {
        name: (run / name).read_bytes()
        for name in ("metrics.jsonl", "lineage.jsonl", "best_agent.safetensors")
    }
