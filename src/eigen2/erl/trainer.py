"""ERL: one step is one generation.

    evaluate   all agents play the same freshly drawn episodes; their transitions go to the shared replay
    train      the learners improve by gradient from that replay, ever more seldom if `taper` says so
    validate   all agents play the same fixed episodes; the best ever is the champion
    evolve     elites stay, learners carry on with their trained actors, the rest is bred anew

Learners sit in the first slots. With CEM, independent agents learn in the first generations; then the best of them
founds a population whose members are near enough to each other to be averaged. An untrained copy of a good learner
survives as an elite, and a learner that falls behind takes over a better agent, so gradient and evolution compete and
feed each other.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor

from eigen2 import seeds
from eigen2.erl.champions import Champion, HallOfFame
from eigen2.erl.config import ERLConfig
from eigen2.erl.ddpg import Learners
from eigen2.erl.direct import DirectGradient
from eigen2.erl.evolution import Birth, FloatArray, Stall, ranking
from eigen2.erl.finite import require_finite, require_finite_weights
from eigen2.erl.genealogy import RESTED, Genealogy
from eigen2.erl.market import MarketTask
from eigen2.erl.sensitivity import sensitivity
from eigen2.erl.task import Episodes, Rollout, Task, agent_blocks
from eigen2.erl.variation import MIDDLE, Variation, elites
from eigen2.erl.workers import Play, Work, inline
from eigen2.evaluation.ledger import TrialLedger
from eigen2.nets.stacked import Params, agents_in, concatenate, put, take
from eigen2.replay import Replay

Progress = Callable[[str, int, int], None]
"""Called with (phase, done, total)."""


class ERLTrainer:
    def __init__(
        self, task: Task, config: ERLConfig, replay: Replay, seed: int, *,
        ledger: TrialLedger | None = None, play: Play | None = None, progress: Progress | None = None,
    ) -> None:  # fmt: skip
        self.task, self.config, self.replay, self.seed, self.ledger = task, config, replay, seed, ledger
        self._play = play or inline(task)
        self._progress = progress or (lambda phase, done, total: None)
        self.actors = task.init_actor(config.population, seeds.torch_generator(seed, "actors"))
        self.variation = Variation(config, self.actors, seed)
        self.learners: Learners | None = None
        if config.learners:
            first = take(self.actors, slice(0, config.learners))
            self.learners = Learners(task, config, first, seeds.torch_generator(seed, "critics"))
        self.direct = DirectGradient(task) if config.direct_steps and isinstance(task, MarketTask) else None
        self.champion = Champion()
        self.hall = HallOfFame(config.hall_of_fame)
        self.stall = Stall()
        self.generation = 0
        self.env_steps = 0
        self.genealogy = Genealogy(config.population, config.learners)
        self.lineage: list[dict[str, Any]] = []
        """Records of the last step, one per agent."""

    @property
    def done(self) -> bool:
        return self.generation >= self.config.generations

    @property
    def steps(self) -> int:
        return self.config.generations

    @property
    def best_score(self) -> float:
        return self.champion.score

    def best_weights(self) -> dict[str, Tensor]:
        return {name: value[0].contiguous() for name, value in self.champion.actor.items()}

    def use_replay(self, replay: Replay) -> None:
        """Go on with a restored replay."""
        self.replay = replay

    def take_records(self) -> dict[str, list[dict[str, Any]]]:
        return {"lineage": self.lineage}

    def step(self) -> dict[str, float]:
        generation = self.generation
        episodes = self.task.draw_episodes(
            self.config.windows, seeds.generator(self.seed, "episodes", generation)
        )
        evaluated = take(self.actors, slice(None))
        fitness = self._evaluate(evaluated, episodes)
        losses = self._train()
        validation = self._validate(fitness)
        self.stall = self.stall.update(
            self.hall.best, self.config.stall_generations, self.config.stall_factor
        )
        self.lineage = self.genealogy.records(generation + 1, fitness, validation)
        self._evolve(evaluated, fitness, trained=bool(losses))
        self.generation += 1
        return {
            "generation": float(self.generation),
            "fitness_best": float(fitness.max()),
            "fitness_mean": float(fitness.mean()),
            "validation_best": float(np.nanmax(validation)),
            "validation_mean": float(np.nanmean(validation)),
            "champion": self.champion.score,
            "mutation_boost": self.stall.factor,
            "env_steps": float(self.env_steps),
            "replay": float(len(self.replay)),
            **losses,
        }

    # Phases

    def _evaluate(self, actors: Params, episodes: Episodes) -> FloatArray:
        require_finite_weights(actors, self.generation)
        record = self.learners is not None or self.config.variation == "proximal"
        rollouts = self._rollouts("evaluate", actors, episodes, record=record)
        fitness = np.concatenate([rollout.returns.mean(axis=1) for rollout in rollouts])
        if self.learners is not None and self.config.explore_episodes:
            self._explore()
        require_finite("fitness", fitness, range(len(fitness)), self.generation)
        return fitness

    def _explore(self) -> None:
        """Learners play noisy episodes for replay alone."""
        rng = seeds.generator(self.seed, "exploration", self.generation)
        episodes = self.task.draw_episodes(self.config.explore_episodes, rng)
        actors = take(self.actors, slice(0, self.config.learners))
        self._rollouts("explore", actors, episodes, record=True, noise=self.config.exploration)

    def _rollouts(
        self, phase: str, actors: Params, episodes: Episodes, *, record: bool = False, noise: float = 0.0
    ) -> list[Rollout]:
        blocks = agent_blocks(agents_in(actors), self.config.block)
        work = [
            Work(
                take(actors, block),
                episodes,
                record,
                noise,
                (self.seed, f"noise.{phase}.{self.generation}", i),
            )
            for i, block in enumerate(blocks)
        ]
        rollouts = []
        for rollout in self._counted(phase, work):
            self.env_steps += rollout.steps
            for chunk in rollout.transitions:
                self.replay.extend(chunk.steps, chunk.after)
            rollouts.append(rollout)
        return rollouts

    def _counted(self, phase: str, work: list[Work]) -> list[Rollout]:
        results = []
        for done, result in enumerate(self._play(work), start=1):
            results.append(result)
            self._progress(phase, done, len(work))
        return results

    def _train(self) -> dict[str, float]:
        learners = self.learners
        if (
            learners is None
            or len(self.replay) < self.config.learning_starts
            or self._resting(self.generation)
        ):
            return {}
        rng = seeds.torch_generator(self.seed, "smoothing", self.generation)
        losses = learners.train(
            lambda: self.task.batch(self.replay),
            self.config.gradient_steps,
            rng,
            lambda done: self._progress("train", done, self.config.gradient_steps),
        )
        if self.direct is not None:
            rng = seeds.torch_generator(self.seed, "direct noise", self.generation)
            losses["direct_loss"] = learners.follow(self.direct, self.replay, rng)
        put(self.actors, range(self.config.learners), learners.actor)
        return losses

    def _resting(self, generation: int) -> bool:
        """Gradient finds the way fast and then overfits; evolution is slow and does not. So training tapers off."""
        if self.config.taper is None or self.config.variation == "none":
            return False
        return trainings(generation, self.config.taper) == trainings(generation + 1, self.config.taper)

    def _validate(self, fitness: FloatArray) -> FloatArray:
        """[agent] scores on the fixed episodes; NaN for agents that were not candidates."""
        chosen = self._candidates(fitness)
        actors = take(self.actors, chosen)
        rollouts = self._rollouts("validate", actors, self.task.validation_episodes())
        returns = np.concatenate([rollout.returns for rollout in rollouts])
        scores = returns.mean(axis=1)
        require_finite("validation", scores, chosen, self.generation)
        self._crown(actors, returns, chosen)
        self.hall.consider(actors, scores, self.generation, [self.genealogy.ids[slot] for slot in chosen])
        if self.ledger is not None and isinstance(self.task, MarketTask):
            daily = np.concatenate([rollout.daily for rollout in rollouts if rollout.daily is not None])
            self.ledger.record(self.generation, self.task.stitch(daily))
        validation = np.full(self.config.population, np.nan)
        validation[chosen] = scores
        return validation

    def _crown(self, actors: Params, returns: FloatArray, chosen: list[int]) -> None:
        """Validated `actors` with their `returns` [agent, window] and slots: which of them is the champion?"""
        middle = [row for row, slot in enumerate(chosen) if self.genealogy.births[slot].operator == MIDDLE]
        row = middle[0] if middle else ranking(returns.mean(axis=1))[0]
        title = self.champion.succeed if middle else self.champion.challenge
        title(take(actors, [row]), returns[row], self.generation, self.genealogy.ids[chosen[row]])

    def _candidates(self, fitness: FloatArray) -> list[int]:
        """Slots to validate: the middle, the learners, whose fitness is that before training, then the best others."""
        middle = [slot for slot, birth in enumerate(self.genealogy.births) if birth.operator == MIDDLE]
        learners = list(range(self.config.learners))
        others = [slot for slot in ranking(fitness) if slot not in middle and slot not in learners]
        return sorted((middle + learners + others)[: self.config.candidates])

    def _evolve(self, evaluated: Params, fitness: FloatArray, *, trained: bool) -> None:
        config = self.config
        self._progress("evolve", 0, 1)
        founding = (
            config.variation == "cem" and self.variation.cloud is None and config.learners < config.population
        )
        if config.variation == "none" or (founding and self.generation + 1 < config.founding):
            births = [
                Birth("gradient" if i < config.learners else "elite", (i,)) for i in range(config.population)
            ]
        elif founding:
            births = self._found(evaluated, ranking(fitness)[0])
        else:
            births = self._breed(evaluated, fitness, "gradient" if trained else RESTED)
        self.genealogy.descend(births, self.generation + 1)
        if len(births) != config.population or agents_in(self.actors) != config.population:
            raise AssertionError(f"the population changed from {config.population} to {len(births)} agents")

    def _found(self, evaluated: Params, founder: int) -> list[Birth]:
        """The best agent founds the population: it carries on if it learns, and all others are drawn around it."""
        count, learners = self.config.population, self.config.learners
        middle, drawn = self.variation.found(take(evaluated, [founder]), count, self.generation)
        births = [Birth("cem.sample", (founder,))] * count
        put(drawn, [learners], middle)
        births[learners] = Birth(MIDDLE, (founder,))
        if founder < learners:
            put(drawn, [founder], take(self.actors, [founder]))
            births[founder] = Birth("gradient", (founder,))
        if self.learners is not None:
            others = [slot for slot in range(learners) if slot != founder]
            self.learners.adopt(others, take(drawn, others))
        self.actors = drawn
        return births

    def _breed(self, evaluated: Params, fitness: FloatArray, carried: str) -> list[Birth]:
        """`carried`: operator of the learners that carry on."""
        config = self.config
        kept = min(config.elites, config.population - config.learners)
        count = config.population - config.learners - kept
        # A learner that rested survives as it is: a copy of it among the elites would be the same agent twice.
        rivals = np.where(np.arange(len(fitness)) < config.learners, -np.inf, fitness)
        best, births = elites(evaluated, rivals if carried == RESTED else fitness, kept)
        parts = [best]
        if count:
            effect = None
            if config.variation == "proximal":
                effect = sensitivity(self.task, evaluated, self.replay)
            children, born = self.variation.offspring(
                evaluated, self._as_parents(fitness), count, self.stall.factor, self.generation, effect
            )
            parts.append(children)
            births += born
        if self.learners is not None:
            parts.insert(0, take(self.actors, slice(0, config.learners)))
            births = self._relieve(evaluated, fitness, parts[0], carried) + births
        self.actors = concatenate(parts)
        return births

    def _as_parents(self, fitness: FloatArray) -> FloatArray:
        """A learner is a parent once for each training: what it fits too closely would else pull at every generation."""
        if not self._resting(self.generation - 1):
            return fitness
        rested = [birth.operator == RESTED for birth in self.genealogy.births]
        return np.where(rested, -np.inf, fitness)

    def _relieve(self, evaluated: Params, fitness: FloatArray, learners: Params, carried: str) -> list[Birth]:
        """Learners in the lower half of the population, about to train, start again from the best that are no learners.

        Each takes another one: learners share their batches, so two of the same weights would stay the same for ever.
        """
        order = ranking(fitness)
        count = self.config.learners
        behind = [slot for slot in range(count) if order.index(slot) >= len(order) // 2]
        better = [slot for slot in order if slot >= count][: len(behind)]
        behind = behind[: len(better)]
        births = [Birth(carried, (slot,)) for slot in range(count)]
        if behind and self.learners is not None and not self._resting(self.generation + 1):
            best = take(evaluated, better)
            put(learners, behind, best)
            self.learners.adopt(behind, best)
            for slot, parent in zip(behind, better, strict=True):
                births[slot] = Birth("relieved", (parent,))
        return births

    # Freezing and thawing

    def state_dict(self) -> dict[str, Any]:
        return {
            "actors": take(self.actors, slice(None)),
            "learners": None if self.learners is None else self.learners.state_dict(),
            "variation": self.variation.state_dict(),
            "champion": self.champion.state_dict(),
            "hall": self.hall.state_dict(),
            "stall": [self.stall.best, self.stall.since, self.stall.factor],
            "generation": self.generation,
            "env_steps": self.env_steps,
            "genealogy": self.genealogy.state_dict(),
            "ledger": None if self.ledger is None else self.ledger.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.actors = {name: value.clone() for name, value in state["actors"].items()}
        if self.learners is not None:
            self.learners.load_state_dict(state["learners"])
        self.variation.load_state_dict(state["variation"])
        self.champion.load_state_dict(state["champion"])
        self.hall.load_state_dict(state["hall"])
        self.stall = Stall(*state["stall"])
        self.generation, self.env_steps = int(state["generation"]), int(state["env_steps"])
        self.genealogy.load_state_dict(state["genealogy"])
        if self.ledger is not None:
            self.ledger.load_state_dict(state["ledger"])


def trainings(generation: int, taper: int) -> int:
    """How often learners train before `generation`: always up to `taper`, after that like the logarithm."""
    if generation <= taper:
        return generation
    return math.floor(taper * (1.0 + math.log(generation / taper)))
