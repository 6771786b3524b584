"""The settings of PWM; an `alg` preset fills one of these."""

import math
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from eigen2.algorithms.contract import AlgorithmConfig
from eigen2.nets.choices import GROUP, Activation
from eigen2.section import CONSTANT, Section, was


class FlowConfig(Section):
    gone = {"time": ("uniform",)}

    integrator: Literal["euler", "heun"] = "euler"
    """ODE integrator; heun is second order and evaluates the velocity twice per substep."""
    substeps: int = Field(2, ge=1)
    """Integration steps per transition."""


class ModelConfig(Section):
    retired = {"sequences": ("whole",)}

    latent: int = Field(512, ge=GROUP, multiple_of=GROUP)
    """Size of the latent, in groups of 8 that each sum to one."""
    encoder_units: tuple[int, ...] = (256,)
    """Hidden layers from observation to latent."""
    units: tuple[int, ...] = (512, 512)
    """Hidden layers of dynamics and reward."""
    activation: Activation = Field("silu", json_schema_extra=CONSTANT)
    """mish is the original's; silu learns as well and costs half on a CPU."""
    dynamics: Literal["mlp", "flow"] = "mlp"
    """mlp predicts the change of the latent's logits; flow integrates a learned velocity from one latent to the next."""
    flow: FlowConfig = FlowConfig()
    """Read only when dynamics is flow."""
    reward: Literal["scalar", "two_hot"] = "scalar"
    """scalar: squared error; two_hot: cross-entropy over symlog bins."""
    reward_bins: int = Field(101, ge=2, json_schema_extra=CONSTANT)
    """Bins of two_hot."""
    learning_rate: float = Field(3e-4, gt=0)
    """Initial learning rate."""
    clip: float = Field(20.0, gt=0, json_schema_extra=CONSTANT)
    """Largest gradient norm."""
    updates: int = Field(8, ge=1)
    """Gradient steps per iteration."""
    bootstrap_updates: int = Field(100, ge=0)
    """Gradient steps on the first data, before the policy is trained at all."""
    batch: int = Field(256, ge=1)
    """Sequences per gradient step."""
    latent_weight: float = Field(20.0, ge=0, json_schema_extra=CONSTANT)
    """Weight of the latent prediction error; flow adds the velocity error to it."""
    reward_weight: float = Field(1.0, ge=0, json_schema_extra=CONSTANT)
    """Weight of the reward's error in the model's loss."""
    termination_weight: float = Field(1.0, ge=0, json_schema_extra=CONSTANT)
    """Weight of the termination's error in the model's loss."""
    reconstruction_weight: float = Field(1.0, ge=0, json_schema_extra=CONSTANT)
    """Weight of the linear reconstruction of observations, which keeps the latent from forgetting what it may need."""


class ActorConfig(Section):
    gone = {"policy": ("gaussian",)}

    units: tuple[int, ...] = (400, 200, 100)
    """Widths of the hidden layers."""
    learning_rate: float = Field(5e-4, gt=0)
    """Initial learning rate."""
    beta1: float = Field(0.7, ge=0, lt=1, json_schema_extra=CONSTANT)
    """Adam's decay of the mean gradient."""
    beta2: float = Field(0.95, ge=0, lt=1, json_schema_extra=CONSTANT)
    """Adam's decay of the squared gradient."""
    clip: float = Field(1.0, gt=0, json_schema_extra=CONSTANT)
    """Largest norm of the gradient."""
    updates: int = Field(1, ge=1)
    """Imagined rollouts, and actor steps, per iteration."""
    batch: int = Field(128, ge=1)
    """Imagined rollouts start from this many replay states."""
    log_std: float = Field(-0.7, json_schema_extra=CONSTANT)
    """Log deviation at the start."""
    log_std_min: float = Field(-1.427, json_schema_extra=CONSTANT)
    """Floor of the log deviation; exploration never stops."""


class CriticConfig(Section):
    members: int = Field(3, ge=1, json_schema_extra=CONSTANT)
    """Value networks; their minimum is used."""
    units: tuple[int, ...] = (400, 200)
    """Widths of the hidden layers."""
    learning_rate: float = Field(5e-4, gt=0)
    """Initial learning rate."""
    clip: float = Field(100.0, gt=0, json_schema_extra=CONSTANT)
    """Largest norm of the gradient."""
    epochs: int = Field(8, ge=1)
    """Passes over each imagined rollout."""
    minibatches: int = Field(4, ge=1)
    """Gradient steps per pass."""
    trace: float = Field(0.95, ge=0, le=1, json_schema_extra=CONSTANT)
    """lambda of TD(lambda)."""
    target_rate: float = Field(0.05, gt=0, le=1, json_schema_extra=CONSTANT)
    """How fast the target values follow after each rollout; 1 means no separate target."""


class PretrainConfig(Section):
    replay: Path | None = None
    """Fit the world model to this replay before the first iteration: a run, or RUN/checkpoints/final.json."""
    updates: int = Field(10_000, ge=1)
    """Gradient steps of pretraining."""


class MultiTaskConfig(Section):
    """Read only with env=tasks, where `iterations` are those of the world model."""

    embedding: int = Field(16, ge=1)
    """Size of the learned vector that tells the world model which task it is in."""
    policy_iterations: int = Field(1000, ge=1)
    """Iterations of policy learning for each task, inside the finished world model."""


class PWMConfig(AlgorithmConfig):
    retired = {
        "collect": ("closed_loop",),
        "recent_window": (0,),
        "newest": (0,),
        "actor_ema": (0.0,),
        "average": (0.0,),
        "rollback": (False,),
        "go_back": (False,),
    }

    kind: Literal["pwm"] = "pwm"
    iterations: int = Field(15_000, ge=1)
    """Rounds of collecting, model training and policy training."""
    environments: int = Field(128, ge=1)
    """Copies of the environment that collect data in parallel."""
    steps: int = Field(16, ge=1)
    """Steps each environment takes per iteration."""
    random_steps: int = Field(64, ge=1)
    """Uniformly random steps per environment before the first iteration."""
    horizon: int = Field(16, ge=1)
    """Length of training sequences and of imagined rollouts, in steps."""
    gamma: float = Field(0.99, gt=0, lt=1)
    """Discount factor per environment step."""
    final_lr_scale: float = Field(0.02, gt=0, le=1, json_schema_extra=CONSTANT | was("final_rate"))
    """Learning rates fall linearly to this fraction of their start at the last iteration."""
    evaluate_every: int = Field(100, ge=1)
    """Iterations between closed-loop evaluations; the last iteration always has one."""
    evaluate_episodes: int = Field(20, ge=1)
    """Episodes of each evaluation."""
    model: ModelConfig = ModelConfig()
    actor: ActorConfig = ActorConfig()
    critic: CriticConfig = CriticConfig()
    pretrain: PretrainConfig = PretrainConfig()
    multitask: MultiTaskConfig = MultiTaskConfig()

    @property
    def pretrain_updates(self) -> int:
        return 0 if self.pretrain.replay is None else self.pretrain.updates

    @property
    def pretrain_steps(self) -> int:
        """Steps before the first iteration, each `model.updates` gradient steps."""
        return math.ceil(self.pretrain_updates / self.model.updates)

    @model_validator(mode="after")
    def _first_data_hold_a_sequence(self) -> Self:
        if self.random_steps < self.horizon:
            raise ValueError(f"random_steps {self.random_steps} must be at least the horizon {self.horizon}")
        return self
