"""The trading rules once more, as a plain loop over positions: slow, obvious, and independent of the core.

The environment benchmark measures the core against it, and the tests demand that both agree.
One portfolio; prices are looked up in the market itself.
"""

from dataclasses import dataclass, field
from math import ceil, exp, isfinite, log

import numpy as np
import numpy.typing as npt

from eigen2.envs.config import TradingConfig
from eigen2.market.data import MarketData

PATIENCE = 5


@dataclass
class Position:
    shares: float
    entry: float
    target: float
    entry_day: int
    coefficient: float
    last_price: float
    unknown_days: int = 0


@dataclass
class Bar:
    fill: float
    high: float
    close: float


@dataclass
class PlainTrading:
    """`step` returns the log-equity reward; positions are keyed by tradable symbol."""

    market: MarketData
    config: TradingConfig
    day: int = 0
    last_decision: int = 0
    end: int = 0
    cash: float = 1.0
    equity: float = 1.0
    costs: float = 0.0
    positions: dict[int, Position] = field(default_factory=dict)

    def reset(self, start: int, trading_days: int) -> None:
        settlement = 0 if self.config.actions == "weights" else self.config.settlement_days
        self.day, self.last_decision, self.end = (
            start,
            start + trading_days,
            start + trading_days + settlement,
        )
        self.cash = self.equity = 1.0
        self.costs = 0.0
        self.positions = {}

    @property
    def done(self) -> bool:
        return self.day >= self.end

    @property
    def rate(self) -> float:
        return (self.config.fee_bp + self.config.slippage_bp) / 10_000

    def bar(self, symbol: int) -> Bar | None:
        """Today's prices of a tradable symbol, None when unknown."""
        market, column = self.market, int(self.market.tradable[symbol])
        close = float(market.close[self.day, column])
        if not market.mask[self.day, column] or not isfinite(close):
            return None
        open_ = float("nan") if market.open is None else float(market.open[self.day, column])
        if not isfinite(open_):
            # Nothing comes after a fill at the close.
            return Bar(close, close if self.config.target_fill == "same_close" else 0.0, close)
        high = float("nan") if market.high is None else float(market.high[self.day, column])
        return Bar(open_, max(open_, close, high if isfinite(high) else 0.0), close)

    def step(self, action: npt.NDArray[np.floating]) -> float:
        before = self.equity
        self.day += 1
        bars = {symbol: self.bar(symbol) for symbol in range(len(self.market.tradable))}
        self._write_off_delisted(bars)
        if self.config.actions == "weights":
            self._rebalance(bars, [float(logit) for logit in action])
        else:
            self._trade_orders(bars, action)
        self.equity = self.cash
        for symbol, position in self.positions.items():
            bar = bars[symbol]
            if bar is not None:
                position.last_price = bar.close
            self.equity += position.shares * position.last_price
        return log(self.equity / before)

    def _write_off_delisted(self, bars: dict[int, Bar | None]) -> None:
        for symbol in list(self.positions):
            position = self.positions[symbol]
            position.unknown_days = 0 if bars[symbol] is not None else position.unknown_days + 1
            if position.unknown_days >= PATIENCE:
                value = position.shares * position.last_price
                self.costs += value * self.config.delisting_penalty
                self.cash += value * (1 - self.config.delisting_penalty)
                del self.positions[symbol]

    def _sell(self, symbol: int, price: float) -> None:
        value = self.positions.pop(symbol).shares * price
        self.costs += value * self.rate
        self.cash += value * (1 - self.rate)

    def _trade_orders(self, bars: dict[int, Bar | None], action: npt.NDArray[np.floating]) -> None:
        coefficients = [float(value) for value in action[:, 0]]
        held = set(self.positions)
        for symbol in list(self.positions):
            bar, position = bars[symbol], self.positions[symbol]
            unwanted = self.config.actions == "orders" and coefficients[symbol] < 0
            reached = self.config.target_fill == "next_day" and position.last_price >= position.target
            if bar is not None and (unwanted or reached):
                self._sell(symbol, bar.fill)
        if self.day <= self.last_decision:
            self._open({s: None if s in held else bar for s, bar in bars.items()}, coefficients, action)
        for symbol in list(self.positions):
            bar, position = bars[symbol], self.positions[symbol]
            if bar is None:
                continue
            if bar.high >= position.target:
                self._sell(symbol, max(position.target, bar.fill))
            elif self.day - position.entry_day >= self.config.max_holding_days:
                self._sell(symbol, bar.close)

    def _open(
        self, bars: dict[int, Bar | None], coefficients: list[float], action: npt.NDArray[np.floating]
    ) -> None:
        original = self.config.actions == "original"
        ranking = sorted(range(len(coefficients)), key=lambda symbol: -coefficients[symbol])
        slots = ceil(1 / self.config.position_fraction - 1e-9)
        if original:
            wanted = [symbol for symbol in ranking[:1] if coefficients[symbol] >= self.config.threshold]
        else:
            wanted = [symbol for symbol in ranking if coefficients[symbol] > self.config.threshold]
        opened = 0
        for symbol in wanted:
            bar = bars[symbol]
            if symbol in self.positions or bar is None or len(self.positions) >= slots:
                continue
            spend = self.cash / (slots - len(self.positions))
            value = spend / (1 + self.rate)
            self.cash -= spend
            self.costs += value * self.rate
            gain = self._sale_target(float(action[symbol, 1]))
            self.positions[symbol] = Position(
                value / bar.fill, bar.fill, bar.fill * (1 + gain), self.day, coefficients[symbol], bar.fill
            )
            opened += 1
            if opened == (1 if original else self.config.max_new_positions):
                break

    def _sale_target(self, value: float) -> float:
        if self.config.actions == "original":
            return 0.10 + (0.50 - 0.10) * value
        low, high = self.config.target_low, self.config.target_high
        return float(low * (high / low) ** value)

    def _rebalance(self, bars: dict[int, Bar | None], logits: list[float]) -> None:
        powers = {symbol: exp(logits[symbol]) for symbol, bar in bars.items() if bar is not None}
        total = sum(powers.values()) + exp(logits[-1])
        values = {}
        for symbol, bar in bars.items():
            if bar is not None:
                position = self.positions.pop(symbol, None)
                values[symbol] = 0.0 if position is None else position.shares * bar.fill
        wealth = self.cash + sum(values.values())
        left, previous = wealth, 0.0
        while abs(left - previous) > 1e-15 * wealth:
            previous = left
            left = wealth - self.rate * sum(
                abs(power / total * left - values[symbol]) for symbol, power in powers.items()
            )
        self.costs += wealth - left
        self.cash = left
        for symbol, power in powers.items():
            bar = bars[symbol]
            assert bar is not None
            value = power / total * left
            self.cash -= value
            self.positions[symbol] = Position(value / bar.fill, bar.fill, 0.0, self.day, 0.0, bar.fill)
