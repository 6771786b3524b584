"""The process in which trackers work: it follows a run's metrics, as its parent says that there are news.

Its first line of input says what to follow; every further one that there is news, the last one how the run ended. What
fails goes out in lines that begin with MARK, beside whatever the trackers' packages print.
"""

import json
import os
import signal
import sys
import threading
from pathlib import Path

from eigen2.harness.following import Following
from eigen2.harness.place import held
from eigen2.harness.trackers import Tracked

MARK = "\x1etracking "
DONE, STOPPED = "done\n", "stopped\n"
PATIENCE = 60.0
"""Seconds that trackers may take for the last steps."""


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    order = json.loads(sys.stdin.readline())
    tracked = Tracked(Path(order["directory"]), order["name"], order["id"], order["config"])
    with held(tracked.directory) as place:
        following = Following(place, tracked, order["trackers"], order["step"], _tell)
        ended, line = "", "\n"
        # A killed trainer says nothing more; somebody else may resume the run at once, and the log is then theirs.
        while line and not ended and os.getppid() == order["parent"]:
            following.news()
            line = sys.stdin.readline()
            ended = line if line in (DONE, STOPPED) else ""
        timer = threading.Timer(PATIENCE, os._exit, (1,))
        timer.daemon = True
        timer.start()
        if ended:
            following.news()
        following.end(ended == DONE, keep=bool(ended))
    # Packages that still try to reach somebody are not waited for.
    sys.stdout.flush()
    os._exit(0)


def _tell(message: str) -> None:
    sys.stdout.write(f"{MARK}{json.dumps(message)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
