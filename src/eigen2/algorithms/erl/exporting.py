"""`eigen2 export` of an ERL run: the champion's weights, what they mean, and a card for people."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from eigen2.algorithms.contract import CHAMPION, Services
from eigen2.algorithms.erl.card import control_card, market_card
from eigen2.algorithms.erl.control import ControlTask, actor_output, control_policy
from eigen2.algorithms.erl.exported import PRICES
from eigen2.algorithms.erl.market import MarketTask
from eigen2.algorithms.erl.market_networks import MarketNetworks
from eigen2.algorithms.exports import GRAPH, WEIGHTS, write_champion, write_graph
from eigen2.config import Config
from eigen2.envs.control.rollout import play_episodes
from eigen2.envs.trading import ACCOUNT_FEATURES, POSITION_FEATURES, TradingCore
from eigen2.evaluation.control import EPISODES, FRESH
from eigen2.market.continuation import prices_of
from eigen2.market.features import CLIP, feature_scale
from eigen2.market.kept import kept_prices
from eigen2.nets.stacked import Params

if TYPE_CHECKING:
    from eigen2.algorithms.erl.trainer import ERLTrainer


def export_market(
    directory: Path, config: Config, task: MarketTask, trainer: "ERLTrainer", services: Services
) -> dict[str, Any]:
    market, actor = task.market, trainer.champion.actor
    facts = {**market_facts(task), "verdict": verdicts(services), "run": _run(services)}
    write_champion(directory, config, trainer.best_weights(), facts)
    prices = kept_prices(market) if config.run.keep_data else None
    if prices is not None:
        (directory / PRICES).write_bytes(prices)
    graph = MarketGraph(task, actor)
    write_graph(directory, graph, graph.example(), batch=False)
    (directory / "README.md").write_text(market_card(facts, config, graph.history), encoding="utf-8")
    return {"market": market.name, "files": _files(directory)}


def market_facts(task: MarketTask) -> dict[str, Any]:
    market, env = task.market, task.env
    low, high = TradingCore(market, env, 1).action_bounds
    scale = feature_scale(prices_of(market), market.feature_names, market.train.stop)
    return {
        "market": market.name,
        "data_fingerprint": market.fingerprint,
        "rounded_data_fingerprint": market.rounded_fingerprint,
        "symbols": list(market.symbols),
        "tradable": [market.symbols[position] for position in market.tradable],
        "fields": list(prices_of(market).arrays()),
        "features": [
            {"name": name, "mean": mean, "deviation": deviation} for name, (mean, deviation) in scale.items()
        ],
        "clip": CLIP,
        "last_day": len(market.dates) - 1,
        "days": {
            split.name: [str(market.dates[split.start]), str(market.dates[split.stop - 1])]
            for split in (market.train, market.validation, market.holdout)
        },
        "action": {"rule": env.actions, "low": low.tolist(), "high": high.tolist(), "dtype": "float32"},
        "costs": {
            "fee_bp": env.fee_bp,
            "slippage_bp": env.slippage_bp,
            "delisting_penalty": env.delisting_penalty,
        },
    }


def verdicts(services: Services) -> dict[str, Any]:
    """What the run's newest evaluation says of each split."""
    kept = ("verdict", "evidence_of_skill", "holdout_looks", "trials", "champion", "time")
    return {
        str(record["split"]): {name: record[name] for name in kept if name in record}
        for record in services.evaluations()
        if "split" in record and not record.get("what_if")
    }


class MarketGraph(nn.Module):
    """Inputs: the standardised features and, last, the mask of the last `history` days [history, symbol, feature + 1];
    positions [tradable, 4] and account [5] of the observation. -> the action, in the core's bounds."""

    def __init__(self, networks: MarketNetworks, actor: Params) -> None:
        super().__init__()
        self.networks = networks
        self.history = networks.encoder.history
        self.names = {name.replace(".", "_"): name for name in actor}
        for safe, name in self.names.items():
            self.register_buffer(safe, actor[name].detach().cpu())

    def example(self) -> tuple[Tensor, ...]:
        networks = self.networks
        days = networks.tensors.inputs[-self.history :].cpu()
        held = torch.zeros(networks.symbols, len(POSITION_FEATURES))
        return days, held, torch.zeros(len(ACCOUNT_FEATURES))

    def forward(self, days: Tensor, positions: Tensor, account: Tensor) -> Tensor:
        actor: Params = {name: getattr(self, safe) for safe, name in self.names.items()}
        return self.networks.act_on_window(actor, days, positions, account)


def export_control(
    directory: Path, config: Config, task: ControlTask, trainer: "ERLTrainer", services: Services
) -> dict[str, Any]:
    actor, env = trainer.champion.actor, task.env
    low, high = env.action_bounds
    facts = {
        "task": env.name,
        "observation_size": env.observation_size,
        "action": {"low": low.tolist(), "high": high.tolist(), "dtype": str(low.dtype)},
        "run": _run(services),
    }
    write_champion(directory, config, trainer.best_weights(), facts)
    write_graph(
        directory, ControlGraph(actor, low, high), (torch.zeros(2, env.observation_size),), batch=True
    )
    played = play_episodes(env, control_policy(task, actor), EPISODES, config.seed, FRESH)
    (directory / "README.md").write_text(control_card(facts, config, played.mean, EPISODES), encoding="utf-8")
    return {"task": env.name, "mean_return": played.mean, "files": _files(directory)}


class ControlGraph(nn.Module):
    """Observations [n, O] -> actions [n, ...] in the environment's own bounds."""

    def __init__(self, actor: Params, low: np.ndarray, high: np.ndarray) -> None:
        super().__init__()
        self.names = {name.replace(".", "_"): name for name in actor}
        for safe, name in self.names.items():
            self.register_buffer(safe, actor[name].detach().cpu())
        self.register_buffer("low", torch.as_tensor(np.asarray(low)))
        self.register_buffer("high", torch.as_tensor(np.asarray(high)))

    def forward(self, observation: Tensor) -> Tensor:
        actor: Params = {name: getattr(self, safe) for safe, name in self.names.items()}
        unit = 0.5 * (torch.tanh(actor_output(actor, observation.unsqueeze(0)))[0] + 1.0)
        low, high = self.get_buffer("low"), self.get_buffer("high")
        return low + unit.reshape(-1, *low.shape) * (high - low)


def _files(directory: Path) -> dict[str, dict[str, int]]:
    names = (WEIGHTS, CHAMPION, GRAPH, PRICES, "README.md")
    return {
        name: {"bytes": (directory / name).stat().st_size} for name in names if (directory / name).exists()
    }


def _run(services: Services) -> dict[str, Any]:
    metadata: Mapping[str, Any] = services.metadata()
    return {name: metadata[name] for name in ("name", "id") if name in metadata}
