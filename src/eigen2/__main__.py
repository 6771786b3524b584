"""The command `eigen2`."""

import os
import signal


def main() -> None:
    try:
        from eigen2.cli import main as command
    except KeyboardInterrupt:
        # Ctrl+C while libraries are loaded: nothing has begun, and nobody wants a traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
        raise
    command()


if __name__ == "__main__":
    main()
