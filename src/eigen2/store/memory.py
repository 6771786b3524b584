"""Objects in memory, named as the store names them: for replays that are copied, compared or tested, not kept."""

from collections.abc import Iterable

from eigen2.store.durable import Buffer
from eigen2.store.objects import reference


class MemoryObjects(dict[str, bytes]):
    """Content by name, with the three functions that a replay is written and restored with."""

    def put(self, chunks: Iterable[Buffer]) -> str:
        content = b"".join(chunks)
        name = reference([content]).hash
        self[name] = content
        return name

    def has(self, name: str) -> bool:
        return name in self

    def read(self, name: str) -> bytes:
        return self[name]
