"""The terminal while a run trains, as a picture: a real run, its box at one generation and the list of runs then.

python scripts/terminal_picture.py [TARGET] [STEP]      docs/pictures/terminal.svg at step 18
"""

import io
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from eigen2.harness.console import TrainingConsole
from eigen2.harness.run_table import chosen_runs, run_table
from eigen2.harness.training import Asked, start_run

WIDTH = 80


def main() -> None:
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/pictures/terminal.svg")
    at = int(sys.argv[2]) if len(sys.argv) > 2 else 18
    picture = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    stepped = TrainingConsole.stepped

    def noted(screen: TrainingConsole, step: int, metrics: Mapping[str, float]) -> None:
        stepped(screen, step, metrics)
        if step == at:
            screen.phase("train", 1, 3)
            picture.print("$ ./run train", highlight=False)
            picture.print(screen.box())
            picture.print("\n$ ./run runs", highlight=False)
            picture.print(run_table(chosen_runs(root, {})), highlight=False)

    TrainingConsole.stepped = noted  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        start_run([], Console(width=WIDTH), Asked(log_dir=root))
    target.parent.mkdir(parents=True, exist_ok=True)
    # Without the fonts that a browser would fetch from elsewhere.
    drawn = re.sub(r"(?s)@font-face \{.*?\n\s*\}", "", picture.export_svg(title="eigen2"))
    target.write_text(drawn, encoding="utf-8")
    print(target)


if __name__ == "__main__":
    main()
