"""The settings of ERL."""

import math
from typing import Literal, Self

from pydantic import Field, model_validator

from eigen2.algorithms.contract import AlgorithmConfig
from eigen2.section import ANY_VALUE, CONSTANT, OPERATES


class ERLConfig(AlgorithmConfig):
    """A population that learns by gradient and by evolution."""

    gone = {"hall_of_fame": ANY_VALUE, "encoder": ("causal",), "mutation_rate": ANY_VALUE}
    retired = {
        "training_decay_after": (None,),
        "taper": (None,),
        "warmup_generations": (1,),
        "founding": (1,),
        "direct_noise": (0.0,),
    }

    kind: Literal["erl"] = "erl"
    population: int = Field(16, ge=2)
    """Number of agents."""
    generations: int = Field(25, ge=1, json_schema_extra=OPERATES)
    """Generations; each evaluates, trains, validates and evolves the population."""

    windows: int = Field(8, ge=1)
    """Episodes per agent and generation; all agents get the same start days (or seeds), redrawn each generation."""
    validation_windows: int = Field(8, ge=1)
    """Episodes on which the champion is chosen; the same for the whole run."""
    candidates: int | None = Field(None, ge=1)
    """Agents validated in each generation: the mean of CEM's search distribution first, then the fittest learners, then
    the fittest of the others; null is all."""

    learners: int = Field(3, ge=0)
    """Agents trained by gradient in each generation; 0 is evolution alone."""
    gradient_steps: int = Field(0, ge=0)
    """Updates of critics and actor per learner and generation; with 0 there are no critics."""
    batch: int = Field(128, ge=1)
    """Transitions per update; a step of the direct gradient takes an eighth as many sequences of days."""
    learning_starts: int = Field(2_000, ge=0)
    """Transitions in replay before gradient training begins."""
    actor_lr: float = Field(3e-4, gt=0)
    """Learning rate of the actors (only with gradient_steps; that of the direct gradient is fixed)."""
    critic_lr: float = Field(2e-3, gt=0)
    """Learning rate of the critics (only with gradient_steps)."""
    gamma: float = Field(0.95, ge=0, lt=1)
    """Discount factor per day, or per environment step (only with gradient_steps)."""
    exploration: float = Field(0.1, ge=0)
    """Standard deviation of the exploration noise, in units of half the action range (control tasks only)."""
    direct_steps: int = Field(20, ge=0)
    """Steps per learner and generation of the direct gradient, through the portfolio's returns; it maximises log growth, also
    with another env.reward (markets only)."""

    variation: Literal["cem", "layer", "tournament", "none"] = "cem"
    """How new agents are made. cem: sampled around the mean of the better half; layer: blends of parents, and mutants
    of elites; tournament: for populations in which all agents learn, children of tournament winners replace all but
    the elites; none: gradient alone."""
    elites: int = Field(2, ge=1)
    """Best agents that survive: unchanged, or with tournament as learners that carry on."""
    crossover: float = Field(0.5, ge=0, le=1)
    """Share of the bred agents that blend two parents; the rest are mutants of elites (not for cem)."""
    mutation_std: float = Field(0.05, gt=0)
    """Size of a mutation, in units of each layer's weights (not for cem)."""
    cem_std: float = Field(0.3, gt=0)
    """Initial standard deviation of CEM's search distribution, in units of each layer's weights."""
    stall_generations: int = Field(3, ge=1, json_schema_extra=CONSTANT)
    """Generations without a better validation before mutation grows."""
    stall_factor: float = Field(1.5, ge=1, json_schema_extra=CONSTANT)
    """Growth of mutation while validation stalls, up to four times; undone by an improvement."""

    hidden: int = Field(32, ge=4)
    """Units of every hidden layer."""
    encoder_layers: int = Field(0, ge=0)
    """Dilated convolutions over past days; the receptive field doubles with each and must fit into `env.window`."""
    block: int = Field(16, ge=1)
    """Agents evaluated together; fewer need less memory."""

    # Constants of the algorithm, some of which differ between markets and control tasks.

    n_step: int = Field(5, ge=1, json_schema_extra=CONSTANT)
    """Days of real reward before the critic takes over."""
    run_length: int = Field(16, ge=1, json_schema_extra=CONSTANT)
    """Consecutive days per drawn sequence on markets, so that their windows are shared."""
    tau: float = Field(0.01, gt=0, le=1, json_schema_extra=CONSTANT)
    """Step of the target networks towards the trained ones."""
    policy_delay: int = Field(2, ge=1, json_schema_extra=CONSTANT)
    """Critic updates per actor update."""
    target_noise: float = Field(0.1, ge=0, json_schema_extra=CONSTANT)
    """Smoothing noise on target actions, clipped at 2.5 deviations."""
    action_penalty: float = Field(0.02, ge=0, json_schema_extra=CONSTANT)
    """Weight of the squared pre-activation of actions in the actor's loss: keeps them off the flat ends."""
    clip: float = Field(1.0, gt=0, json_schema_extra=CONSTANT)
    """Largest gradient norm of one agent's network."""
    explore_episodes: int = Field(0, ge=0, json_schema_extra=CONSTANT)
    """Noisy episodes of each learner per generation, for replay alone."""
    direct_lr: float = Field(1e-3, gt=0, json_schema_extra=CONSTANT)
    """Learning rate along the direct gradient."""
    direct_runs: int | None = Field(None, ge=1, json_schema_extra=CONSTANT)
    """Runs of consecutive days per direct step; null is an eighth of `batch`."""
    direct_days: int | None = Field(None, ge=1, json_schema_extra=CONSTANT)
    """Length of such a run; null is a quarter of an episode's trading days, at most 32."""
    tournament: int = Field(3, ge=1, json_schema_extra=CONSTANT)
    """Agents drawn per parent choice."""
    cem_floor: float = Field(0.1, ge=0, json_schema_extra=CONSTANT)
    """Deviation added to CEM's search distribution in each generation, so that it does not collapse, in units of each layer's
    weights."""
    cem_decay: float = Field(0.9, gt=0, le=1, json_schema_extra=CONSTANT)
    """Factor on the square of `cem_floor` per generation."""

    @property
    def runs(self) -> int:
        """Runs of consecutive days per direct step."""
        return self.direct_runs or max(1, self.batch // 8)

    def run_days(self, trading_days: int) -> int:
        """Days of such a run in episodes of so many trading days."""
        return self.direct_days or min(32, math.ceil(trading_days / 4))

    @property
    def survivors(self) -> int:
        """Elites kept: learners carry on anyway, so they take slots first."""
        return min(self.elites, self.population - self.learners)

    @property
    def bred(self) -> int:
        """New agents per generation."""
        return self.population - self.learners - self.survivors

    @model_validator(mode="after")
    def _sizes_fit(self) -> Self:
        if self.elites >= self.population:
            raise ValueError(f"elites {self.elites} must be fewer than population {self.population}")
        if self.learners > self.population:
            raise ValueError(f"learners {self.learners} cannot exceed population {self.population}")
        if self.variation == "tournament" and self.learners < self.population:
            raise ValueError(f"variation tournament trains all agents: learners must be {self.population}")
        return self
