"""Bytes for people."""


def size_words(size: float) -> str:
    """`15 MB`, `-3.2 KB`; decimal units, as in the rest of the output."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if abs(size) >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size:.0f} bytes"
