"""Which prices, which features, which days: the market half of an `env` preset."""

from typing import Annotated, Literal, Self

from pydantic import Field, ValidationInfo, model_validator

from eigen2.market.catalogue import canonical_name
from eigen2.section import OPERATES, STORED, OwnFile, Section, before

FeatureName = Literal[
    "return_1", "return_2", "return_3", "return_5", "return_10", "return_20", "return_60",
    "rsi", "macd", "macd_signal", "trix", "sma20_distance", "volatility", "volume",
]  # fmt: skip


class SyntheticConfig(Section):
    """Markets made to order; read only when `data` names one (planted_*, shuffled, random_walk)."""

    days: int = Field(3000, ge=100)
    """Trading days to generate (planted and random_walk; shuffled takes its source's)."""
    symbols: int = Field(12, ge=2)
    """Symbols to generate (planted and random_walk)."""
    strength: float = Field(1.0, ge=0.0)
    """Size of the planted effect; 1 is the default effect, 0 plants nothing."""
    source: str = "sp20"
    """The sample whose returns `shuffled` permutes."""
    seed: int | None = None
    """Seed of the market; the run's own seed when null."""


class MarketConfig(Section):
    data: Annotated[str, OwnFile(built_in=lambda data: canonical_name(data) is not None)] = "sp20"
    """A sample (sp20, ohlcv5, etf23), a synthetic market (planted_reversal, planted_momentum, planted_lead_lag,
    shuffled, random_walk), a CSV/parquet file, or a folder of one such file per symbol."""
    day_first: bool | None = Field(None, json_schema_extra=OPERATES)
    """How your file writes 03/01/2020. true: 3 January; false: March 1; null: decided from its other dates."""
    judge_series: bool = Field(True, json_schema_extra=before(False))
    """Refuse a file whose series cannot be prices: volumes, one series under two names, dates in the future. Set
    false if you know that the file is right."""
    window: int = Field(64, ge=2)
    """Days of history an observation may look back on."""
    features: tuple[FeatureName, ...] = (
        "return_1", "return_2", "return_3", "return_5", "return_10", "return_20",
        "rsi", "macd", "macd_signal", "trix", "sma20_distance", "volatility",
    )  # fmt: skip
    """Causal, stationary features computed from prices; `volume` needs a file that has it."""
    tradable: tuple[str, ...] | None = None
    """Symbols that may be traded; null means all that are not `context`."""
    context: tuple[str, ...] = ()
    """Symbols that are observed but never traded (indices, macro series)."""
    start: str | None = None
    """First date used, e.g. 2010-01-01."""
    end: str | None = None
    """Last date used."""
    validation_days: int = Field(252, ge=10)
    """Days between training and holdout used to choose the champion."""
    holdout_days: int = Field(251, ge=10)
    """Last days, opened only by `evaluate --split holdout` and `train --holdout`; every use is counted."""
    embargo_days: int = Field(21, ge=0)
    """Days dropped between the splits so that no position or feature of one reaches into the next."""
    synthetic: SyntheticConfig = SyntheticConfig()

    @model_validator(mode="after")
    def _something_is_seen(self, info: ValidationInfo) -> Self:
        # A run that has none, of an earlier version, can still be looked at.
        if not self.features and info.context != STORED:
            raise ValueError("features is empty, so agents would see no prices; name at least one")
        return self
