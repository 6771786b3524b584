"""What ERL says it will need is what it then has."""

from pathlib import Path

import pytest
from command_lab import ORDERS, PENDULUM, WEIGHTS, write_prices

from eigen2.algorithms import registry
from eigen2.algorithms.contract import Needs
from eigen2.algorithms.erl.trainer import ERLTrainer
from eigen2.config import Config, load_config
from eigen2.harness.host import Host
from eigen2.market.config import MarketConfig
from eigen2.market.shape import market_shape
from eigen2.nets.stacked import nbytes
from eigen2.store.state import state_bytes

CONFIGS = {
    "orders": ORDERS,
    "weights": WEIGHTS,
    "deep": (*ORDERS, "alg.encoder_layers=2", "alg.direct_steps=2"),
    "layer": (*ORDERS, "alg.variation=layer"),
    "control": PENDULUM,
}


def needs(config: Config) -> Needs:
    found = registry.algorithm("erl").needs(config, Host(config).services)
    assert found is not None
    return found


@pytest.mark.parametrize("name", CONFIGS)
def test_states_and_records_have_the_computed_size(name: str) -> None:
    config = load_config(CONFIGS[name])
    wants = needs(config)
    with registry.algorithm("erl").open(config, Host(config).services) as experiment:
        trainer = experiment.trainer
        assert isinstance(trainer, ERLTrainer)
        assert state_bytes(trainer.state_dict()) == pytest.approx(wants.first_state, rel=0.05)
        assert trainer.replay.ring.layout.nbytes == wants.record
        while not trainer.done:
            trainer.step()
        assert trainer.steps == wants.steps
        assert state_bytes(trainer.state_dict()) == pytest.approx(wants.state, rel=0.05)
        assert sum(value.nbytes for value in trainer.best_weights().values()) == wants.best_agent
        assert nbytes(trainer.actors) < wants.held["networks"]
        if name != "control":
            assert trainer.env_steps <= 2 * wants.transitions
            assert trainer.owners()["market"] + trainer.owners()["market_tensors"] < wants.held["market"]


def test_the_shape_of_a_users_file_is_known_before_it_is_read(tmp_path: Path) -> None:
    import pandas as pd

    wide = tmp_path / "prices.csv"
    write_prices(wide)
    found = market_shape(MarketConfig(data=str(wide)))
    assert found is not None
    assert (found.days, found.symbols, found.prices, found.is_file) == (400, 4, 1, True)
    table = pd.read_csv(wide).melt("date", var_name="symbol", value_name="close")
    table["open"] = table["close"]
    table.to_parquet(tmp_path / "long.parquet")
    table.to_csv(tmp_path / "long.csv", index=False)
    for name in ("long.parquet", "long.csv"):
        found = market_shape(MarketConfig(data=str(tmp_path / name), context=("A",)))
        assert found is not None
        assert (found.days, found.symbols, found.tradable, found.prices) == (400, 4, 3, 2)
    assert market_shape(MarketConfig(data=str(tmp_path / "nothing.csv"))) is None
