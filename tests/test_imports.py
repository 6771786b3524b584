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

BOTTOM = {"bounds", "errors", "section", "seeds"}
LIBRARIES = {
    "market": set(),
    "replay": set(),
    "nets": set(),
    "envs": {"market"},
    "evaluation": {"market", "envs"},
}
"""Know no run, usable on their own; each with the libraries it may use."""
SERVICES = {"store": set(), "cloud": {"store"}, "memory": set()}
"""Know no RL and no config: they import errors and themselves; each with the services it may use."""
DOORS = {"algorithms.contract", "algorithms.registry", "evaluation.result", "evaluation.panels"}
"""All that the harness may know of algorithms and of what they find."""
CONFIG = {"algorithms.contract", "algorithms.registry", "algorithms.presets", "envs.config", "envs.control.config",
          "replay.config"}  # fmt: skip
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


def part(name: str) -> str:
    return name.split(".")[0]


def calls(path: Path) -> Iterator[tuple[str, ast.Call]]:
    """Dotted name and node of every call."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def modules(*names: str) -> list[Path]:
    return [path for path in MODULES if parts(path) and parts(path)[0] in names]


def strangers(paths: list[Path], known: set[str]) -> list[str]:
    """Imports of `paths` beyond `known`: whole parts, or single modules."""
    return [
        f"{path.relative_to(SOURCE)} imports eigen2.{name}"
        for path in paths
        for name in sorted(own_imports(path))
        if part(name) not in known and name not in known
    ]


def test_every_part_of_the_package_has_a_place() -> None:
    known = {
        *BOTTOM,
        *LIBRARIES,
        *SERVICES,
        "algorithms",
        "conf",
        "config",
        "harness",
        "report",
        "cli",
        "__main__",
    }
    assert {parts(path)[0] for path in MODULES if parts(path)} == known


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_library_knows_only_what_lies_below_it(name: str) -> None:
    assert strangers(modules(name), {name, *LIBRARIES[name], *BOTTOM}) == []


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_knows_only_the_errors_and_what_lies_below_it(name: str) -> None:
    assert strangers(modules(name), {name, *SERVICES[name], "errors"}) == []


def test_the_harness_knows_no_algorithm_no_environment_and_no_market() -> None:
    known = {"harness", *SERVICES, "replay", "config", *DOORS, *BOTTOM}
    # `algorithms` alone is how `from eigen2.algorithms import registry` reads.
    assert strangers(modules("harness"), known | {"algorithms"}) == []
    inside = [name for path in modules("harness") for name in own_imports(path) if part(name) == "algorithms"]
    assert set(inside) <= {"algorithms", "algorithms.contract"}
    for path in modules("harness"):
        assert "erl" not in path.read_text(encoding="utf-8").lower(), path
        assert "pwm" not in path.read_text(encoding="utf-8").lower(), path


def test_a_report_reads_run_directories_and_nothing_else() -> None:
    assert strangers(modules("report"), {"report", "harness", "store", "errors"}) == []


def test_the_contract_knows_nothing_above_or_beside_it() -> None:
    contract = SOURCE / "algorithms" / "contract.py"
    # Config and Replay are names in signatures only.
    known = {"evaluation.result", "evaluation.panels", "section", "config", "replay", "errors"}
    assert own_imports(contract) <= known
    assert strangers([SOURCE / "algorithms" / "registry.py"], {"algorithms.contract", "errors"}) == []


def test_algorithms_know_no_disk_and_not_each_other() -> None:
    home = SOURCE / "algorithms"
    shared = {f"algorithms.{path.stem}" for path in home.glob("*.py")}
    packages = {path.parent.name for path in home.glob("*/__init__.py")}
    assert packages == {"erl", "pwm", "sb3"}
    for package in packages:
        own = [path for path in modules("algorithms") if parts(path)[1:2] == (package,)]
        mine = {
            name
            for path in own
            for name in own_imports(path)
            if f"{name}.".startswith(f"algorithms.{package}.")
        }
        assert strangers(own, {*LIBRARIES, *BOTTOM, "config"} | shared | mine) == []


def test_the_config_knows_only_sections_and_the_registry() -> None:
    assert strangers([SOURCE / "config.py"], CONFIG | BOTTOM | {"algorithms"}) == []


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
                assert parts(path) == ("algorithms", "pwm", "export"), path
            if name == "torch.load":
                assert options.get("weights_only") == "True", path


def test_no_global_random_generator_is_read() -> None:
    wrong = []
    # One module hands the global generators to libraries that insist on them, and takes them back.
    for path in set(MODULES) - {SOURCE / "algorithms" / "global_generators.py"}:
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


@pytest.mark.parametrize(
    "module",
    [
        "eigen2.cli",
        "eigen2.errors",
        "eigen2.harness.listing",
        "eigen2.store.integrity",
        "eigen2.config",
        "eigen2.memory.pictures",
        "eigen2.memory.limits",
    ],
)
def test_what_needs_no_network_starts_without_torch(module: str) -> None:
    heavy = "{'torch', 'pandas', 'gymnasium', 'stable_baselines3'}"
    script = f"import sys, {module}; sys.exit(', '.join(sorted({heavy} & set(sys.modules))) or None)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{module} imports {done.stderr}"
