"""Films as files: GIF and WebP by Pillow; MP4 by an ffmpeg that is on this machine.

Pillow needs nothing else and its licence is free; ffmpeg is a program of its own, mostly under the GPL, so it is called
where it is found and never brought along.
"""

import importlib
import io
import itertools
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eigen2.errors import ConfigError
from eigen2.harness.evaluating import opened
from eigen2.harness.run import Run
from eigen2.store.durable import write_atomically

if TYPE_CHECKING:
    from eigen2.evaluation.result import Footage

FORMATS = (".gif", ".webp", ".mp4")
SIZE = (480, 360)
SMALL = (320, 240)
"""Of the film that a report shows."""
SMALL_PICTURES = 12.5
LONGEST = 600.0


def film_run(
    run: Run, target: Path, seconds: float, say: Callable[[str], None], small: bool = False
) -> dict[str, Any]:
    """The champion of a run's newest good checkpoint, as a film in `target`."""
    if target.suffix.lower() not in FORMATS:
        raise ConfigError(f"--out {target.name}: a film is a file ending in {', '.join(FORMATS)}.")
    if not 0.0 < seconds <= LONGEST:
        raise ConfigError(f"--seconds is {seconds:g}; it must be above 0 and at most {LONGEST:g}.")
    if target.suffix.lower() == ".mp4":
        _ffmpeg()
    width, height = SMALL if small else SIZE
    with opened(run, say) as experiment:
        footage = experiment.champion().film(seconds, width, height)
        content, count = encoded(
            footage, target.suffix.lower(), (width, height), SMALL_PICTURES if small else None
        )
    try:
        write_atomically(target, content)
    except OSError as error:
        raise ConfigError(
            f"{target} cannot be written ({error.strerror}); --out names another place."
        ) from error
    return {"film": str(target.absolute()), "pictures": count, "seconds": seconds, "bytes": len(content)}


def encoded(
    footage: "Footage", kind: str, within: tuple[int, int], pictures: float | None = None
) -> tuple[bytes, int]:
    """The file, and how many pictures it has; `pictures` a second at most, none larger than `within`."""
    skip = 1 if pictures is None else max(1, round(footage.per_second / pictures))
    frames = itertools.islice(footage.frames, 0, None, skip)
    rate = footage.per_second / skip
    return _mp4(frames, rate) if kind == ".mp4" else _animation(frames, rate, kind, within)


def _animation(frames: Iterator[Any], rate: float, kind: str, within: tuple[int, int]) -> tuple[bytes, int]:
    try:
        from PIL import Image
    except ImportError as error:
        raise ConfigError("films need Pillow: pip install 'eigen2[control]'.") from error
    images: list[Image.Image] = []
    for frame in frames:
        image = Image.fromarray(frame)
        image.thumbnail(within)
        images.append(image)
    if kind == ".gif":
        images = _in_one_palette(images)
    target = io.BytesIO()
    options = {"quality": 60, "method": 3} if kind == ".webp" else {"optimize": False, "disposal": 1}
    images[0].save(
        target, kind.removeprefix(".").upper(), save_all=True, append_images=images[1:], loop=0,
        duration=max(20, round(1000.0 / rate)), **options,
    )  # fmt: skip
    return target.getvalue(), len(images)


def _in_one_palette(images: list[Any]) -> list[Any]:
    """The colours of some pictures spread over the film serve all: a palette for each would flicker."""
    from PIL import Image

    some = images[:: max(1, len(images) // 6)]
    width, height = some[0].size
    mosaic = Image.new("RGB", (width, height * len(some)))
    for number, image in enumerate(some):
        mosaic.paste(image, (0, number * height))
    palette = mosaic.quantize(256, method=Image.Quantize.FASTOCTREE)
    return [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images]


def _ffmpeg() -> str:
    found = shutil.which("ffmpeg")
    if found is None:
        with suppress(ImportError, RuntimeError):
            found = str(importlib.import_module("imageio_ffmpeg").get_ffmpeg_exe())
    if found is None:
        raise ConfigError(
            "an MP4 needs ffmpeg: install it (apt-get install ffmpeg, or pip install imageio-ffmpeg), or name a file "
            "ending in .gif or .webp."
        )
    return found


def _mp4(frames: Iterator[Any], rate: float) -> tuple[bytes, int]:
    first = next(frames)
    height, width = (side - side % 2 for side in first.shape[:2])
    with tempfile.TemporaryDirectory(prefix="eigen2-film-") as place:
        target = Path(place) / "film.mp4"
        command = [_ffmpeg(), "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}",
                   "-r", f"{rate:.4f}", "-i", "-", "-an", "-pix_fmt", "yuv420p", "-movflags", "+faststart", str(target)]  # fmt: skip
        pieces = [frame[:height, :width].tobytes() for frame in itertools.chain([first], frames)]
        done = subprocess.run(command, input=b"".join(pieces), capture_output=True, check=False)
        if done.returncode:
            raise ConfigError(
                f"ffmpeg could not make the film: {done.stderr.decode(errors='replace').strip()[:300]}"
            )
        return target.read_bytes(), len(pieces)
