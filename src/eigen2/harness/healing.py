"""A resume that finds a damaged object computes it again from parity, where there is some."""

from collections.abc import Callable

from eigen2.errors import DamagedStateError
from eigen2.harness.run import Run
from eigen2.store.aside import keep_aside
from eigen2.store.checkpoints import Recovery
from eigen2.store.integrity import steady_survey


def newest_healed(run: Run, own_data: bool, say: Callable[[str], None]) -> Recovery:
    """The newest good checkpoint of an owned run; a newer one that parity can heal is healed first, which is said."""
    checkpoints = run.checkpoints
    try:
        recovery = checkpoints.newest_good(own_data)
        if not recovery.refused:
            return recovery
    except DamagedStateError:
        if not _healed(run, say):
            raise
        return checkpoints.newest_good(own_data)
    return checkpoints.newest_good(own_data) if _healed(run, say) else recovery


def _healed(run: Run, say: Callable[[str], None]) -> bool:
    from eigen2.store.parity import healed

    manifests = run.checkpoints.good().values()
    if not any(manifest.parity for manifest in manifests):
        return False
    bad = steady_survey(run.checkpoints).bad
    objects = run.checkpoints.objects
    for name in bad:
        keep_aside(run.path, objects.path(name))
    names = healed(objects, manifests, bad)
    for name in names:
        say(f"{objects.path(name)} was damaged; it was computed again from parity, bit for bit.")
    return bool(names)
