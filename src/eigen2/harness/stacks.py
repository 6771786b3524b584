"""Where every thread of this process is."""

import sys
import sysconfig
import threading
import traceback

DEPTH = 60
"""Frames of a thread that are shown, the innermost ones."""
LIBRARY = sysconfig.get_paths()["stdlib"]
INSTALLED = (sysconfig.get_paths()["purelib"], sysconfig.get_paths()["platlib"])


def all_stacks() -> dict[str, list[str]]:
    """`file:line in function` by name of the thread, innermost last."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return {
        names.get(number, f"thread {number}"): [_words(frame) for frame in traceback.extract_stack(frame)][
            -DEPTH:
        ]
        for number, frame in sys._current_frames().items()
    }


def main_line() -> str:
    """Where the main thread is: the innermost line outside Python's own library, which only waits."""
    main = threading.main_thread().ident
    frame = sys._current_frames().get(main or 0)
    stack = [] if frame is None else traceback.extract_stack(frame)
    own = [one for one in stack if not one.filename.startswith(LIBRARY) or one.filename.startswith(INSTALLED)]
    return _words((own or stack)[-1]) if stack else "nowhere"


def _words(frame: traceback.FrameSummary) -> str:
    return f"{frame.filename}:{frame.lineno} in {frame.name}"
