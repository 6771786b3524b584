"""Where a run's copy lives: `gs://bucket/prefix`, `s3://...`, `az://container/prefix` or `file:///directory`.

Names are taken literally, as `gsutil` and `aws s3` take them: `%20` is three characters, not a space.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from eigen2.errors import ConfigError

SCHEMES = ("gs", "s3", "az", "file")
PROVIDERS = {"gcs": "gs", "s3": "s3", "azure": "az", "local": "file"}
"""The names CLOUD_PROVIDER knows, with the scheme of each."""
PROJECT = "eigen2"
"""The prefix when CLOUD_PROJECT names none."""
CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True)
class Location:
    """A place for objects: everything in `bucket` whose key begins with `prefix` and a slash."""

    scheme: str
    bucket: str
    """A bucket's or container's name; for `file` an absolute directory."""
    prefix: str
    """Parts with `/` between them; empty for the whole bucket."""

    @property
    def url(self) -> str:
        """The one spelling of this place: no slash at the end."""
        return f"{self.scheme}://{self.bucket}" + (f"/{self.prefix}" if self.prefix else "")

    def below(self, name: str) -> "Location":
        """The place called `name` inside this one."""
        return Location(
            self.scheme, self.bucket, "/".join([*filter(None, [self.prefix]), _parts(name, "name")])
        )

    @property
    def directory(self) -> Path | None:
        """The directory of a `file` url; None for the others."""
        return Path(self.bucket, self.prefix) if self.scheme == "file" else None

    def split(self) -> tuple["Location", str]:
        """The place above this one, and this one's name there."""
        path = self.bucket if self.scheme == "file" and not self.prefix else self.prefix
        head, _, name = path.rpartition("/")
        if not name or (path == self.bucket and not head):
            raise ConfigError(f"{self.url} names no run; write {self.scheme}://BUCKET/PREFIX/RUN.")
        if path == self.bucket:
            return Location(self.scheme, head, ""), name
        return Location(self.scheme, self.bucket, head), name


def parse(url: str) -> Location:
    """The place a url names. Whatever may hold a secret is refused, and not repeated in the message."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in SCHEMES:
        raise ConfigError(
            "A cloud url begins with gs://, s3://, az:// or file:///"
            + (
                f", not with {scheme}://."
                if re.fullmatch(r"[a-z0-9+.-]{1,20}", scheme) and separator
                else "."
            )
        )
    if re.match(r"[^/]*@", rest):
        raise ConfigError(
            f"The {scheme}:// url holds a user or password; credentials come from the environment, remove all up to the @."
        )
    if "?" in rest or "#" in rest:
        raise ConfigError(
            f"The {scheme}:// url holds a query or a fragment; keys and tokens come from the environment, remove all from the ? or # on."
        )
    bucket, _, prefix = rest.rstrip("/").partition("/")
    if scheme == "file":
        if bucket or not prefix:
            raise ConfigError(
                "A file url names an absolute directory: file:///directory, with three slashes."
            )
        return Location(scheme, f"/{_parts(prefix, 'url')}", "")
    if not bucket:
        raise ConfigError(f"The url names no bucket; write {scheme}://bucket/prefix.")
    return Location(scheme, _parts(bucket, "url"), _parts(prefix, "url") if prefix else "")


def from_environment(environ: Mapping[str, str]) -> Location | None:
    """What CLOUD_PROVIDER, CLOUD_BUCKET and CLOUD_PROJECT name; None when they ask for no cloud.

    The provider `local` without a bucket was the default of the first versions and means off.
    """
    provider = environ.get("CLOUD_PROVIDER", "").strip().lower()
    bucket = environ.get("CLOUD_BUCKET", "").strip()
    if not provider and not bucket:
        return None
    if not provider:
        raise ConfigError("CLOUD_BUCKET is set but CLOUD_PROVIDER is not; set it to gcs, s3, azure or local.")
    if provider not in PROVIDERS:
        raise ConfigError("CLOUD_PROVIDER is none of gcs, s3, azure and local; correct it or unset it.")
    if not bucket and provider == "local":
        return None
    if not bucket:
        raise ConfigError(f"CLOUD_PROVIDER is {provider} but CLOUD_BUCKET is not set; set both or none.")
    project = environ.get("CLOUD_PROJECT", "").strip().strip("/") or PROJECT
    if provider == "local":
        return parse(f"file://{Path(bucket).expanduser().absolute()}").below(project)
    if "/" in bucket:
        raise ConfigError("CLOUD_BUCKET is the bucket's name alone, without :// and /.")
    return parse(f"{PROVIDERS[provider]}://{bucket}/{project}")


def _parts(path: str, what: str) -> str:
    """The path itself, if a file system and every provider can hold it."""
    if CONTROL.search(path):
        raise ConfigError(f"The cloud {what} holds a control character; remove it.")
    if "?" in path or "#" in path:
        raise ConfigError(
            f"The cloud {what} holds a ? or a #, which would end the path of a url; choose another."
        )
    for part in path.split("/"):
        if part in ("", ".", ".."):
            raise ConfigError(
                f"The cloud {what} holds an empty part, `.` or `..`; write the path without it."
            )
    return path
