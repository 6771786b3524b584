"""What the replay can be told."""

from pydantic import Field

from eigen2.section import OPERATES, Section


class ReplayConfig(Section):
    capacity: int = Field(50_000, ge=1)
    """Transitions kept; older ones leave in order."""
    every: int = Field(1, ge=1, json_schema_extra=OPERATES)
    """The replay is part of every n-th checkpoint; the final one always has it."""
    compress: bool = Field(True, json_schema_extra=OPERATES)
    """Byte shuffle and zstd for what is written to disk."""
