"""Dependencies point downwards, and nothing in the package prints, unpickles or draws from a global generator."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import eigen2

SOURCE = Path(eigen2.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))

BOTTOM = {"errors", "section", "seeds"}
LAYERS: tuple[set[str], ...] = (
    BOTTOM,
    {"market"},
    {"replay", "envs", "nets"},
    {"evaluation"},
    {"erl", "pwm"},
    {"runs"},
    {"cli"},
    {"__main__"},
)
"""A module may import from its own part and from the parts of lower layers, never from beside or above."""
CONFIG_IMPORTS = {
    "market.config", "envs.config", "envs.control.config", "erl.config", "pwm.config", "replay.config",
    "errors", "section",
}  # fmt: skip
CONFIG_USERS = {"runs", "cli"}
STORE_USERS = {"runs", "cli"}
GLOBAL_GENERATORS = {"seed", "rand", "randn", "randint", "random", "choice", "shuffle", "normal", "uniform",
                     "permutation", "standard_normal", "get_state", "set_state"}  # fmt: skip
"""Functions of `numpy.random` that read or change its global generator."""
TORCH_DRAWS = {"rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial"}


def parts(path: Path) -> tuple[str, ...]:
    """eigen2/runs/loop.py -> ("runs", "loop"); a package's __init__ is the package itself."""
    names = path.relative_to(SOURCE).with_suffix("").parts
    return names[:-1] if names[-1] == "__init__" else names


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(path: Path) -> Iterator[str]:
    """Every module name a file imports, at its top or inside functions."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} uses a relative import"
            module = node.module or ""
            yield module
            # `from eigen2 import seeds` names a module, not something inside one.
            if module == "eigen2":
                yield from (f"eigen2.{alias.name}" for alias in node.names)


def own_imports(path: Path) -> set[str]:
    """Modules of the package that a file imports, without the leading `eigen2.`."""
    return {name.removeprefix("eigen2.") for name in imported(path) if name.startswith("eigen2.")}


def layer(part: str) -> int:
    return next(level for level, names in enumerate(LAYERS) if part in names)


def calls(path: Path) -> Iterator[tuple[str, ast.Call]]:
    """Dotted name and node of every call."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def test_every_part_of_the_package_has_a_place_in_the_order() -> None:
    known = set().union(*LAYERS) | {"store", "config", "conf"}
    assert {parts(path)[0] for path in MODULES if parts(path)} <= known


def test_dependencies_point_downwards() -> None:
    wrong = [
        f"{path.relative_to(SOURCE)} imports eigen2.{name}"
        for path in MODULES
        if parts(path) and parts(path)[0] not in ("store", "config", "conf")
        for name in own_imports(path)
        if (other := name.split(".")[0]) not in (parts(path)[0], "store", "config")
        and layer(other) >= layer(parts(path)[0])
        and not {other, parts(path)[0]} <= BOTTOM
    ]
    assert wrong == []


def test_the_parts_of_one_layer_do_not_know_each_other() -> None:
    wrong = [
        f"{path.relative_to(SOURCE)} imports eigen2.{name}"
        for path in MODULES
        for name in own_imports(path)
        for names in LAYERS[1:]
        if parts(path)
        and {parts(path)[0], name.split(".")[0]} <= names
        and parts(path)[0] != name.split(".")[0]
    ]
    assert wrong == []


def test_the_store_is_used_by_runs_alone_and_knows_only_the_errors() -> None:
    for path in MODULES:
        if not parts(path):
            continue
        used = {name.split(".")[0] for name in own_imports(path)}
        if parts(path)[0] == "store":
            assert used <= {"store", "errors"}, path
        elif "store" in used:
            assert parts(path)[0] in STORE_USERS, path


def test_the_config_knows_only_the_sections_and_algorithms_do_not_know_the_config() -> None:
    assert own_imports(SOURCE / "config.py") <= CONFIG_IMPORTS
    for path in MODULES:
        if "config" in own_imports(path):
            assert parts(path)[0] in CONFIG_USERS, path


def test_the_package_imports_no_tests_and_no_benchmarks() -> None:
    root = SOURCE.parents[1]
    outside = {"tests", "bench", "conftest"} | {path.stem for path in (root / "bench").glob("*.py")}
    standard = set(sys.stdlib_module_names)
    for path in MODULES:
        assert not {name.split(".")[0] for name in imported(path)} & outside - standard, path


def test_nothing_in_the_package_prints() -> None:
    assert [str(path) for path in MODULES for name, _ in calls(path) if name == "print"] == []


def test_nothing_is_pickled_or_unpickled() -> None:
    banned = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
    for path in MODULES:
        assert not {name.split(".")[0] for name in imported(path)} & banned, path
        for name, call in calls(path):
            assert name not in ("pd.read_pickle", "pandas.read_pickle"), path
            options = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
            assert options.get("allow_pickle", "False") == "False", path
            if name in ("torch.load", "torch.save"):
                # The .pt files that `export` makes for other programs are the one place, and loading runs no code.
                assert parts(path) == ("pwm", "export"), path
            if name == "torch.load":
                assert options.get("weights_only") == "True", path


def test_no_global_random_generator_is_read() -> None:
    wrong = []
    for path in MODULES:
        if "random" in set(imported(path)):
            wrong.append(f"{path} imports random")
        for name, call in calls(path):
            module, _, function = name.rpartition(".")
            drawn = module in ("np.random", "numpy.random") and function in GLOBAL_GENERATORS
            seeded = name in ("torch.manual_seed", "torch.seed", "torch.cuda.manual_seed_all")
            keywords = {keyword.arg for keyword in call.keywords}
            unnamed = module == "torch" and function in TORCH_DRAWS and "generator" not in keywords
            if drawn or seeded or unnamed:
                wrong.append(f"{path}:{call.lineno} calls {name}")
    assert wrong == []


@pytest.mark.parametrize("module", ["eigen2.cli", "eigen2.errors"])
def test_the_command_line_starts_without_torch(module: str) -> None:
    heavy = "{'torch', 'pandas', 'gymnasium', 'hydra'}"
    script = f"import sys, {module}; sys.exit(', '.join(sorted({heavy} & set(sys.modules))) or None)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{module} imports {done.stderr}"
