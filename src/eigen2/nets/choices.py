"""What networks can be told, for configs: importing this imports no torch."""

from typing import Literal

Activation = Literal["silu", "mish"]
GROUP = 8
"""Numbers in each simplex of a SimNorm latent."""
