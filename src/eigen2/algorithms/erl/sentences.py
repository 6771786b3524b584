"""Refusals that are raised where they happen and, before anything is opened, by `data check`."""

from eigen2.envs.config import TradingConfig
from eigen2.envs.trading.episodes import episode_steps


def looks_back_too_far(layers: int, history: int, window: int) -> str:
    return (
        f"alg.encoder_layers={layers} looks back {history} days, more than env.window={window}; use at most "
        f"{window.bit_length() - 1} layers or a longer window."
    )


def episode_does_not_fit(env: TradingConfig, days: int, split: str) -> str:
    settlement = episode_steps(env) - env.trading_days
    return (
        f"An episode of {env.trading_days} + {settlement} days does not fit into the {days} {split} days; lower "
        f"env.trading_days or {'give more days' if split == 'train' else f'raise env.{split}_days'}."
    )
