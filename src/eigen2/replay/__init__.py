"""One replay buffer for every algorithm: compact in memory, incremental on disk, exact on resume."""

from eigen2.replay.batch import Batch, Sequences
from eigen2.replay.buffer import Replay
from eigen2.replay.config import ReplayConfig
from eigen2.replay.schema import Field, Schema, schema_from_spaces
from eigen2.replay.snapshot import Snapshot, manifest_blobs, manifest_info, verify_blobs

__all__ = [
    "Batch",
    "Field",
    "Replay",
    "ReplayConfig",
    "Schema",
    "Sequences",
    "Snapshot",
    "manifest_blobs",
    "manifest_info",
    "schema_from_spaces",
    "verify_blobs",
]
