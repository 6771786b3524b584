"""Environments: trading over a market, control tasks, and any Gymnasium environment. Importing registers ours."""

import gymnasium

gymnasium.register(
    id="eigen2/Trading-v0",
    entry_point="eigen2.envs.trading.env:make_trading",
    vector_entry_point="eigen2.envs.trading.vector:make_trading_vector",
)
