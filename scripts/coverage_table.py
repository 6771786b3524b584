"""How much of each package the tests ran, one line per package: `./run test --coverage` ends with it.

Only lines that the test processes ran themselves are counted. Most tests of cli.py and harness/ start real commands;
what those run is not measured, so the figures of these two are far too low.
"""

import sys
from collections import defaultdict
from pathlib import Path

import coverage

import eigen2


def counted(data_file: str) -> dict[str, tuple[int, int]]:
    """Statements, and those that were run, by package; a module directly below eigen2 counts as eigen2."""
    measured = coverage.Coverage(data_file=data_file, config_file=False)
    measured.load()
    root = Path(eigen2.__file__).parent
    found: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for file in measured.get_data().measured_files():
        _, statements, _, missing, _ = measured.analysis2(file)
        package = ".".join(Path(file).parent.relative_to(root.parent).parts)
        before, before_run = found[package]
        found[package] = before + len(statements), before_run + len(statements) - len(missing)
    return dict(found)


def main(data_file: str) -> None:
    found = {package: counts for package, counts in sorted(counted(data_file).items()) if counts[0]}
    total = tuple(sum(counts) for counts in zip(*found.values(), strict=True))
    print(f"\n{'package':<28} {'lines':>6} {'run':>6}      in the tests' own processes")
    for package, (lines, run) in [*found.items(), ("all", total)]:
        print(f"{package:<28} {lines:>6} {run:>6} {run / lines:>5.0%}")


if __name__ == "__main__":
    main(sys.argv[1])
