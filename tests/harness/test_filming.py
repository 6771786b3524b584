"""Films: drawn without a screen, written without a player, and refused with a sentence where there is nothing to film."""

import ctypes.util
import importlib
import io
import shutil
from pathlib import Path

import numpy as np
import pytest
from command_lab import Lab
from PIL import Image, ImageSequence

from eigen2.envs.control.camera import choose_renderer
from eigen2.envs.control.catalogue import make_task
from eigen2.errors import ConfigError
from eigen2.evaluation.champion import ControlChampion
from eigen2.evaluation.result import Footage
from eigen2.harness.filming import encoded, film_run
from eigen2.harness.run import Run
from eigen2.report.page import write_report
from eigen2.report.reading import read_run

RUN = Path(__file__).parents[1] / "upgrade" / "format2" / "erl_weights"


def frames(content: bytes) -> int:
    return sum(1 for _ in ImageSequence.Iterator(Image.open(io.BytesIO(content))))


def footage(count: int = 6) -> Footage:
    """A white square that moves to the right."""
    frames = np.zeros((count, 40, 60, 3), np.uint8)
    for number, frame in enumerate(frames):
        frame[10:30, 5 * number : 5 * number + 20] = 255
    return Footage(iter(frames), 25.0)


@pytest.mark.parametrize("kind", [".gif", ".webp"])
def test_a_film_has_its_pictures_in_their_time(kind: str) -> None:
    content, count = encoded(footage(), kind, (30, 30))
    film = Image.open(io.BytesIO(content))
    assert (count, frames(content), film.size) == (6, 6, (30, 20))
    film.load()
    assert film.info["duration"] == 40
    first = np.asarray(film.convert("L"), float)
    film.seek(5)
    last = np.asarray(film.convert("L"), float)
    assert first[10, 5] > 200 > 50 > last[10, 5]


def test_pictures_can_be_left_out() -> None:
    content, count = encoded(footage(), ".webp", (60, 60), pictures=12.5)
    assert count == 3
    assert frames(content) == 3


@pytest.mark.parametrize("name", ["pendulum", "dflex_hopper"])
def test_a_built_in_task_is_drawn_and_followed(name: str) -> None:
    try:
        choose_renderer()
    except ConfigError as reason:
        pytest.skip(str(reason))
    task = make_task(name)

    def push(observation: np.ndarray) -> np.ndarray:
        return np.ones((len(observation), task.action_size), np.float32)

    champion = ControlChampion(push, task.observation_size, *task.action_bounds, task)
    assert champion.can_be_filmed
    found = champion.film(0.2, 64, 48)
    frames = list(found.frames)
    assert len(frames) == int(np.ceil(0.2 * found.per_second))
    assert {frame.shape for frame in frames} == {(48, 64, 3)}
    assert (frames[0] != frames[-1]).any()
    # Something blue stands before the sky and the floor.
    assert ((frames[0][..., 2].astype(int) - frames[0][..., 0]) > 80).any()
    task.close()


def test_without_anything_to_draw_with_a_sentence_names_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: None)
    with pytest.raises(ConfigError, match="libosmesa6"):
        choose_renderer()


def test_a_run_on_a_market_is_not_filmed(lab: Lab, finished: Path) -> None:
    done = lab.run("film", finished)
    assert done.code == 2
    assert "only a policy of a control task can be filmed" in done.err
    assert not (finished / "film.gif").exists()


def test_what_cannot_be_made_is_refused_before_anything_is_opened(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(importlib, "import_module", lambda name: exec("raise ImportError"))
    nowhere = Run(tmp_path / "nowhere")
    for name, seconds, words in (
        ("a.avi", 1.0, "ending in"),
        ("a.mp4", 1.0, "ffmpeg"),
        ("a.gif", 0.0, "--seconds"),
    ):
        with pytest.raises(ConfigError, match=words):
            film_run(nowhere, tmp_path / name, seconds, pytest.fail)


def test_a_report_shows_the_film_that_a_run_has(tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(RUN, run)
    (run / "film.webp").write_bytes(encoded(footage(), ".webp", (60, 60))[0])
    page = write_report(run).read_text(encoding="utf-8")
    assert '<img src="data:image/webp;base64,UklGR' in page
    (run / "film.webp").write_text("<script>")
    view = read_run(run)
    assert view.film == ""
    assert any("is no film" in problem for problem in view.problems)
