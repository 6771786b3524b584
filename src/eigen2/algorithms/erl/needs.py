"""What an ERL run will need, from its config and the size of its world alone. Imports no torch.

Every term names what it counts. The terms of `MarketActivations` follow `nets/encoder.py`, `nets/tiles.py`,
`algorithms/erl/market_networks.py` and `algorithms/erl/market.py`: whoever changes how much those hold at once changes
them here, and `tests/algorithms/erl/test_needs.py` and `./run bench memory` say whether they are right.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from eigen2.algorithms.contract import Needs
from eigen2.algorithms.erl.config import ERLConfig
from eigen2.algorithms.erl.schema import market_schema
from eigen2.envs.config import TradingConfig
from eigen2.envs.control.sizes import control_sizes
from eigen2.envs.trading.observation import POSITION_FEATURES
from eigen2.evaluation.pictures import stored_evaluation
from eigen2.market.shape import MarketShape, market_shape
from eigen2.market.splits import history_days
from eigen2.replay.schema import vector_schema
from eigen2.replay.size import stored_bytes

if TYPE_CHECKING:
    from eigen2.config import Config

FLOAT = 4
ACCOUNT_INPUTS = 3
"""Numbers of the account that the networks look at."""
CHUNK_ROWS = 1 << 14
KEPT_ROWS = 1 << 17
"""Rows (agent x day x symbol) worked on at a time, and those whose layers are all kept (`nets/encoder.py`)."""
HEAD_KEPT = 13
"""Tensors [agent, row, symbol, hidden] that a backward pass through the heads keeps or makes."""
HEAD_MADE = 6
"""The same of a pass without gradients."""
CELL_KEPT = 12
"""Numbers per [network, row, symbol] beside the layers: actions, values, targets, noise, and what their gradients keep."""
BOOKS_KEPT = 20
"""Numbers per [network, row, symbol] that the direct gradient keeps of the books of a day."""
LAYER_KEPT = 6
"""The same of one layer of the encoder."""
LOADING_CELL = 8 * 9
"""Bytes per day and symbol at the worst moment of computing features, beside prices and features."""
FILE_CELL = 100
"""The same while a user's file is read and checked."""
ENVIRONMENT = 100_000
"""One simulated or Gymnasium environment, about."""
LINE = 155
"""A line of lineage.jsonl."""
CONTROL_PACKED = 0.9
"""What compression leaves of transitions: observations are noise."""
KNOBS = ("replay.capacity", "alg.block", "alg.batch", "alg.hidden", "alg.population", "alg.windows",
         "alg.validation_windows", "alg.learners", "workers", "env.synthetic.symbols",
         "env.synthetic.days", "alg.generations")  # fmt: skip


def erl_needs(config: "Config", data: Path | None) -> Needs | None:
    alg, env = config.alg, config.env
    assert isinstance(alg, ERLConfig)
    if not isinstance(env, TradingConfig):
        return _control_needs(config, alg)
    shape = market_shape(env, data)
    return None if shape is None else _market_needs(config, alg, env, shape)


@dataclass(frozen=True)
class Networks:
    """Numbers in one agent's networks, and what a run holds of them."""

    alg: ERLConfig
    actor: int
    critic: int
    """0 without updates of critics."""

    @property
    def held(self) -> dict[str, int]:
        alg, actor, critic = self.alg, self.actor, self.critic
        learners = alg.learners * (2 * actor + 4 * critic)
        # The population, its copy while it is evaluated and bred, the champion and the search distribution.
        agents = actor * (3 * alg.population + 1 + 4)
        return {
            "networks": FLOAT * (agents + learners),
            "optimisers": FLOAT * (self.moments + self.gradients),
        }

    @property
    def moments(self) -> int:
        """Adam's, of actor, critics and, where there is one, the direct gradient."""
        alg = self.alg
        passes = (1 if alg.gradient_steps else 0) + (1 if alg.direct_steps else 0)
        return alg.learners * (2 * passes * self.actor + 4 * self.critic)

    @property
    def gradients(self) -> int:
        return self.alg.learners * (self.actor + 2 * self.critic)

    def state(self, *, trained: bool) -> int:
        """Bytes of the networks in a training state."""
        alg = self.alg
        count = self.actor * (alg.population + 1) + alg.learners * (2 * self.actor + 4 * self.critic)
        if trained:
            search = 3 if alg.variation == "cem" and alg.bred else 0
            count += self.moments + self.actor * (1 + search)
        return FLOAT * count


def _linear(inputs: int, outputs: int) -> int:
    return inputs * outputs + outputs


def market_networks(alg: ERLConfig, channels: int, weights: bool) -> Networks:
    """The counts of `nets/encoder.py` and `nets/market.py`."""
    h = alg.hidden
    encoder = _linear(channels, h) + alg.encoder_layers * (2 * h + _linear(2 * h, h))
    positions = len(POSITION_FEATURES)

    def head(inputs: int, outputs: int) -> int:
        return (
            4 * _linear(h, h) + _linear(inputs, h) + _linear(ACCOUNT_INPUTS, h) + 4 * h + _linear(h, outputs)
        )

    actor = encoder + (head(positions, 1) + _linear(h, 1) if weights else head(positions, 2))
    critic = encoder + head(positions + (1 if weights else 2), 1)
    return Networks(alg, actor, critic if alg.gradient_steps else 0)


@dataclass(frozen=True)
class MarketActivations:
    """What the phases of a generation hold for a while."""

    alg: ERLConfig
    env: TradingConfig
    shape: MarketShape
    record: int

    @property
    def steps(self) -> int:
        env = self.env
        return env.trading_days + (0 if env.actions == "weights" else env.settlement_days)

    @property
    def history(self) -> int:
        return int(2 ** min(self.alg.encoder_layers, 40))

    @property
    def training_days(self) -> int:
        env = self.env
        held_out = env.validation_days + env.holdout_days + 2 * env.embargo_days
        return max(1, self.shape.days - held_out - history_days(env))

    def peaks(self) -> dict[str, int]:
        alg, env = self.alg, self.env
        found = {
            "evaluate": self._rollout(alg.windows, self.training_days, alg.population),
            "validate": self._rollout(alg.validation_windows, env.validation_days, 0),
        }
        if alg.learners and alg.gradient_steps:
            found["train"] = self._gradient(2 * alg.learners, alg.batch, CELL_KEPT)
        if alg.learners and alg.direct_steps:
            rows = alg.runs * alg.run_days(env.trading_days)
            found["direct"] = self._gradient(alg.learners, rows, CELL_KEPT + BOOKS_KEPT)
        return found

    def _rollout(self, windows: int, days: int, recorded: int) -> int:
        """A block of agents over `windows` episodes; `recorded` agents keep their transitions until all have played."""
        alg, shape = self.alg, self.shape
        block = min(alg.block, alg.population)
        days = self._played_days(windows, days)
        projected = block * days * shape.tradable * alg.hidden * FLOAT
        rows = windows * self.steps * self.record
        books = block * windows * shape.tradable * 8 * 12
        cells = block * windows * shape.symbols
        if cells > KEPT_ROWS:
            cells = max(2 * windows * shape.symbols, KEPT_ROWS)
        acting = cells * alg.hidden * FLOAT * HEAD_MADE
        return max(self._projecting(block, days), projected + acting) + recorded * rows + books

    def _projecting(self, block: int, days: int) -> int:
        """The first layer of all days: in one piece, or an agent and a tile of days at a time beside what comes out."""
        alg, shape = self.alg, self.shape
        inputs = days * shape.symbols * self.channels * FLOAT
        embedded = days * shape.symbols * alg.hidden * FLOAT
        projected = block * days * shape.tradable * alg.hidden * FLOAT
        if not self._is_wide(block, days):
            # Joining the agents' embeddings holds them twice; projecting them holds them and three of what comes out.
            return inputs + max(2 * block * embedded, block * embedded + 3 * projected)
        whole = 0 if self._days_stand_alone else inputs + 2 * embedded
        return projected + whole + self._tile * HEAD_MADE

    def _is_wide(self, networks: int, rows: int) -> bool:
        return networks * rows * self.shape.symbols > KEPT_ROWS

    @property
    def _days_stand_alone(self) -> bool:
        return self.history == 1

    @property
    def _tile(self) -> int:
        """One layer of a tile; at least a row of all symbols."""
        return max(CHUNK_ROWS, self.shape.symbols) * self.alg.hidden * FLOAT

    def _played_days(self, windows: int, days: int) -> int:
        """Different days in `windows` episodes drawn from `days`: they overlap. A tenth above what is expected, as some
        generation will be."""
        length = self.steps + 1
        missed = (1.0 - min(1.0, length / days)) ** windows
        return min(days, windows * length, round(1.1 * days * (1.0 - missed)))

    def _gradient(self, networks: int, rows: int, kept_of_cells: int) -> int:
        """A forward and backward pass of stacked networks over `rows` portfolios."""
        alg, shape = self.alg, self.shape
        drawn = 3 * rows * self.record + networks * rows * shape.tradable * FLOAT * kept_of_cells
        if self._is_wide(networks, rows):
            head = HEAD_KEPT * self._tile
        else:
            head = HEAD_KEPT * networks * rows * shape.tradable * alg.hidden * FLOAT
        return drawn + head + self._embedding(networks, rows)

    def _embedding(self, networks: int, rows: int) -> int:
        """The days that the portfolios are on, now and after their step, and what the encoder keeps of them."""
        alg, shape = self.alg, self.shape
        days = min(rows, shape.days)
        if self.history == 1:
            time = days
        else:
            time = min(shape.days, -(-rows // alg.run_length) * (alg.run_length + self.history))
        inputs = 2 * time * shape.symbols * self.channels * FLOAT
        if self._is_wide(networks, rows) and self._days_stand_alone:
            return inputs + LAYER_KEPT * self._tile
        embedded = networks * days * shape.symbols * alg.hidden * FLOAT
        kept = min(networks * time * shape.symbols, KEPT_ROWS + CHUNK_ROWS)
        layers = kept * alg.hidden * FLOAT * LAYER_KEPT * (1 + alg.encoder_layers)
        return inputs + 3 * embedded + layers

    @property
    def channels(self) -> int:
        return len(self.env.features) + 1


def _market_needs(config: "Config", alg: ERLConfig, env: TradingConfig, shape: MarketShape) -> Needs:
    weights = env.actions == "weights"
    channels = len(env.features) + 1
    networks = market_networks(alg, channels, weights)
    record = stored_bytes(market_schema(shape.tradable, weights))
    work = MarketActivations(alg, env, shape, record)
    prices, features = shape.cells * (8 * shape.prices + 1), shape.cells * FLOAT * len(env.features)
    tables = shape.days * shape.tradable * (3 * 8 + 2)
    cores = 3 + bool(alg.explore_episodes)
    direct = shape.days * shape.tradable * FLOAT * 2 if alg.direct_steps else 0
    tensors = shape.cells * (channels * FLOAT + 1)
    ledger = _ledger_bytes(alg, env, work.steps)
    agents = alg.population * alg.windows + alg.learners * alg.explore_episodes
    held = {
        "market": prices + features + tensors + cores * tables + direct,
        **networks.held,
        "trials": ledger,
    }
    peaks = work.peaks()
    evaluation = (env.validation_days + env.holdout_days) * shape.symbols * alg.hidden * FLOAT * 4
    return Needs(
        held=held,
        peaks={**peaks, "holdout": evaluation},
        opening=prices + features + shape.cells * (LOADING_CELL + (FILE_CELL if shape.is_file else 0)),
        on_device=("networks", "optimisers"),
        worker=held["market"] + max(peaks["evaluate"], peaks["validate"]),
        steps=alg.generations,
        state=networks.state(trained=True) + ledger,
        first_state=networks.state(trained=False),
        evaluations=alg.generations,
        best_is_newest=alg.variation == "cem" and alg.bred > 0,
        best_agent=FLOAT * networks.actor,
        record=record,
        transitions=alg.generations * agents * work.steps,
        packed=_market_packed(env, shape.tradable, record),
        own_data=shape.cells * 8 * shape.prices * 4 // 5 if shape.is_file and config.run.keep_data else 0,
        log=1_000 + alg.population * LINE,
        evaluation=stored_evaluation(env.holdout_days, shape.tradable),
        knobs=KNOBS,
    )


def _market_packed(env: TradingConfig, symbols: int, record: int) -> float:
    """What compression leaves of a transition: the actions of all symbols, and the positions of those that are held.
    Measured on random walks and sp20."""
    if env.actions == "weights":
        return min(1.0, 9.0 * symbols / record)
    return min(1.0, (7.4 * symbols + 9.5 * min(symbols, 1.0 / env.position_fraction)) / record)


def _ledger_bytes(alg: ERLConfig, env: TradingConfig, steps: int) -> int:
    from eigen2.evaluation.ledger import CAPACITY

    kept = min(CAPACITY, alg.generations * min(alg.candidates or alg.population, alg.population))
    days = min(env.validation_days, alg.validation_windows * steps)
    return kept * (days * FLOAT + 8)


def _control_needs(config: "Config", alg: ERLConfig) -> Needs:
    sizes, h = control_sizes(config.env), alg.hidden
    body = _linear(h, h)
    actor = _linear(sizes.observation, h) + body + _linear(h, sizes.action)
    critic = _linear(sizes.observation + sizes.action, h) + body + _linear(h, 1)
    networks = Networks(alg, actor, critic if alg.gradient_steps else 0)
    # Rollouts and batches hold whole observations, also where the replay keeps their rows.
    whole = stored_bytes(vector_schema(sizes.observation, sizes.action))
    record = stored_bytes(vector_schema(sizes.observation, sizes.action, rows=sizes.observation_rows))
    block = min(alg.block, alg.population)
    episodes = {block * alg.windows, min(block, alg.candidates or block) * alg.validation_windows}
    episodes |= {alg.learners * alg.explore_episodes} if alg.explore_episodes else set()
    played = alg.population * alg.windows + alg.learners * alg.explore_episodes
    steps = sizes.episode_steps
    playing = (
        block * alg.windows * (steps * whole * 2 + 4 * h * FLOAT)
        + alg.population * alg.windows * steps * whole
    )
    environments = (sum(episodes) + 20) * (ENVIRONMENT + sizes.observation * 8 * 4)
    batch = alg.batch * (
        whole * 3 + 2 * alg.learners * FLOAT * (8 * h + 4 * (sizes.observation + sizes.action))
    )
    held = {**networks.held, "environments": environments}
    return Needs(
        held=held,
        peaks={"evaluate": playing, **({"train": batch} if alg.learners else {})},
        on_device=("networks", "optimisers"),
        worker=environments + playing,
        steps=alg.generations,
        state=networks.state(trained=True),
        first_state=networks.state(trained=False),
        evaluations=alg.generations,
        best_agent=FLOAT * actor,
        record=record,
        transitions=alg.generations * played * steps,
        packed=CONTROL_PACKED,
        log=1_000 + alg.population * LINE,
        knobs=KNOBS,
    )
