"""The settings of an environment; an `env` preset fills one of these."""

import os
from abc import abstractmethod
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from eigen2.market.catalogue import canonical_name
from eigen2.market.config import MarketConfig
from eigen2.section import MayImport, Section, before


class EnvConfig(Section):
    """The `env` section of a config."""

    @property
    @abstractmethod
    def label(self) -> str:
        """What a run in this environment is called."""

    def absolute(self) -> Self:
        """The same with absolute paths, so that a run can be resumed from any working directory."""
        return self


class TradingConfig(MarketConfig, EnvConfig):
    kind: Literal["trading"] = "trading"
    actions: Literal["orders", "original", "weights"] = "orders"
    """orders: (coefficient, sale target) per symbol with a learned exit; original: without it, targets 10..50 %;
    weights: target portfolio weights by softmax with a cash logit, rebalanced daily."""
    reward: Literal["log_equity", "realised"] = "log_equity"
    """log_equity: daily change of log equity; realised: the original's coefficient-weighted realised gains."""
    trading_days: int = Field(125, ge=1)
    """Days of an episode on which positions may be opened."""
    settlement_days: int = Field(20, ge=0)
    """Days after those, when only exits happen (orders and original)."""
    max_new_positions: int = Field(1, ge=1)
    """Positions opened per day at most; the largest coefficients win."""
    max_holding_days: int = Field(20, ge=1)
    """Positions are closed after this many days."""
    threshold: float = Field(0.5, ge=0.0)
    """A coefficient in [-1, 1] above this asks to open a position."""
    target_low: float = Field(0.02, gt=0.0)
    """Lowest sale target, as a fraction of the entry price."""
    target_high: float = Field(0.50, gt=0.0)
    """Highest sale target."""
    target_fill: Literal["next_day", "same_close"] = Field("next_day", json_schema_extra=before("same_close"))
    """For prices without opens, when a position that reached its target is sold. next_day: at the next close, like
    every other order; same_close: at the close that reached it, as in the first versions."""
    position_fraction: float = Field(0.10, gt=0.0, le=1.0)
    """Share of equity a new position takes: there are ceil(1 / this) slots, and each new position takes an equal
    share of the cash that is free for the empty ones (orders and original)."""
    fee_bp: float = Field(10.0, ge=0.0)
    """Fee per side in basis points of the quoted value traded."""
    slippage_bp: float = Field(5.0, ge=0.0)
    """Slippage per side in basis points of the quoted price, always against the trader."""
    delisting_penalty: float = Field(0.10, ge=0.0, le=1.0)
    """Share of the last known value lost when a holding is delisted."""
    inaction_penalty: float = Field(5.0, ge=0.0)
    """Subtracted on a day without any position (reward=realised only)."""

    @property
    def label(self) -> str:
        return Path(self.data).stem

    def absolute(self) -> Self:
        file = Path(self.data).expanduser()
        if canonical_name(self.data) is not None or not file.exists():
            return self
        return self.model_copy(update={"data": os.path.abspath(file)})

    @model_validator(mode="after")
    def _targets_are_ordered(self) -> Self:
        if self.target_low >= self.target_high:
            raise ValueError(f"target_low {self.target_low} must be below target_high {self.target_high}")
        return self

    @model_validator(mode="after")
    def _realised_gains_need_positions(self) -> Self:
        if self.reward == "realised" and self.actions == "weights":
            raise ValueError(
                "reward=realised needs positions that open and close: use actions=orders or original"
            )
        return self


class GymConfig(EnvConfig):
    kind: Literal["gym"] = "gym"
    id: Annotated[str, MayImport(lambda id: ":" in id)] = "Pendulum-v1"
    """Any registered Gymnasium environment with a continuous action space; `module:Name-v0` imports the module first."""
    max_episode_steps: int | None = Field(None, ge=1)
    """Step limit of an episode; null: the environment's own."""
    kwargs: dict[str, Any] = {}
    """Keyword arguments of gymnasium.make, e.g. {gravity: 1.62} or env.kwargs.gravity=1.62."""

    @property
    def label(self) -> str:
        return self.id.replace("/", "-")
