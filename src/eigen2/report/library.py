"""The drawing library that goes into every page: the part of Plotly that draws lines, bars and heat maps."""

import base64
import importlib.resources
from functools import cache


@cache
def packed() -> bytes:
    """The script, packed with gzip as it is kept; browsers unpack it themselves."""
    source = importlib.resources.files("eigen2.report") / "plotly" / "plotly-cartesian.min.js.gz"
    return source.read_bytes()


def packed_text() -> str:
    return base64.b64encode(packed()).decode("ascii")
