"""What the pages show is what happens: every command of their shell blocks is run, every file and link is there."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from command_lab import WORLD_MODEL, Lab
from page_runner import (
    LANGUAGES,
    NOT_RUN,
    PAGES,
    ROOT,
    SCRIPT_VERBS,
    Reader,
    blocks,
    commands,
    inline_commands,
    less_effort,
    python_blocks,
    require_accepted,
)

from eigen2.cli import app
from eigen2.config import load_config
from eigen2.envs.control.camera import choose_renderer
from eigen2.errors import ConfigError

README = ROOT / "README.md"
DOCS = ROOT / "docs"
OWN_TEST = {DOCS / "a-day.md", DOCS / "pwm.md"}
"""Pages whose commands are run by a test that also looks at what they say."""
PLACEHOLDERS = re.compile(r"\b(RUN|FILE|URL|PATH|DIR|KEY|WORD|SECTION|NAME|OVERRIDES)\b")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small runs that pages name, trained when the first of them does."""
    return tmp_path_factory.mktemp("pages")


@pytest.fixture
def reader(lab: Lab, tmp_path: Path, trained: Path) -> Reader:
    return Reader(lab, tmp_path, trained)


def can_draw() -> bool:
    try:
        choose_renderer()
    except ConfigError:
        return False
    return True


@pytest.mark.parametrize("page", [p for p in PAGES if commands(p) and p not in OWN_TEST], ids=name_of)
def test_every_command_of_a_page_works(page: Path, reader: Reader) -> None:
    reader.type(["python", "examples/prices_like_yfinance.py", "prices.csv"])
    for words in commands(page):
        if words[1] != "film" or can_draw():
            reader.type(words)


def test_every_command_of_a_day_works_and_says_what_it_should(reader: Reader) -> None:
    (reader.directory / "mine.csv").write_text("symbol,weight\nAAPL,0.5\nKO,0.5\n")
    (reader.directory / "holdings.csv").write_text("symbol,shares\nAAPL,20\nCASH,9000\n")
    for words in commands(DOCS / "a-day.md"):
        reader.type(words)
    said, run = reader.said, reader.directory / "runs" / "erl_prices_seed7"
    checked = said["data check prices.csv"]
    for sentence in (
        "yfinance, CSV, a column per field and symbol", "6: AAPL, IBM, JNJ, KO, MSFT, XOM",
        "1200, 2016-01-04 to 2020-08-07", "daily; a year has 252", "holdout      251 days", "can be used",
    ):  # fmt: skip
        assert sentence in checked, checked
    assert (run / "checkpoints" / "final.json").is_file()
    decided = [text for command, text in said.items() if command.startswith("decide")]
    assert ["seen until 2020-08-07" in text for text in decided] == [True, True, False, False]
    assert all("seen until 2020-08-10" in text for text in decided[2:])
    assert "verdict: " in said["evaluate erl_prices_seed7 --split holdout"]
    kinds = {path.name.rpartition("-")[2] for path in (run / "evaluations").iterdir()}
    assert kinds == {"holdout", "validation", "walk_forward"}


def test_the_commands_and_the_code_of_the_page_about_pwm_work(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = DOCS / "pwm.md"
    for words in commands(page):
        reader.type(words)
    monkeypatch.chdir(reader.directory)
    for code in python_blocks(page):
        names: dict[str, float] = {}
        exec(code, names)
        assert np.isfinite(names.get("total", 0.0))
    pretraining = (*WORLD_MODEL, "alg.pretrain.replay=my_data", "alg.pretrain.updates=2")
    assert reader.lab.run("train", *pretraining, cwd=reader.directory).code == 0
    info = reader.lab.run("replay", "info", "my_data", "--json", cwd=reader.directory)
    assert info.json["transitions"] == 400


def test_what_a_test_adds_to_a_command() -> None:
    assert "alg.generations=3" in less_effort(shlex.split("train env.data=prices.csv"))
    assert "alg.learners=4" in less_effort(shlex.split("train alg=erl_ddpg"))
    assert less_effort(["train", "--resume"]) == less_effort(["verify", "erl_sp20_seed7"]) == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_block_says_what_it_is(page: Path) -> None:
    """```sh for commands, which tests run; ```text for output."""
    unknown = [block.line for block in blocks(page) if block.language not in LANGUAGES]
    assert unknown == [], f"{page.name}: the blocks of these lines need one of {sorted(LANGUAGES)}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_in_running_text_are_accepted(page: Path) -> None:
    for words in inline_commands(page):
        require_accepted(words)
        line = " ".join(words)
        if words[1] in {"train", "plan"} and not PLACEHOLDERS.search(line):
            overrides = [word for word in words[2:] if "=" in word and not word.startswith("-")]
            assert load_config(overrides).seed >= 0


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8"))
    inside = [link for link in links if not link.startswith(("http:", "https:", "mailto:"))]
    assert [link for link in inside if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_into_a_page_meet_a_heading(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^):#]*)#([^)]+)\)", page.read_text(encoding="utf-8")):
        text = (page.parent / target if target else page).read_text(encoding="utf-8")
        headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
        assert anchor in {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def changes() -> list[tuple[str, str]]:
    """The table "Where do I change ..."."""
    table = (DOCS / "architecture.md").read_text(encoding="utf-8").partition("## Where do I change")[2]
    rows = re.findall(r"^\| (.*?) \| (.*) \|$", table, re.MULTILINE)
    return [row for row in rows if row != ("change", "files")]


def test_twelve_changes_are_described() -> None:
    assert len(changes()) == 12


@pytest.mark.parametrize("change", changes(), ids=lambda change: change[0])
def test_the_files_that_a_change_touches_exist(change: tuple[str, str]) -> None:
    files = re.findall(r"`([\w./-]+\.(?:py|yaml|xml|md|toml))`", change[1])
    assert files
    assert [name for name in files if not exists(name)] == []


def test_the_files_that_the_architecture_names_exist() -> None:
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    named = {name for name in re.findall(r"`([\w/]+(?:\.py|/))`", text) if "/" in name}
    assert len(named) > 30
    assert [name for name in named if not exists(name)] == []


def exists(name: str) -> bool:
    return any((place / name).exists() for place in (ROOT / "src" / "eigen2", ROOT))


def test_every_page_is_linked_from_the_readme() -> None:
    linked = set(re.findall(r"\]\(([\w/-]+\.(?:md|py))", README.read_text(encoding="utf-8")))
    wanted = [*(page for page in PAGES if page != README), *ROOT.glob("examples/*.py")]
    assert {name_of(path) for path in wanted} - linked == {"examples/prices_like_yfinance.py"}


def verbs() -> set[str]:
    named = {command.name or getattr(command.callback, "__name__", "") for command in app.registered_commands}
    return {name.replace("_", "-") for name in named} | {str(group.name) for group in app.registered_groups}


def test_the_readme_has_a_sentence_for_every_command() -> None:
    rows = re.findall(
        r"^\| `([\w-]+)[^`]*` \| [A-Z].*\. \|$", README.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert sorted(rows) == sorted(verbs())


def test_commands_that_are_not_run_exist() -> None:
    assert set(NOT_RUN) <= verbs()
    script = (ROOT / "run").read_text(encoding="utf-8")
    assert [verb for verb in SCRIPT_VERBS if not re.search(rf"^    {verb}\)$", script, re.MULTILINE)] == []
