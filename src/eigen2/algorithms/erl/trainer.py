"""ERL: one step is one generation.

evaluate   all agents play the same freshly drawn episodes; their transitions go to the shared replay
explore    learners play noisy episodes for replay alone
train      the learners improve by gradient from that replay
validate   candidates play the same fixed episodes; the champion is chosen here (`erl.champions`)
evolve     elites stay, learners carry on with their trained actors, the rest is bred anew (`erl.breeding`)
"""

from typing import Any

import numpy as np
from torch import Tensor

from eigen2 import seeds
from eigen2.algorithms.contract import Metrics, Progress, Trainer
from eigen2.algorithms.erl.breeding import Breeder, Generation
from eigen2.algorithms.erl.champions import Champion
from eigen2.algorithms.erl.config import ERLConfig
from eigen2.algorithms.erl.ddpg import Learners
from eigen2.algorithms.erl.evolution import FloatArray, Stall, ranking
from eigen2.algorithms.erl.executor import Executor, RolloutTask, inline
from eigen2.algorithms.erl.finite import require_finite, require_finite_weights
from eigen2.algorithms.erl.genealogy import Genealogy
from eigen2.algorithms.erl.task import Episodes, ERLTask, RolloutResult, agent_blocks
from eigen2.algorithms.erl.upgrade import upgrade
from eigen2.evaluation.ledger import TrialLedger
from eigen2.evaluation.panels import REFERENCES, Lines, Newest, Spread, Tree
from eigen2.nets.stacked import Params, agents_in, distances, nbytes, put, take
from eigen2.replay import Replay


class ERLTrainer(Trainer):
    replay: Replay
    step_name = "generation"
    headline = ("fitness_best", "fitness_mean", "validation_best")
    panels = (
        Spread("Fitness of the population", "fitness"),
        Lines(
            "Fitness and validation",
            ("validation_best", "validation_mean", "fitness_best", "fitness_mean"),
            levels=REFERENCES,
        ),
        Spread(
            "Diversity of the population",
            "distance",
            note="Distance of each agent's weights from the mean of all, as a share of the mean's length.",
        ),
        Lines("Losses", ("critic_loss", "actor_loss", "direct_loss")),
        Tree("Ancestors of the champion", "validation", chosen="champion"),
        Newest(
            "Population",
            "validation",
            ("slot", "agent", "operator", "parents", "fitness", "validation", "distance", "champion"),
        ),
    )
    filling = ("replay", "champion", "trial_ledger")

    def __init__(
        self, task: ERLTask, config: ERLConfig, replay: Replay, seed: int, *,
        executor: Executor | None = None, progress: Progress | None = None,
    ) -> None:  # fmt: skip
        self.task, self.config, self.replay, self.seed = task, config, replay, seed
        self.units = dict.fromkeys((*self.headline, "best_score"), task.unit)
        self._execute = executor or inline(task)
        self._progress = progress or (lambda phase, done, total: None)
        self.actors = task.init_actor(config.population, seeds.torch_generator(seed, "actors"))
        self.learners: Learners | None = None
        if config.learners:
            first = take(self.actors, slice(0, config.learners))
            self.learners = Learners(task, config, first, seeds.torch_generator(seed, "critics"))
        self.direct = task.direct_gradient() if config.direct_steps else None
        self.breeder = Breeder(config, self.actors, self.learners, seed)
        self.trials = task.trials()
        self.champion = Champion()
        self.stall = Stall()
        occurring = {
            "evaluate": True,
            "explore": config.learners and config.explore_episodes,
            "train": config.learners and self._updates,
            "validate": True,
            "evolve": True,
        }
        self.phases = tuple(phase for phase, occurs in occurring.items() if occurs)
        self.generation = 0
        self.env_steps = 0
        self.lineage: list[dict[str, Any]] = []
        """Records of the last step, one per agent."""

    @property
    def _updates(self) -> int:
        """Of each learner in one training."""
        return self.config.gradient_steps + (self.config.direct_steps if self.direct is not None else 0)

    @property
    def steps(self) -> int:
        return self.config.generations

    @property
    def done(self) -> bool:
        return self.generation >= self.config.generations

    @property
    def best_score(self) -> float:
        return self.champion.score

    @property
    def genealogy(self) -> Genealogy:
        return self.breeder.genealogy

    @property
    def ledger(self) -> TrialLedger | None:
        """All trials among which the champion was chosen."""
        return None if self.trials is None else self.trials.ledger

    def best_weights(self) -> dict[str, Tensor]:
        return {name: value[0].contiguous() for name, value in self.champion.actor.items()}

    def take_records(self) -> dict[str, list[dict[str, Any]]]:
        news = [] if self.learners is None else self.learners.micro_batches.take_news()
        return {"lineage": self.lineage, "events": news}

    def drop_caches(self) -> None:
        super().drop_caches()
        self.task.drop_caches()

    def owners(self) -> dict[str, int]:
        return {
            "actors": nbytes(self.actors),
            **({} if self.learners is None else self.learners.owners()),
            "search_distribution": self.breeder.variation.nbytes,
            "champion": self.champion.nbytes,
            **({} if self.ledger is None else {"trial_ledger": self.ledger.nbytes}),
            **self.task.owners(),
            **super().owners(),
        }

    def step(self) -> Metrics:
        episodes = self.task.draw_episodes(
            self.config.windows, seeds.generator(self.seed, "episodes", self.generation)
        )
        evaluated = take(self.actors, slice(None))
        fitness = self._evaluate(evaluated, episodes)
        losses = self._train()
        validation = self._validate(fitness)
        self.stall = self.stall.update(
            float(np.nanmax(validation)), self.config.stall_generations, self.config.stall_factor
        )
        self.lineage = self.genealogy.records(
            self.generation + 1, fitness, validation, distances(evaluated), self.champion.agent
        )
        self._evolve(evaluated, fitness, trained=bool(losses))
        self.generation += 1
        return {
            "generation": float(self.generation),
            "fitness_best": float(fitness.max()),
            "fitness_mean": float(fitness.mean()),
            "validation_best": float(np.nanmax(validation)),
            "validation_mean": float(np.nanmean(validation)),
            "mutation_boost": self.stall.factor,
            "env_steps": float(self.env_steps),
            "replay": float(len(self.replay)),
            **losses,
        }

    # Phases

    def _evaluate(self, actors: Params, episodes: Episodes) -> FloatArray:
        require_finite_weights(actors, self.generation)
        rollouts = self._rollouts("evaluate", actors, episodes, record=self.learners is not None)
        fitness = np.concatenate([rollout.returns.mean(axis=1) for rollout in rollouts])
        if self.learners is not None and self.config.explore_episodes:
            self._explore()
        require_finite("fitness", fitness, range(len(fitness)), self.generation)
        return fitness

    def _explore(self) -> None:
        rng = seeds.generator(self.seed, "exploration", self.generation)
        episodes = self.task.draw_episodes(self.config.explore_episodes, rng)
        actors = take(self.actors, slice(0, self.config.learners))
        self._rollouts("explore", actors, episodes, record=True, noise=self.config.exploration)

    def _rollouts(
        self, phase: str, actors: Params, episodes: Episodes, *, record: bool = False, noise: float = 0.0
    ) -> list[RolloutResult]:
        """One result per block of agents; nothing is stored before all blocks have been played."""
        purpose = f"noise.{phase}.{self.generation}"
        tasks = [
            RolloutTask(take(actors, block), episodes, record, noise, (self.seed, purpose, i))
            for i, block in enumerate(agent_blocks(agents_in(actors), self.config.block))
        ]
        rollouts = []
        self._progress(phase, 0, len(tasks))
        for done, rollout in enumerate(self._execute(tasks), start=1):
            rollouts.append(rollout)
            self._progress(phase, done, len(tasks))
        for rollout in rollouts:
            self.env_steps += rollout.steps
            for chunk in rollout.transitions:
                self.replay.extend(chunk.steps, chunk.after)
        return rollouts

    def _train(self) -> Metrics:
        config, learners = self.config, self.learners
        waiting = len(self.replay) < config.learning_starts
        if learners is None or waiting or not self._updates:
            return {}
        self._progress("train", 0, self._updates)
        losses: Metrics = {}
        if config.gradient_steps:
            losses |= learners.train(
                lambda: self.task.batch(self.replay),
                config.gradient_steps,
                seeds.torch_generator(self.seed, "smoothing", self.generation),
                lambda done: self._progress("train", done, self._updates),
            )
        if self.direct is not None:
            losses["direct_loss"] = learners.follow(
                self.direct,
                self.replay,
                lambda done: self._progress("train", config.gradient_steps + done, self._updates),
            )
        put(self.actors, range(config.learners), learners.actor)
        return losses

    def _validate(self, fitness: FloatArray) -> FloatArray:
        """[agent] scores on the fixed episodes; NaN for agents that were not candidates."""
        chosen = self._candidates(fitness)
        actors = take(self.actors, chosen)
        rollouts = self._rollouts("validate", actors, self.task.validation_episodes())
        returns = np.concatenate([rollout.returns for rollout in rollouts])
        scores = returns.mean(axis=1)
        require_finite("validation", scores, chosen, self.generation)
        self._choose_champion(actors, returns, chosen)
        if self.trials is not None:
            self.trials.record(self.generation, rollouts)
        validation = np.full(self.config.population, np.nan)
        validation[chosen] = scores
        return validation

    def _choose_champion(self, actors: Params, returns: FloatArray, chosen: list[int]) -> None:
        """Validated `actors` with their `returns` [agent, window] and slots: which of them is the champion?"""
        mean = [chosen.index(slot) for slot in self.breeder.mean_slots() if slot in chosen]
        row = mean[0] if mean else ranking(returns.mean(axis=1))[0]
        consider = self.champion.consider_mean if mean else self.champion.consider_agent
        consider(take(actors, [row]), returns[row], self.generation, self.genealogy.ids[chosen[row]])

    def _candidates(self, fitness: FloatArray) -> list[int]:
        """Slots to validate: the mean, the learners, whose fitness is that before training, then the best others."""
        mean, order = self.breeder.mean_slots(), ranking(fitness)
        others = sorted(
            (slot for slot in order if slot not in mean), key=lambda slot: slot >= self.config.learners
        )
        return sorted((mean + others)[: self.config.candidates])

    def _evolve(self, evaluated: Params, fitness: FloatArray, *, trained: bool) -> None:
        self._progress("evolve", 0, 1)
        self.actors = self.breeder.breed(
            Generation(self.generation, evaluated, fitness, self.actors, trained, self.stall.factor)
        )
        self._progress("evolve", 1, 1)

    # State

    def state_dict(self) -> dict[str, Any]:
        return {
            "actors": take(self.actors, slice(None)),
            "learners": None if self.learners is None else self.learners.state_dict(),
            "variation": self.breeder.variation.state_dict(),
            "champion": self.champion.state_dict(),
            "stall": [self.stall.best, self.stall.since, self.stall.factor],
            "generation": self.generation,
            "env_steps": self.env_steps,
            "genealogy": self.genealogy.state_dict(),
            "ledger": None if self.ledger is None else self.ledger.state_dict(),
        }

    def upgraded(self, state: dict[str, Any]) -> dict[str, Any]:
        return upgrade(state, critics=self.config.gradient_steps > 0)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        state = self.upgraded(state)
        self.actors = {name: value.clone() for name, value in state["actors"].items()}
        if self.learners is not None:
            self.learners.load_state_dict(state["learners"])
        self.breeder.variation.load_state_dict(state["variation"])
        self.champion.load_state_dict(state["champion"])
        self.stall = Stall(*state["stall"])
        self.generation, self.env_steps = int(state["generation"]), int(state["env_steps"])
        self.genealogy.load_state_dict(state["genealogy"])
        if self.ledger is not None:
            self.ledger.load_state_dict(state["ledger"])
