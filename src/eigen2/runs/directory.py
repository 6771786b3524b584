"""The run directory: one absolute place with a name people can read.

    runs/erl_sp20_seed7/   config.yaml run.json *.jsonl objects/ checkpoints/

A directory appears under its name by a rename, complete with its config, so two jobs never share one and a kill never
leaves half of one; `runs/latest` points to the newest.
"""

import errno
import os
import secrets
import shutil
from pathlib import Path

import yaml

from eigen2.config import Config, validate
from eigen2.errors import ConfigError, DamagedStateError
from eigen2.store.durable import sync_directory, write_atomically

LOGS = ("metrics", "events", "lineage", "memory")
"""Append-only logs that a resume cuts back to its checkpoint; `evaluations` is kept whole."""


class RunDirectory:
    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def config_file(self) -> Path:
        return self.path / "config.yaml"

    @property
    def metadata_file(self) -> Path:
        return self.path / "run.json"

    def log(self, name: str) -> Path:
        return self.path / f"{name}.jsonl"

    def write_config(self, config: Config) -> None:
        text = yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False)
        write_atomically(self.config_file, text.encode())

    def read_config(self) -> Config:
        try:
            return validate(yaml.safe_load(self.config_file.read_text(encoding="utf-8")))
        except (yaml.YAMLError, UnicodeDecodeError, ConfigError) as error:
            raise DamagedStateError(f"{self.config_file} cannot be read as a config: {error}") from error


def create_run(config: Config) -> RunDirectory:
    """Claim the first free name, <alg>_<env>_seed<seed>, then with -2, -3, ..., and write the config there."""
    root = config.run.root.absolute()
    base = config.run.name or default_name(config)
    if "/" in base or base.startswith(".") or base in ("", "latest"):
        raise ConfigError(f"run.name={base!r} cannot be a directory name; use letters, digits, _ and -.")
    try:
        root.mkdir(parents=True, exist_ok=True)
        path = _publish(config, root, base)
        _point_latest(root, path)
        sync_directory(root)
    except (PermissionError, NotADirectoryError, FileExistsError) as error:
        raise ConfigError(f"run.root={root} cannot hold runs ({error.strerror}); choose another.") from error
    return RunDirectory(path)


def _publish(config: Config, root: Path, base: str) -> Path:
    new = RunDirectory(root / f".new-{secrets.token_hex(8)}")
    new.path.mkdir()
    try:
        new.write_config(config)
        return _claim(new.path, root, base)
    except BaseException:
        shutil.rmtree(new.path)
        raise


def _claim(new: Path, root: Path, base: str) -> Path:
    """Rename `new` to the first free name; a name is taken when it is a directory with something in it, or a file."""
    number = 1
    while True:
        path = root / (base if number == 1 else f"{base}-{number}")
        try:
            os.rename(new, path)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
            number += 1
        else:
            return path


def default_name(config: Config) -> str:
    env = config.env
    if env.kind == "trading":
        what = Path(env.data).stem
    elif env.kind == "tasks":
        what = "tasks"
    else:
        what = env.task if env.kind == "control" else env.id.replace("/", "-")
    return f"{config.presets['alg']}_{what}_seed{config.seed}"


def find_run(name: str | None, root: Path) -> RunDirectory:
    """A run by directory or by name; the newest one when no name is given."""
    if name is None:
        latest = root / "latest"
        if not latest.exists():
            raise ConfigError(
                f"There is no run in {root.absolute()} to continue; start one with `eigen2 train`."
            )
        return _existing(latest.resolve())
    places = [path.resolve() for path in (Path(name), root / name) if path.is_dir()]
    for path in places:
        if RunDirectory(path).config_file.is_file():
            return RunDirectory(path)
    if places:
        return _existing(places[0])
    raise ConfigError(f"No run called {name} here or in {root.absolute()}; `eigen2 runs` lists them.")


def _existing(path: Path) -> RunDirectory:
    run = RunDirectory(path)
    if not run.config_file.is_file():
        raise ConfigError(f"{path} is not a run directory: it has no config.yaml.")
    return run


def _point_latest(root: Path, path: Path) -> None:
    temporary = root / f".latest-{secrets.token_hex(8)}"
    temporary.symlink_to(path.name)
    os.replace(temporary, root / "latest")
