"""What a transition on a market is made of. Imports no torch."""

from eigen2.envs.trading.observation import ACCOUNT_FEATURES, POSITION_FEATURES
from eigen2.replay.schema import Field, Schema


def market_schema(symbols: int, weights: bool) -> Schema:
    """Of `symbols` tradable symbols; `weights` says how actions look."""
    return Schema(
        observation=(
            Field("day", (), "int32"),
            Field("positions", (symbols, len(POSITION_FEATURES)), "float16"),
            Field("account", (len(ACCOUNT_FEATURES),)),
        ),
        step=(
            Field("action", (symbols + 1,) if weights else (symbols, 2)),
            Field("reward"),
            Field("contribution", (symbols,)),
            Field("terminated", (), "bool"),
            Field("truncated", (), "bool"),
        ),
        summed=("reward", "contribution"),
    )
