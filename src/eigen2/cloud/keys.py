"""Which keys all providers can hold: those of a relative path that a file system could hold too."""

from eigen2.cloud.location import CONTROL
from eigen2.errors import ConfigError


def checked(key: str) -> str:
    """The key itself. A key that one provider would store under another name is refused by all."""
    if CONTROL.search(key) or _broken(key):
        raise ConfigError(f"{key!r} holds a character that object stores do not take; rename it.")
    for part in key.split("/"):
        if part in ("", ".", ".."):
            raise ConfigError(f"{key!r} holds an empty part, `.` or `..`; a key is a plain relative path.")
    return key


def _broken(key: str) -> bool:
    """A file name that is not UTF-8 reaches Python with lone surrogates, which no request can carry."""
    return any("\ud800" <= character <= "\udfff" for character in key)
