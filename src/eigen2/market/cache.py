"""Features kept on disk under the fingerprint of what they were computed from.

A file is a plain .npy array followed by the SHA-256 of its bytes. It is a cache: a file that does not verify is
computed again and replaced, and a wrong array can never be read.
"""

import hashlib
import io
import os
import tempfile
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

Features = npt.NDArray[np.float32]

VERSION: Final = 1
"""Raise when the definition of any feature changes."""

_DIGEST_BYTES: Final = 32


def feature_key(fingerprint: str, names: tuple[str, ...], train_stop: int) -> str:
    """Names the features of these prices, in this order, scaled by the days before `train_stop`."""
    description = f"features {VERSION}\n{fingerprint}\n{','.join(names)}\n{train_stop}\n"
    return hashlib.sha256(description.encode()).hexdigest()


def read_features(directory: Path, key: str, shape: tuple[int, int, int]) -> Features | None:
    """The cached array, read-only, or None if it is not there, damaged or of another shape."""
    try:
        content = memoryview((directory / f"features-{key}.npy").read_bytes())
    except FileNotFoundError:
        return None
    body, digest = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    if hashlib.sha256(body).digest() != digest:
        return None
    expected = _header(shape)
    if bytes(body[: len(expected)]) != expected:
        return None
    return np.frombuffer(body, dtype="<f4", offset=len(expected)).reshape(shape)


def write_features(directory: Path, key: str, features: Features) -> None:
    """Writes to a temporary name and renames, so that a reader sees all of it or nothing."""
    directory.mkdir(parents=True, exist_ok=True)
    header = _header(features.shape)
    body = np.ascontiguousarray(features, dtype="<f4")
    digest = hashlib.sha256(header)
    digest.update(body.data)
    descriptor, temporary = tempfile.mkstemp(dir=directory, prefix=".features-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(header)
            file.write(body.data)
            file.write(digest.digest())
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, directory / f"features-{key}.npy")
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _header(shape: tuple[int, ...]) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return buffer.getvalue()
