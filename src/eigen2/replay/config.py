"""What the replay can be told."""

from pydantic import Field

from eigen2.section import OPERATES, Section


class ReplayConfig(Section):
    capacity: int = Field(50_000, ge=1)
    """Transitions kept; the oldest are dropped first."""
    every: int = Field(1, ge=1, json_schema_extra=OPERATES)
    """Save the replay with every n-th checkpoint; the final one always has it."""
    compress: bool = Field(True, json_schema_extra=OPERATES)
    """Compress the replay on disk (byte shuffle and zstd)."""
