"""An algorithm of your own: random search. `eigen2 train alg=random_search env=gym` works once a package registers it:
[project.entry-points."eigen2.algorithms"] random_search = "own_algorithm:RandomSearch"."""

from typing import Literal

import numpy as np
import torch

from eigen2 import seeds
from eigen2.algorithms.contract import AlgorithmConfig
from eigen2.algorithms.vector import VectorAlgorithm, VectorTrainer


class RandomSearchConfig(AlgorithmConfig):
    kind: Literal["random_search"] = "random_search"
    tries: int = 100


class RandomSearchTrainer(VectorTrainer):
    steps, tried, best_score = 0, 0, float("-inf")

    def __init__(self, config, problem):
        self.seed, self.problem, self.steps = config.seed, problem, config.alg.tries
        self.weights = np.zeros(problem.env.observation_space.shape + problem.env.action_space.shape)

    @property
    def done(self):
        return self.tried >= self.steps

    def step(self):
        """Try one random change of the best weights. Named by its number, a stream needs no saved generator."""
        change = seeds.generator(self.seed, "change", self.tried).normal(0.0, 0.5, self.weights.shape)
        score = self.problem.score(self.best_policy(change), episodes=5)
        if score > self.best_score:
            self.best_score, self.weights = score, self.weights + change
        self.tried += 1
        return {"return": score}

    def state_dict(self):
        return {"found": [self.tried, self.best_score, self.weights], "problem": self.problem.state_dict()}

    def load_state_dict(self, state):
        self.tried, self.best_score, self.weights = state["found"]
        self.problem.load_state_dict(state["problem"])

    def best_weights(self):
        return {"weights": torch.from_numpy(self.weights)}

    def best_policy(self, change=0.0):
        """Observations [n, O] -> actions [n, A] in [-1, 1]."""
        weights = self.weights + change
        return lambda observation: np.tanh(observation @ weights)


class RandomSearch(VectorAlgorithm):
    name, config = "random_search", RandomSearchConfig

    def trainer(self, config, problem, services):
        return RandomSearchTrainer(config, problem)
