"""The trading environment is a good Gymnasium citizen: checkers, vector form, other libraries."""

import subprocess
import sys
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from eigen2.envs.config import TradingConfig
from eigen2.envs.trading.env import TradingEnv
from eigen2.envs.trading.vector import TradingVectorEnv
from eigen2.envs.trading.window import WindowObservation, market_window
from eigen2.errors import ConfigError
from eigen2.market.data import MarketData

ACTIONS = ["orders", "original", "weights"]


@pytest.fixture
def market(markets: ModuleType) -> MarketData:
    made: MarketData = markets.random_market(1, 90, 5, tradable=(0, 2, 3), unknown=0.05)
    return made


def short(**options: Any) -> TradingConfig:
    return TradingConfig(window=8, trading_days=10, settlement_days=3, max_holding_days=3, **options)


@pytest.mark.filterwarnings("ignore:.*WARN")  # advice on bounds, not faults
@pytest.mark.parametrize("actions", ACTIONS)
def test_the_gymnasium_checker_passes_for_env_and_wrapper(market: MarketData, actions: str) -> None:
    check_env(TradingEnv(market, short(actions=actions)), skip_render_check=True)
    check_env(WindowObservation(TradingEnv(market, short(actions=actions))), skip_render_check=True)


def test_make_builds_the_environment_from_the_config_options() -> None:
    env = gymnasium.make("eigen2/Trading-v0", data="sp20", trading_days=5, settlement_days=2)
    observation, _ = env.reset(seed=3)
    assert observation in env.observation_space
    assert isinstance(env.unwrapped, TradingEnv)
    assert env.unwrapped.market.name == "sp20"
    steps, over = 0, False
    while not over:
        *_, over, _, info = env.step(env.action_space.sample())
        steps += 1
    assert steps == 7
    assert info["contribution"].shape == (20,)


def test_what_make_gives_holds_the_market_by_default_and_the_day_if_asked() -> None:
    env = gymnasium.make("eigen2/Trading-v0", data="sp20", window=8)
    observation, _ = env.reset(seed=3, options={"start": 300})
    assert isinstance(env.unwrapped, TradingEnv)
    market = env.unwrapped.market
    np.testing.assert_array_equal(observation["window"], market.features[293:301])
    assert set(observation) == {"window", "positions", "account"}
    after, *_ = env.step(env.action_space.sample())
    np.testing.assert_array_equal(after["window"], market.features[294:302])
    compact = gymnasium.make("eigen2/Trading-v0", market=market, window=8, observation="compact")
    assert compact.reset(options={"start": 300})[0]["day"].tolist() == [300]
    with pytest.raises(ConfigError, match="observation=window or compact, not 'prices'"):
        gymnasium.make("eigen2/Trading-v0", market=market, observation="prices")
    with pytest.raises(TypeError, match="has its window already"):
        WindowObservation(env)


@pytest.mark.parametrize(
    ("imports", "name"),
    [
        ("import eigen2, gymnasium", "eigen2/Trading-v0"),
        ("import eigen2.envs, gymnasium", "eigen2/Trading-v0"),
        ("import gymnasium, eigen2.envs", "eigen2/Trading-v0"),
        ("import eigen2.envs; from gymnasium.spaces import Box; import gymnasium", "eigen2/Trading-v0"),
        ("import gymnasium", "eigen2.envs:eigen2/Trading-v0"),
    ],
)
def test_importing_the_package_registers_the_environment(imports: str, name: str) -> None:
    script = f"{imports}\nprint(gymnasium.make({name!r}).unwrapped.market.name)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "sp20\n"


def test_registering_waits_for_gymnasium() -> None:
    script = "import sys, eigen2.envs; sys.exit('gymnasium' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_make_names_the_option_it_cannot_use() -> None:
    with pytest.raises(ConfigError, match="trading_day: Extra inputs"):
        gymnasium.make("eigen2/Trading-v0", data="sp20", trading_day=5)


def test_a_split_shorter_than_an_episode_is_refused(market: MarketData) -> None:
    with pytest.raises(
        ConfigError, match=r"146 days, but the train split of small has 90: lower env\.trading_days"
    ):
        TradingEnv(market, TradingConfig())


def test_reset_takes_start_and_length_from_the_options_and_else_draws_from_the_split(
    market: MarketData,
) -> None:
    env = TradingEnv(market, short())
    observation, _ = env.reset(options={"start": 17, "trading_days": 4})
    assert observation["day"].tolist() == [17]
    steps = 0
    while not env.core.done[0]:
        env.step(env.action_space.sample())
        steps += 1
    assert steps == 4 + 3
    first, again = env.reset(seed=5)[0]["day"], env.reset(seed=5)[0]["day"]
    assert first == again
    assert len({int(env.reset()[0]["day"][0]) for _ in range(20)}) > 5
    with pytest.raises(ValueError, match="begin"):
        env.reset(options={"begin": 3})


def test_the_window_is_the_slice_of_features_up_to_the_day(market: MarketData) -> None:
    env = WindowObservation(TradingEnv(market, short()))
    observation, _ = env.reset(options={"start": 20})
    np.testing.assert_array_equal(observation["window"], market.features[13:21])
    assert set(observation) == {"window", "positions", "account"}
    padded = market_window(market, 2, 8)
    assert not padded[:5].any()
    np.testing.assert_array_equal(padded[5:], market.features[:3])


@pytest.mark.parametrize("actions", ACTIONS)
def test_the_vector_environment_equals_single_ones_across_episode_ends(
    market: MarketData, actions: str
) -> None:
    config = short(actions=actions)
    ours = TradingVectorEnv(market, config, num_envs=3)
    assert ours.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    theirs = SyncVectorEnv([lambda: TradingEnv(market, config)] * 3, autoreset_mode=AutoresetMode.NEXT_STEP)
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    ours.action_space.seed(1)
    left, right = ours.reset(seed=11)[0], theirs.reset(seed=11)[0]
    for _ in range(35):
        for name in left:
            np.testing.assert_array_equal(left[name], right[name])
        action = ours.action_space.sample()
        left, *numbers, info = ours.step(action)
        right, *expected, other = theirs.step(action)
        for own, their in zip(numbers, expected, strict=True):
            np.testing.assert_array_equal(own, their)
        np.testing.assert_array_equal(info["equity"], other["equity"])


def test_make_vec_uses_one_core(market: MarketData) -> None:
    envs = gymnasium.make_vec(
        "eigen2/Trading-v0",
        4,
        vectorization_mode="vector_entry_point",
        market=market,
        trading_days=10,
        window=8,
    )
    observation, _ = envs.reset(seed=0)
    assert observation["positions"].shape == (4, 3, 4)
    assert observation["window"].shape == (4, 8, 5, market.features.shape[2])
    assert observation in envs.observation_space
    assert isinstance(envs.unwrapped, TradingVectorEnv)
    assert envs.unwrapped.core.batch == 4


def test_both_vector_forms_of_make_vec_see_the_same(market: MarketData) -> None:
    options: dict[str, Any] = {"market": market, "trading_days": 10, "settlement_days": 3, "window": 8}
    one, many = (
        gymnasium.make_vec("eigen2/Trading-v0", 2, vectorization_mode=mode, **options)
        for mode in ("vector_entry_point", "sync")
    )
    assert one.observation_space == many.observation_space
    left, right = one.reset(seed=4)[0], many.reset(seed=4)[0]
    one.action_space.seed(0)
    for _ in range(20):
        for name in ("window", "positions", "account"):
            np.testing.assert_array_equal(left[name], right[name])
        action = one.action_space.sample()
        left, right = one.step(action)[0], many.step(action)[0]


def test_a_stable_baselines_agent_trains_on_it(market: MarketData) -> None:
    stable_baselines3 = pytest.importorskip("stable_baselines3")
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    env = gymnasium.make(
        "eigen2/Trading-v0", market=market, window=8, trading_days=10, settlement_days=3, max_holding_days=3
    )
    agent = stable_baselines3.PPO(
        "MultiInputPolicy", env, n_steps=500, batch_size=250, n_epochs=2, seed=0, device="cpu"
    )
    before = [parameter.detach().clone() for parameter in agent.policy.parameters()]
    agent.learn(2000)
    assert agent.num_timesteps == 2000
    after = list(agent.policy.parameters())
    assert all(bool(torch.isfinite(parameter).all()) for parameter in after)
    assert any(not torch.equal(old, new) for old, new in zip(before, after, strict=True))
