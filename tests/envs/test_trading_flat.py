"""Learners that want one vector see the same numbers, and act the same, in training and in a backtest."""

from collections.abc import Callable
from types import ModuleType

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from eigen2.envs.config import TradingConfig
from eigen2.envs.trading import TradingCore
from eigen2.envs.trading.env import TradingEnv
from eigen2.envs.trading.flat import FlatObservation, FlatSpaces, flat_policy
from eigen2.evaluation.backtest import run_policy
from eigen2.market.data import MarketData, Split

ACTIONS = ["orders", "original", "weights"]


@pytest.fixture
def market(markets: ModuleType) -> MarketData:
    made: MarketData = markets.random_market(1, 90, 5, tradable=(0, 2, 3), unknown=0.05)
    return made


def short(actions: str = "orders") -> TradingConfig:
    return TradingConfig(window=8, trading_days=10, settlement_days=3, max_holding_days=3, actions=actions)


def some_policy(spaces: FlatSpaces, seed: int = 0) -> Callable[[np.ndarray], np.ndarray]:
    """A fixed nonlinear function of everything in the observation."""
    weights = np.random.default_rng(seed).normal(size=(spaces.observation_size, spaces.action_size))
    return lambda vectors: np.tanh(3.0 * vectors @ weights)


@pytest.mark.filterwarnings("ignore:.*WARN")  # advice on bounds, not faults
@pytest.mark.parametrize("actions", ACTIONS)
def test_the_gymnasium_checker_passes(market: MarketData, actions: str) -> None:
    check_env(FlatObservation(TradingEnv(market, short(actions))), skip_render_check=True)


def test_the_vector_holds_market_positions_and_account_in_this_order(market: MarketData) -> None:
    trading = TradingEnv(market, short())
    env = FlatObservation(trading)
    env.reset(options={"start": 20})
    for _ in range(3):
        vector, *_ = env.step(np.ones(6, np.float32))
    seen = trading.core.observe()
    parts = [market.features[23], market.mask[23], seen.positions[0], seen.account[0]]
    expected = np.concatenate([np.asarray(part, np.float32).ravel() for part in parts])
    assert vector.shape == (5 * 2 + 5 + 3 * 4 + 5,)
    assert vector.dtype == np.float32
    np.testing.assert_array_equal(vector, expected)
    assert seen.positions.any()


@pytest.mark.parametrize("actions", ACTIONS)
def test_actions_from_minus_one_to_one_span_the_bounds_of_the_core(market: MarketData, actions: str) -> None:
    core = TradingCore(market, short(actions), 2)
    spaces = FlatSpaces(core)
    low, high = core.action_bounds
    ends = np.array([-1.0, 1.0])[:, None] * np.ones(spaces.action_size)
    np.testing.assert_array_equal(spaces.decode(ends), np.stack([low, high]))
    np.testing.assert_array_equal(spaces.decode(7.0 * ends), np.stack([low, high]))
    assert spaces.decode(ends).dtype == np.float32
    if actions != "weights":
        coefficient = np.float32(0.123456789)
        assert (spaces.decode(np.full((1, 6), coefficient))[0, :, 0] == coefficient).all()


@pytest.mark.parametrize("actions", ACTIONS)
def test_wrapper_and_policy_agree_number_for_number(market: MarketData, actions: str) -> None:
    config = short(actions)
    env = FlatObservation(TradingEnv(market, config))
    act = some_policy(env.spaces)
    core = TradingCore(market, config, 1)
    turnover_seen = False
    for start in (8, 30, 61):
        split = Split("window", start, start + config.trading_days + core.settlement_days + 1)
        backtest = run_policy(core, flat_policy(act, core), split)
        vector, info = env.reset(options={"start": start})
        rewards, turnover, over = [], [], False
        while not over:
            vector, reward, over, _, info = env.step(act(vector[None])[0].astype(np.float32))
            rewards.append(reward)
            turnover.append(info["turnover"])
        np.testing.assert_array_equal(rewards, backtest.log_returns[0])
        np.testing.assert_array_equal(turnover, backtest.turnover[0])
        turnover_seen |= bool(backtest.turnover.any())
    assert turnover_seen


def test_it_wraps_what_make_returns_and_nothing_else() -> None:
    env = FlatObservation(gymnasium.make("eigen2.envs:eigen2/Trading-v0", data="sp20", trading_days=5))
    vector, _ = env.reset(seed=1)
    assert vector in env.observation_space
    assert env.step(env.action_space.sample())[0] in env.observation_space
    with pytest.raises(TypeError, match="eigen2/Trading-v0"):
        FlatObservation(gymnasium.make("Pendulum-v1"))


def test_a_stable_baselines_agent_trains_on_it_and_is_backtested(market: MarketData) -> None:
    stable_baselines3 = pytest.importorskip("stable_baselines3")
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    env = FlatObservation(TradingEnv(market, short("weights")))
    agent = stable_baselines3.SAC("MlpPolicy", env, learning_starts=50, seed=0, device="cpu")
    agent.learn(80)
    core = TradingCore(market, short("weights"), 1)
    policy = flat_policy(lambda vectors: agent.predict(vectors, deterministic=True)[0], core)
    backtest = run_policy(core, policy, Split("window", 10, 30))
    assert np.isfinite(backtest.log_returns).all()
