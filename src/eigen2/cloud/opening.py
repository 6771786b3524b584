"""From a location to a bucket that is known to work."""

import secrets
from datetime import datetime

from eigen2.cloud.bucket import Bucket, Corrupted
from eigen2.cloud.local import LocalBucket
from eigen2.cloud.location import Location
from eigen2.errors import ConfigError

PROBE = ".eigen2-probe-"


def open_bucket(location: Location, timeout_seconds: float) -> Bucket:
    """Only the client of the one provider is imported. Nothing is sent yet: see `probe`."""
    try:
        match location.scheme:
            case "file":
                return LocalBucket(location)
            case "gs":
                from eigen2.cloud.gcs import GcsBucket

                return GcsBucket(location, timeout_seconds)
            case "s3":
                from eigen2.cloud.obstores import S3Bucket

                return S3Bucket(location, timeout_seconds)
            case "az":
                from eigen2.cloud.obstores import AzureBucket

                return AzureBucket(location, timeout_seconds)
    except ModuleNotFoundError as missing:
        raise ConfigError(
            f"{location.url} needs the package {missing.name}, which is not installed: pip install eigen2[cloud]"
        ) from missing
    raise ConfigError(f"{location.scheme}:// is not a cloud url; use gs, s3, az or file.")


def probe(bucket: Bucket) -> datetime:
    """Put, look up, get and delete a small object; the time is the server's. Raises what is wrong with the bucket."""
    key = f"{PROBE}{secrets.token_hex(8)}"
    data = secrets.token_bytes(64)
    bucket.put(key, data)
    entry = bucket.head(key)
    found = bucket.get(key, limit=len(data))
    bucket.delete(key)
    if entry is None or entry.size != len(data) or found != data:
        raise Corrupted(
            f"The bucket returned something other than what was just written to {key}; check the server."
        )
    return entry.modified
