"""A stranger who can hash: changes what a run directory says and makes every checksum true again, all the way up."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Body = dict[str, Any]


def spell(document: Any) -> bytes:
    """As manifests are spelled, by the library."""
    return json.dumps(document, sort_keys=True, indent=1, allow_nan=False).encode() + b"\n"


def sealed(body: Any) -> bytes:
    """A manifest's file with this body and its true checksum."""
    return spell({"body": body, "sha256": hashlib.sha256(spell(body)).hexdigest()})


class Forgery:
    """The run directory at `run`, to be changed."""

    def __init__(self, run: Path) -> None:
        self.run = run

    def manifest(self, name: str = "latest") -> Path:
        return self.run / "checkpoints" / f"{name}.json"

    def names(self) -> list[str]:
        return sorted(path.stem for path in (self.run / "checkpoints").glob("*.json"))

    def body(self, name: str = "latest") -> Body:
        found: Body = json.loads(self.manifest(name).read_bytes())["body"]
        return found

    def forge(self, change: Callable[[Body], None]) -> None:
        """Change the body of every checkpoint."""
        for name in self.names():
            body = self.body(name)
            change(body)
            self.manifest(name).write_bytes(sealed(body))

    def path(self, name: str) -> Path:
        return self.run / "objects" / name[:2] / name[2:]

    def put(self, content: bytes) -> dict[str, Any]:
        """Store an object under its true name; returns what a manifest says of it."""
        name = hashlib.sha256(content).hexdigest()
        self.path(name).parent.mkdir(exist_ok=True)
        self.path(name).write_bytes(content)
        return {"hash": name, "size": len(content)}

    def forge_blob(self, logical: str, change: Callable[[bytes], bytes]) -> None:
        """Change an object that checkpoints call `logical`, e.g. state/tree.json."""

        def replace(body: Body) -> None:
            if logical in body["objects"]:
                content = self.path(body["objects"][logical]["hash"]).read_bytes()
                body["objects"][logical] = self.put(change(content))

        self.forge(replace)

    def forge_tree(self, change: Callable[[Any], None]) -> None:
        """Change the part of the training state that is no tensor."""

        def changed(content: bytes) -> bytes:
            tree = json.loads(content)
            change(tree)
            return json.dumps(tree).encode()

        self.forge_blob("state/tree.json", changed)

    def forge_segment(self, part: str, change: Callable[[bytes], bytes]) -> None:
        """Change the first segment of a part of the replay, e.g. records."""

        def replace(body: Body) -> None:
            if body["replay"] is not None:
                segment = body["replay"]["parts"][part][0]
                old = segment[2]
                ref = self.put(change(self.path(old).read_bytes()))
                segment[2:] = [ref["hash"], ref["size"]]
                body["objects"].pop(f"replay/{old}")
                body["objects"][f"replay/{ref['hash']}"] = ref

        self.forge(replace)
