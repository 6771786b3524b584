"""The user's own data travels with the run: what it was trained on is in it, once, and nothing else is read."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_lab import ORDERS, SB3, Lab, Moment, newest, story, write_prices

from eigen2.harness.identity import _hash_of_format_1 as hash_of_format_1
from eigen2.store.manifest import read_manifest, to_bytes

MARKET = ORDERS[3:]
KILLED = (Moment("stepped", "SIGKILL", 2),)
SB3_MARKET = (
    *(word for word in SB3["sac"] if not word.startswith("env")),
    *(word for word in MARKET if word.startswith("env.")),
)


def interrupted(lab: Lab, root: Path, *more: str, overrides: tuple[str, ...] = MARKET) -> Path:
    """A run on root/prices.csv that was killed after its second step."""
    write_prices(root / "prices.csv")
    words = (f"env.data={root / 'prices.csv'}", *overrides, f"run.root={root}", "run.name=mine", *more)
    done = lab.run("train", *words, moments=KILLED)
    assert done.killed, done.err
    return root / "mine"


@pytest.fixture(scope="module")
def straight(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that nobody killed; nobody may change it."""
    root = tmp_path_factory.mktemp("straight")
    write_prices(root / "prices.csv")
    return lab.train("straight", (f"env.data={root / 'prices.csv'}", *MARKET), root)


@pytest.fixture(scope="module")
def killed(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A killed run, its file beside it; nobody may change them."""
    return interrupted(lab, tmp_path_factory.mktemp("killed"))


@pytest.fixture
def run(killed: Path, tmp_path: Path) -> Path:
    """The killed run on a machine that has nothing else."""
    return Path(shutil.copytree(killed, tmp_path / "runs" / "mine"))


@pytest.fixture(scope="module")
def fileless(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A killed run that does not keep its data."""
    return interrupted(lab, tmp_path_factory.mktemp("fileless"), "run.keep_data=false")


def kept(run: Path) -> dict[str, Any]:
    """The objects of data that each manifest names."""
    bodies = [json.loads(path.read_bytes())["body"] for path in (run / "checkpoints").iterdir()]
    return {body["name"]: body["objects"].get("data/own") for body in bodies}


def same_end(lab: Lab, run: Path, straight: Path) -> bool:
    fingerprints = {lab.run("fingerprint", path).out for path in (run, straight)}
    return story(run) == story(straight) and len(fingerprints) == 1


def test_every_manifest_names_the_data_and_it_is_stored_once(straight: Path) -> None:
    found = kept(straight)
    assert found.keys() == {"init", "best", "previous", "latest", "final"}
    (one,) = {json.dumps(ref) for ref in found.values()}
    name = json.loads(one)["hash"]
    assert (straight / "objects" / name[:2] / name[2:]).read_bytes().startswith(b"PAR1")


def test_a_run_whose_file_is_gone_goes_on_to_the_same_end(
    lab: Lab, killed: Path, run: Path, straight: Path
) -> None:
    config = yaml.safe_load((run / "config.yaml").read_text())
    missing = Path(config["env"]["data"]).rename(killed.parent / "hidden.csv")
    try:
        done = lab.run("train", "--resume", run, "--json")
        assert done.code == 0, done.err
        assert same_end(lab, run, straight)
        assert done.json["evaluation"]["market"] == "prices"
        for command in (("evaluate",), ("verify",), ("verify-resume",), ("export",)):
            after = lab.run(*command, run)
            assert after.code == 0, (command, after.err)
    finally:
        missing.rename(killed.parent / "prices.csv")
    assert len({json.dumps(ref) for ref in kept(run).values()}) == 1


def test_a_run_that_was_moved_says_where_it_is(lab: Lab, run: Path) -> None:
    assert lab.run("train", "--resume", run).code == 0
    assert yaml.safe_load((run / "config.yaml").read_text())["run"]["root"] == str(run.parent)


def test_a_file_that_was_edited_meanwhile_is_not_read(lab: Lab, tmp_path: Path, straight: Path) -> None:
    run = interrupted(lab, tmp_path)
    write_prices(tmp_path / "prices.csv", factor=1.5)
    assert lab.run("evaluate", run).code == 0
    assert lab.run("train", "--resume", run).code == 0
    assert same_end(lab, run, straight)


def test_a_file_that_is_named_is_read_and_must_hold_the_same(lab: Lab, run: Path, straight: Path) -> None:
    write_prices(run.parent / "edited.csv", factor=1.5)
    write_prices(run.parent / "moved.csv")
    refused = lab.run("train", "--resume", run, f"env.data={run.parent / 'edited.csv'}")
    assert refused.code == 2
    assert "trained on data with fingerprint" in refused.err
    assert lab.run("train", "--resume", run, f"env.data={run.parent / 'typo.csv'}").code == 3
    sample = lab.run("train", "--resume", run, "env.data=sp20")
    assert sample.code == 2
    assert "env.data: a file -> sp20" in sample.err
    done = lab.run("train", "--resume", run, "env.data=moved.csv", cwd=run.parent)
    assert done.code == 0, done.err
    assert same_end(lab, run, straight)
    assert len({json.dumps(ref) for ref in kept(run).values()}) == 1
    assert yaml.safe_load((run / "config.yaml").read_text())["env"]["data"] == str(run.parent / "moved.csv")


def test_without_kept_data_the_missing_file_is_explained_and_may_be_elsewhere(
    lab: Lab, fileless: Path, tmp_path: Path, straight: Path
) -> None:
    run = Path(shutil.copytree(fileless, tmp_path / "mine"))
    assert set(kept(run).values()) == {None}
    file = fileless.parent / "prices.csv"
    text = (run / "config.yaml").read_text().replace(str(file), str(tmp_path / "prices.csv"))
    (run / "config.yaml").write_text(text)
    was = json.loads((run / "run.json").read_text())["data_fingerprint"][:16]
    for command in (("train", "--resume"), ("evaluate",), ("verify-resume",), ("export",)):
        done = lab.run(*command, run)
        assert done.code == 3, (command, done.err)
        assert (
            f"was trained on {tmp_path / 'prices.csv'} with fingerprint {was}, which is not here" in done.err
        )
        assert "env.data=PATH, added to the command" in done.err
    write_prices(tmp_path / "edited.csv", factor=1.5)
    assert lab.run("train", "--resume", run, f"env.data={tmp_path / 'edited.csv'}").code == 2
    assert lab.run("train", "--resume", run, f"env.data={file}").code == 0
    assert same_end(lab, run, straight)
    assert set(kept(run).values()) == {None}
    assert lab.run("evaluate", run).code == 0


def test_a_run_may_begin_to_keep_its_data_and_does_not_stop_it(
    lab: Lab, fileless: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(fileless, tmp_path / "mine"))
    assert lab.run("train", "--resume", run, "run.keep_data=true").code == 0
    assert kept(run)["latest"] is not None
    assert lab.run("train", "--resume", run, "run.keep_data=false", "alg.generations=5").code == 0
    assert kept(run)["latest"] == kept(run)["previous"] == kept(run)["final"] is not None


def test_a_run_of_an_earlier_version_gets_its_data_with_the_next_checkpoint(
    lab: Lab, fileless: Path, tmp_path: Path, straight: Path
) -> None:
    """Its config knows no `keep_data`, and its identity holds the path of the file as it was then."""
    run = Path(shutil.copytree(fileless, tmp_path / "mine"))
    lines = (run / "config.yaml").read_text().splitlines(keepends=True)
    (run / "config.yaml").write_text("".join(line for line in lines if "keep_data" not in line))
    for path in (run / "checkpoints").iterdir():
        body = json.loads(path.read_bytes())["body"]
        body["identity"]["config"]["env"]["data"] = str(tmp_path / "where it was.csv")
        path.write_bytes(_spelled(path, body["identity"]))
    assert lab.run("train", "--resume", run).code == 0
    assert same_end(lab, run, straight)
    found = kept(run)
    assert found["latest"] == found["final"] is not None
    assert found["init"] is None


def test_a_run_of_format_1_finds_its_file_elsewhere_too(
    lab: Lab, fileless: Path, tmp_path: Path, straight: Path
) -> None:
    """Its hash is of the words in config.yaml, the old path among them; where the file is now is said at the resume."""
    run = Path(shutil.copytree(fileless, tmp_path / "mine"))
    text = (run / "config.yaml").read_text().replace(str(fileless.parent), str(tmp_path / "gone"))
    (run / "config.yaml").write_text(text)
    config_hash = hash_of_format_1(yaml.safe_load(text))
    for path in (run / "checkpoints").iterdir():
        data = json.loads(path.read_bytes())["body"]["identity"]["data"]
        path.write_bytes(_spelled(path, {"config_hash": config_hash, "data": data}))
    assert lab.run("train", "--resume", run).code == 3
    done = lab.run("train", "--resume", run, f"env.data={fileless.parent / 'prices.csv'}")
    assert done.code == 0, done.err
    assert same_end(lab, run, straight)
    assert lab.run("verify-resume", run).code == 0


def _spelled(path: Path, identity: dict[str, Any]) -> bytes:
    from dataclasses import replace

    return to_bytes(replace(read_manifest(path), identity=identity))


@pytest.mark.parametrize("operation", [180, 190, 200, 210, 260])
def test_from_the_first_checkpoint_on_a_kill_leaves_a_run_that_needs_no_file(
    lab: Lab, tmp_path: Path, straight: Path, operation: int
) -> None:
    write_prices(tmp_path / "prices.csv")
    words = (f"env.data={tmp_path / 'prices.csv'}", *MARKET, f"run.root={tmp_path}", "run.name=mine")
    assert lab.run("train", *words, moments=(Moment("operation", "SIGKILL", operation),)).killed
    run = tmp_path / "mine"
    if newest(run) >= 0:
        (tmp_path / "prices.csv").unlink()
    assert lab.run("train", "--resume", run).code == 0
    assert same_end(lab, run, straight)
    assert lab.run("verify", run, "--json").json["orphaned"] == []


def test_markets_known_by_name_are_not_stored(finished: Path) -> None:
    assert set(kept(finished).values()) == {None}


@pytest.mark.parametrize("damage", ["changed", "missing"])
def test_damaged_data_is_refused_by_name_and_put_back_from_the_file(
    lab: Lab, run: Path, straight: Path, damage: str
) -> None:
    name = kept(run)["latest"]["hash"]
    file = run / "objects" / name[:2] / name[2:]
    content = file.read_bytes()
    file.unlink() if damage == "missing" else file.write_bytes(content[:-20] + b"!" + content[-19:])
    for command in (("train", "--resume"), ("evaluate",), ("verify",), ("verify-resume",), ("export",)):
        done = lab.run(*command, run)
        assert done.code == 5, (command, done.err)
        assert str(file) in done.err
        assert "a resume that names the file puts it back" in done.err or command == ("verify",)
    write_prices(run.parent / "prices.csv")
    done = lab.run("train", "--resume", run, f"env.data={run.parent / 'prices.csv'}")
    assert done.code == 0, done.err
    assert file.read_bytes() == content
    assert same_end(lab, run, straight)
    assert lab.run("verify", run).code == 0


def test_worker_processes_read_the_kept_data_too(lab: Lab, run: Path, straight: Path) -> None:
    text = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(text.replace("prices.csv", "gone/prices.csv"))
    done = lab.run("train", "--resume", run, "cluster=processes", "workers=2")
    assert done.code == 0, done.err
    assert same_end(lab, run, straight)


def test_other_algorithms_on_prices_keep_them_as_well(lab: Lab, tmp_path: Path) -> None:
    run = interrupted(lab, tmp_path, overrides=SB3_MARKET)
    whole = lab.train("whole", (f"env.data={tmp_path / 'prices.csv'}", *SB3_MARKET), tmp_path)
    (tmp_path / "prices.csv").unlink()
    done = lab.run("train", "--resume", run)
    assert done.code == 0, done.err
    assert lab.run("fingerprint", run).out == lab.run("fingerprint", whole).out
    for command in ("evaluate", "verify-resume"):
        after = lab.run(command, run)
        assert after.code == 0, (command, after)
