"""Our environments in Gymnasium's registry, without the cost of importing Gymnasium.

Since version 1.0 Gymnasium loads no entry points: the package that has the environments must be imported and register
them. Commands that need no environment import this package too, so registering waits until somebody imports Gymnasium.
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


def register() -> None:
    """Add the environments; the strings name what is imported only by `gymnasium.make`."""
    import gymnasium

    gymnasium.register(
        id="eigen2/Trading-v0",
        entry_point="eigen2.envs.trading.make:make_trading",
        vector_entry_point="eigen2.envs.trading.make:make_trading_vector",
    )


def register_with_gymnasium() -> None:
    """Register now if Gymnasium has been imported, else as soon as it is."""
    if "gymnasium" in sys.modules:
        register()
    else:
        sys.meta_path.insert(0, _AfterGymnasium())


class _AfterGymnasium(MetaPathFinder):
    """Finds `gymnasium` where everybody else does, and registers once it has been executed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "gymnasium":
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next(filter(None, (finder.find_spec(fullname, path, target) for finder in others)), None)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_register(module: ModuleType) -> None:
                execute(module)
                register()

            spec.loader.exec_module = execute_and_register  # type: ignore[method-assign]
        return spec
