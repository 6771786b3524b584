"""Runs `eigen2` commands in forked processes that need not import anything again.

A program for the tests: each line on stdin asks to start a command or to wait for one, each line on stdout answers.
The forked process is a real one, with its own exit code, signals and death; only its imports are borrowed. A
request may name moments at which something happens to it:

    {"on": "operation", "count": 17, "do": "SIGKILL"}       before the 17th system call that changes a file
    {"on": "stepped", "count": 2, "do": "SIGTERM"}          when the second step has ended
    {"on": "phase:validate", "count": 1, "do": "SIGUSR1"}   inside a step
    {"on": "stepped", "count": 1, "do": "fill", "path": p}  the disk runs full, leaving `room` bytes; "free" undoes it
    {"on": "stepped", "count": 1, "do": "wait", "path": p}  the thread waits for a file; others go on

A server that was started under failing_calls.so gives its children a disk that fails (`fault`).
"""

import ctypes
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

OPERATIONS = ("open", "write", "fsync", "replace", "unlink", "mkdir")


def serve(warm_up: list[list[str]]) -> None:
    _warm_up(warm_up)
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            _, status = os.waitpid(request["wait"], os.WUNTRACED if request["stopped"] else 0)
            held = os.WIFSTOPPED(status)
            answer = {"held": held, "status": 0 if held else os.waitstatus_to_exitcode(status)}
        else:
            answer = {"pid": _start(request)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _warm_up(commands: list[list[str]]) -> None:
    """Import what training imports, now and once."""
    from rich.console import Console

    from eigen2.harness.training import start_run

    with tempfile.TemporaryDirectory() as root, open(os.devnull, "w") as nothing:
        for overrides in commands:
            start_run([*overrides, f"run.root={root}"], Console(file=nothing))


def _start(request: dict[str, Any]) -> int:
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        code = _command(request)
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _command(request: dict[str, Any]) -> int:
    """In the child: become the command, and return its exit code."""
    os.setsid()
    os.chdir(request["cwd"])
    os.environ.update(request["environment"])
    for name, descriptor in (("out", 1), ("err", 2)):
        opened = os.open(request[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(opened, descriptor)
        os.close(opened)
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
    sys.argv = ["eigen2", *request["arguments"]]
    # The page cache outlives a killed process, so what fsync adds is seen by a power cut alone; the store's own tests
    # cut the power. Here it would only make every test wait for the disk.
    if request["fault"] is None:
        os.fsync = lambda fd: None
    else:
        _arm(**request["fault"])
    for moment in request["moments"]:
        _arrange(moment)
    if request["cpu_seconds"] is not None:
        # The default action of SIGPROF is death on the spot, as with SIGKILL, but after a time on the CPU: a kill
        # falls into the same kind of moment however busy the machine is.
        signal.setitimer(signal.ITIMER_PROF, request["cpu_seconds"])
    from eigen2.__main__ import main

    try:
        main()
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    return 0


def _arm(directory: str, first: int, last: int, error: int, reads: bool, log: str) -> None:
    arm = ctypes.CDLL(None).failing_calls_arm
    arm.argtypes = (
        ctypes.c_char_p,
        ctypes.c_long,
        ctypes.c_long,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_char_p,
    )
    arm(directory.encode(), first, last, error, reads, log.encode())


def _arrange(moment: dict[str, Any]) -> None:
    from eigen2.harness.console import TrainingConsole

    left = [moment["count"]]

    def tick() -> None:
        left[0] -= 1
        if left[0] == 0:
            _happen(moment)

    on, _, phase = moment["on"].partition(":")
    if on == "operation":
        for name in OPERATIONS:
            setattr(os, name, _before(getattr(os, name), tick))
    elif on == "stepped":
        TrainingConsole.stepped = _after(TrainingConsole.stepped, lambda *_: tick())  # type: ignore[method-assign]
    else:
        # A phase that only says that it begins (done = 0) has not happened yet.
        def begun(_: TrainingConsole, name: str, done: int, *__: object) -> None:
            if name == phase and done > 0:
                tick()

        TrainingConsole.phase = _after(TrainingConsole.phase, begun)  # type: ignore[method-assign]


def _before(function: Callable[..., Any], act: Callable[[], None]) -> Callable[..., Any]:
    def call(*arguments: Any, **options: Any) -> Any:
        act()
        return function(*arguments, **options)

    return call


def _after(function: Callable[..., Any], act: Callable[..., object]) -> Callable[..., Any]:
    def call(*arguments: Any) -> None:
        function(*arguments)
        act(*arguments)

    return call


def _happen(moment: dict[str, Any]) -> None:
    if moment["do"] == "fill":
        with open(moment["path"], "wb") as ballast:
            ballast.write(bytes(max(0, shutil.disk_usage(Path(moment["path"]).parent).free - moment["room"])))
    elif moment["do"] == "free":
        os.remove(moment["path"])
    elif moment["do"] == "wait":
        while not os.path.exists(moment["path"]):
            time.sleep(0.01)
    else:
        os.kill(os.getpid(), getattr(signal, moment["do"]))


if __name__ == "__main__":
    serve(json.loads(sys.argv[1]))
