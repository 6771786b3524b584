"""For algorithms whose policies map vectors to vectors: such a one learns in every environment that Eigen2 knows.

It brings a config section and a `VectorTrainer`; the experiment is the same for all of them. Importing this imports
neither torch nor an environment.
"""

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from eigen2.algorithms.contract import (
    Algorithm,
    Champion,
    Evaluation,
    Experiment,
    Services,
    Trainer,
    WalkForward,
    WhatIf,
)

if TYPE_CHECKING:
    from eigen2.config import Config
    from eigen2.evaluation.problem import Policy, Problem


class VectorTrainer(Trainer):
    problem: "Problem"

    @abstractmethod
    def best_policy(self) -> "Policy":
        """The policy of `best_weights`."""


class VectorExperiment(Experiment):
    def __init__(self, trainer: VectorTrainer) -> None:
        self.trainer: VectorTrainer = trainer
        self.data_fingerprint = trainer.problem.data_fingerprint
        self.rounded_data_fingerprint = trainer.problem.rounded_data_fingerprint
        self.notes = trainer.problem.notes

    def own_data(self) -> bytes | None:
        return self.trainer.problem.own_data()

    def walk_forward(self, config: "Config", folds: int) -> WalkForward:
        from eigen2.algorithms.market_folds import market_folds
        from eigen2.evaluation.problem import TradingProblem

        problem = self.trainer.problem
        if not isinstance(problem, TradingProblem):
            return super().walk_forward(config, folds)
        return market_folds(config, problem.market, folds)

    def champion(self) -> Champion:
        return self.trainer.problem.champion(self.trainer.best_policy())

    def evaluate(self, split: str, what_if: WhatIf | None = None) -> Evaluation:
        return self.trainer.problem.evaluate(self.trainer.best_policy(), split, what_if)


class VectorAlgorithm(Algorithm):
    @abstractmethod
    def trainer(self, config: "Config", problem: "Problem", services: Services) -> VectorTrainer: ...

    @contextmanager
    def open(self, config: "Config", services: Services) -> Iterator[VectorExperiment]:
        from eigen2.evaluation.problem import open_problem

        problem = open_problem(
            config.env, config.seed, services.evaluations, services.data, services.holdouts
        )
        with closing(problem):
            yield VectorExperiment(self.trainer(config, problem, services))
