"""Inputs that nobody would write by accident: values of the wrong kind, size and depth, and bytes that lie about lengths."""

import copy
import struct
from random import Random
from typing import Any

Path = tuple[Any, ...]

NUMBERS = (
    -1, 0, 1, 2, 7, 255, 256, 2**16, 2**31 - 1, 2**31, 2**32, 2**40, 2**53 + 1, 2**62 - 1, 2**62, 2**63, 2**64, 10**30, -(2**63),
    0.0, -0.5, 1.5, 1e300,
)  # fmt: skip
TEXTS = (
    "", "x", "nan", "-inf", "1", "../x", "/etc/passwd", "a\0b", "0x0", "a" * 64, "A" * 64, "f" * 64, "é" * 40, "x" * 5000,
    "$tensor", "$int", "latest", "float32", "object", "2020-01-31", "\ud83d\ude00",
)  # fmt: skip


def nested(depth: int, table: bool = False) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value} if table else [value]
    return value


def odd_value(random: Random) -> Any:
    kind = random.randrange(8)
    if kind < 3:
        return random.choice(NUMBERS)
    if kind < 5:
        return random.choice(TEXTS)
    if kind == 5:
        return random.choice((None, True, False))
    if kind == 6:
        return random.choice(([], {}, [[]], [1, 2], {"a": 1}, {"$dict": [[1, 2]]}, [["a", 1, "b", 2]]))
    return nested(random.choice((3, 60, 120, 400)), random.random() < 0.5)


def places(value: Any, at: Path = ()) -> list[Path]:
    """Where something stands in a nested value, the value itself first."""
    found = [at]
    if isinstance(value, dict):
        for key, item in value.items():
            found += places(item, (*at, key))
    elif isinstance(value, list):
        for number, item in enumerate(value[:200]):
            found += places(item, (*at, number))
    return found


def get(value: Any, at: Path) -> Any:
    for part in at:
        value = value[part]
    return value


def mutated(value: Any, random: Random, edits: int = 3) -> Any:
    """A copy with one to `edits` changes: values replaced, removed, moved, repeated, or numbers a little off."""
    value = copy.deepcopy(value)
    for _ in range(random.randint(1, edits)):
        known = places(value)
        at = known[random.randrange(len(known))]
        if not at:
            if random.random() < 0.05:
                return odd_value(random)
            continue
        parent, last = get(value, at[:-1]), at[-1]
        old, kind = parent[last], random.randrange(8)
        if kind == 0:
            del parent[last]
        elif kind == 1:
            parent[last] = copy.deepcopy(get(value, known[random.randrange(len(known))]))
        elif kind == 2 and isinstance(parent, list):
            parent.insert(random.randrange(len(parent) + 1), copy.deepcopy(old))
        elif kind == 2:
            parent[random.choice(TEXTS)] = copy.deepcopy(old)
        elif kind in (3, 4) and isinstance(old, int) and not isinstance(old, bool):
            parent[last] = (
                old + random.choice((-(2**32), -8, -1, 1, 8, 2**32))
                if kind == 3
                else old * random.choice((-1, 2))
            )
        else:
            parent[last] = odd_value(random)
    return value


def mangled(content: bytes, random: Random, edits: int = 3) -> bytes:
    """Bytes with one to `edits` changes: flipped, cut, repeated, overwritten with lengths."""
    data = bytearray(content)
    for _ in range(random.randint(1, edits)):
        at = random.randrange(len(data) + 1)
        kind = random.randrange(7)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << random.randrange(8)
        elif kind == 1:
            del data[at:]
        elif kind == 2:
            del data[at : at + random.randrange(1, 64)]
        elif kind == 3:
            data[at:at] = data[at : at + random.randrange(1, 64)]
        elif kind == 4:
            number = random.choice([n for n in NUMBERS if isinstance(n, int) and 0 <= n < 2**64])
            data[at : at + 8] = struct.pack("<Q", number)
        elif kind == 5:
            number = random.choice([n for n in NUMBERS if isinstance(n, int) and 0 <= n < 2**32])
            data[at : at + 4] = struct.pack("<I", number)
        else:
            data[at:at] = random.choice(TEXTS).encode("utf-8", "surrogatepass")
    return bytes(data)


def lied_about(content: bytes, header: struct.Struct, random: Random) -> bytes:
    """Content whose packed header has one field changed."""
    fields = list(header.unpack_from(content))
    number = random.randrange(len(fields))
    if isinstance(fields[number], int):
        sizes = {2: 2**16, 4: 2**32, 8: 2**64}
        top = sizes[struct.calcsize(f"<{header.format.lstrip('<').replace('4s', '').replace('8s', '')[-1]}")]
        fields[number] = random.choice(
            (0, 1, fields[number] + 1, max(0, fields[number] - 1), 2**16 - 1, top - 1)
        )
    else:
        fields[number] = bytes(len(fields[number]))
    try:
        return header.pack(*fields) + content[header.size :]
    except struct.error:
        return content
