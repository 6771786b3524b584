"""Parity: beside each group of objects one more, their XOR, from which any one of them can be computed again.

It survives the loss of one object of each group, so a share of 0.05 puts about twenty into a group. A parity object is
as long as the longest of its group: objects of a size are grouped, and few large objects cost more than the share says.
Groups whose objects have not changed are kept from save to save and are not read again.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from eigen2.errors import DamagedStateError
from eigen2.store.manifest import Manifest
from eigen2.store.objects import Objects, Ref

PREFIX = "parity/"
MAGIC = b"EG2P"
"""Begins every parity object: that of a single object would be the same object otherwise."""
Groups = dict[str, tuple[str, ...]]
"""Name of a parity object -> names of the objects it protects."""


def group_size(share: float) -> int:
    """How many objects share a parity object."""
    return max(2, round(1 / share))


def put_parity(
    objects: Objects, families: Iterable[Mapping[str, int]], before: Mapping[str, Sequence[str]], share: float
) -> tuple[Groups, list[Ref]]:
    """Store what is missing for groups over `families`, each sizes of objects by name; groups do not cross families.

    `before` are the groups of the last checkpoint. Returns the groups and the Refs of their parity objects.
    """
    most = group_size(share)
    groups: Groups = {}
    refs: list[Ref] = []
    for sizes in families:
        grouped: set[str] = set()
        for name, members in before.items():
            known = (
                objects.find(name) if grouped.isdisjoint(members) and sizes.keys() >= set(members) else None
            )
            if known is not None:
                groups[name] = tuple(members)
                refs.append(known)
                grouped |= set(members)
        # The longest first, so that a group wastes little; by name, so that the same objects give the same groups.
        rest = sorted(sizes.keys() - grouped, key=lambda name: (-sizes[name], name))
        for first in range(0, len(rest), most):
            members = rest[first : first + most]
            ref = objects.put([MAGIC, _xor([], objects, members, max(sizes[name] for name in members))])
            groups[ref.hash] = tuple(members)
            refs.append(ref)
    return groups, refs


def heal(objects: Objects, manifest: Manifest) -> list[str]:
    """Compute again what is damaged or missing of a checkpoint, where its group has lost nothing else; their names."""
    sizes = {ref.hash: ref.size for ref in manifest.objects.values()}
    healed = []
    for parity, members in manifest.parity.items():
        group = [name for name in (*members, parity) if name in sizes]
        bad = [name for name in group if not _is_good(objects, name, sizes[name])]
        if len(bad) != 1 or len(group) != len(members) + 1:
            continue
        (lost,) = bad
        longest = max(sizes[name] for name in members)
        if longest > max(objects.path(name).lstat().st_size for name in group if name != lost):
            # No object is longer than the parity of its group: what the manifest says of this one is not true.
            continue
        content = _xor(
            [parity] if lost != parity else [], objects, [n for n in members if n != lost], longest
        )
        content = MAGIC + content if lost == parity else content[: sizes[lost]]
        try:
            objects.receive(Ref(lost, sizes[lost]), [content])
        except DamagedStateError:
            continue
        healed.append(lost)
    return healed


def healed(objects: Objects, manifests: Iterable[Manifest], bad: Collection[str]) -> list[str]:
    """The same for the checkpoints that name one of the objects `bad`; what one of them heals may help the next."""
    found: list[str] = []
    for manifest in manifests:
        if manifest.parity and not {ref.hash for ref in manifest.objects.values()}.isdisjoint(bad):
            found += [name for name in heal(objects, manifest) if name not in found]
    return found


def _xor(parities: Sequence[str], objects: Objects, members: Sequence[str], size: int) -> bytes:
    total = np.zeros(size, np.uint8)
    # One at a time in memory.
    for name in (*parities, *members):
        content = np.frombuffer(objects.read(name), np.uint8)
        part = (content[len(MAGIC) :] if name in parities else content)[:size]
        total[: len(part)] ^= part
    return total.tobytes()


def _is_good(objects: Objects, name: str, size: int) -> bool:
    try:
        objects.check(name, size)
    except DamagedStateError:
        return False
    return True
