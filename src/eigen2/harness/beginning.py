"""The first state of a run, computed again from its config; whoever uses it proves it by its hashes."""

from collections.abc import Iterator, Sequence
from itertools import chain

from eigen2.algorithms import registry
from eigen2.harness.run import Run
from eigen2.store.durable import Buffer


def beginning(run: Run) -> Iterator[Sequence[Buffer]]:
    """Content of each object of the first checkpoint, the run's own data included where its file is still there."""
    from eigen2.harness.host import Host
    from eigen2.store.state import blobs

    config = run.read_config()
    host = Host(config, run)
    with registry.algorithm(config.alg.kind).open(config, host.services) as experiment:
        experiment.load_dataset()
        state = [chunks for _, chunks in blobs(experiment.trainer.state_dict())]
        data = experiment.own_data()
    return chain(state, [] if data is None else [[data]])
