"""What the pages name is there: files, commands, settings, benchmarks."""

import re
import shlex
from pathlib import Path

import pytest

from eigen2.cli import app
from eigen2.config import load_config

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + [*ROOT.glob("docs/*.md")]
)
OWN_VERBS = {"setup", "setup-test-system", "test", "check", "bench"}
"""Of the script `run`."""
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = sorted(
    {
        line.partition("#")[0].strip()
        for line in README.splitlines()
        if line.startswith("./run ") and "RUN" not in line.partition("#")[0]
    }
)


def verbs() -> set[str]:
    named = {command.name or getattr(command.callback, "__name__", "") for command in app.registered_commands}
    return {name.replace("_", "-") for name in named} | {str(group.name) for group in app.registered_groups}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8"))
    inside = [link for link in links if not link.startswith(("http:", "https:", "mailto:"))]
    assert [link for link in inside if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_of_the_readme_exist(command: str) -> None:
    _, verb, *words = shlex.split(command)
    assert verb in verbs() | OWN_VERBS
    overrides = [word for word in words if "=" in word and not word.startswith("-")]
    if verb in {"train", "plan"}:
        assert load_config([word for word in overrides if "track" not in word]).seed >= 0


def test_the_benchmarks_and_slow_tests_that_are_named_exist() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    benchmarks = set(re.findall(r"\./run bench (\w+)", text)) - {"NAME"}
    assert len(benchmarks) > 15
    assert [name for name in benchmarks if not (ROOT / "bench" / f"{name}.py").exists()] == []
    slow = set(re.findall(r"test --slow (\w+)", text)) - {"NAME"}
    tests = "".join(str(path) + path.read_text(encoding="utf-8") for path in ROOT.glob("tests/**/test_*.py"))
    assert [name for name in slow if name not in tests] == []


def test_the_files_that_the_architecture_names_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = {name for name in re.findall(r"`([\w/]+\.py)`", text) if "/" in name}
    assert len(named) > 30
    places = (ROOT / "src" / "eigen2", ROOT)
    missing = [name for name in named if not any((place / name).exists() for place in places)]
    assert missing == []


def test_one_page_for_each_question() -> None:
    """Every page is linked from the README."""
    linked = set(re.findall(r"\]\((docs/[\w-]+\.md)", README))
    assert {f"docs/{page.name}" for page in PAGES if page.parent.name == "docs"} == linked


def test_every_command_is_named_in_the_readme() -> None:
    assert verbs() - set(re.findall(r"[\w-]+", README)) == set()
