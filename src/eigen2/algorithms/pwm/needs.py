"""What a PWM run will need, from its config and the size of its task alone, and a short run to measure it by.

Imports no torch. The counts of parameters follow `world_model`, `actor` and `critic`; what a pass keeps for its backward
pass follows `world_model.loss` and `imagination`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eigen2.algorithms.contract import Calibration, Needs, StepSeconds
from eigen2.algorithms.pwm.config import ModelConfig, PWMConfig
from eigen2.envs.control.config import TasksConfig
from eigen2.envs.control.sizes import ControlSizes, control_sizes
from eigen2.replay.schema import vector_schema
from eigen2.replay.size import stored_bytes

if TYPE_CHECKING:
    from eigen2.config import Config

FLOAT = 4
BLOCK_KEPT = 3
"""Tensors kept of a dense block: what goes into its norm, what comes out, and its activation."""
LATENT_KEPT = 8
"""Tensors of the latent's size kept per step: input, change, logits, softmax and their sums."""
ENVIRONMENT = 100_000
PACKED = 0.9
KNOBS = ("replay.capacity", "alg.model.batch", "alg.actor.batch", "alg.environments", "alg.horizon", "alg.critic.members",
         "alg.model.units", "alg.model.encoder_units", "alg.actor.units", "alg.critic.units", "alg.model.latent",
         "alg.random_steps", "alg.steps", "alg.evaluate_episodes", "alg.iterations")  # fmt: skip


@dataclass(frozen=True)
class Parameters:
    model: int
    actor: int
    critic: int

    @property
    def behaviour(self) -> int:
        """The critics' target counts with them."""
        return self.actor + 2 * self.critic

    @property
    def agent(self) -> int:
        return self.model + self.behaviour

    @property
    def trained(self) -> int:
        return self.model + self.actor + self.critic


def _mlp(inputs: int, units: Sequence[int], outputs: int) -> int:
    sizes = [inputs, *units]
    blocks = sum(a * b + 3 * b for a, b in zip(sizes[:-1], sizes[1:], strict=True))
    return blocks + sizes[-1] * outputs + outputs


def count(alg: PWMConfig, observations: int, actions: int) -> Parameters:
    """Numbers in each network."""
    model, latent = alg.model, alg.model.latent
    flow = 1 if model.dynamics == "flow" else 0
    bins = model.reward_bins if model.reward == "two_hot" else 1
    world = (
        _mlp(observations, model.encoder_units, latent)
        + observations * latent + latent
        + _mlp(latent + actions + flow, model.units, latent)
        + _mlp(latent + actions, model.units, bins)
        + latent + 1
        + latent * observations + observations
    )  # fmt: skip
    sizes = [latent, *alg.critic.units, 1]
    value = sum(a * b + b for a, b in zip(sizes[:-1], sizes[1:], strict=True))
    return Parameters(world, _mlp(latent, alg.actor.units, actions) + actions, alg.critic.members * value)


def pwm_needs(config: "Config") -> Needs | None:
    alg = config.alg
    assert isinstance(alg, PWMConfig)
    if isinstance(config.env, TasksConfig):
        return _tasks_needs(alg, config.env)
    sizes = control_sizes(config.env)
    found = count(alg, sizes.observation, sizes.action)
    # What is collected and sampled is whole, also where the replay keeps rows.
    whole = stored_bytes(vector_schema(sizes.observation, sizes.action))
    record = stored_bytes(vector_schema(sizes.observation, sizes.action, rows=sizes.observation_rows))
    environments = (alg.environments + alg.evaluate_episodes + 20) * (ENVIRONMENT + 8 * 4 * sizes.observation)
    per_step = alg.environments * alg.steps
    return Needs(
        held={**_networks(found), "environments": environments},
        peaks=_peaks(alg, sizes, whole),
        on_device=("networks", "optimisers"),
        steps=alg.pretrain_steps + alg.iterations,
        state=FLOAT * (2 * found.agent + 2 * found.trained),
        first_state=FLOAT * found.agent,
        best=FLOAT * found.agent,
        evaluations=-(-alg.iterations // alg.evaluate_every),
        best_agent=FLOAT * (found.model + found.actor),
        record=record,
        transitions=alg.iterations * per_step + alg.environments * alg.random_steps,
        packed=PACKED,
        log=800,
        knobs=KNOBS,
    )


def _networks(found: Parameters, tasks: int = 1) -> dict[str, int]:
    agents = found.agent + (tasks - 1) * found.behaviour
    trained = found.trained + (tasks - 1) * (found.actor + found.critic)
    best = found.agent if tasks == 1 else tasks * found.behaviour
    return {"networks": FLOAT * (agents + best), "optimisers": FLOAT * 3 * trained}


def _peaks(alg: PWMConfig, sizes: ControlSizes, record: int) -> dict[str, int]:
    model, latent = alg.model, alg.model.latent
    collected = max(alg.steps, alg.random_steps) * alg.environments * record
    sequences = alg.model.batch * alg.horizon
    step = _velocities(model) * (BLOCK_KEPT * sum(model.units) + LATENT_KEPT * latent)
    heads = BLOCK_KEPT * sum(model.units) + 4 * latent + 6 * sizes.observation + 3 * model.reward_bins
    encoding = 2 * max([latent, *model.encoder_units]) + 2 * latent
    extra = step // _velocities(model) if model.dynamics == "flow" else 0
    fitted = sequences * (FLOAT * (step + extra + heads + encoding) + 3 * record)
    imagined = alg.actor.batch * alg.horizon
    acting = BLOCK_KEPT * sum(alg.actor.units)
    values = alg.critic.members * BLOCK_KEPT * sum(alg.critic.units)
    critic = imagined * FLOAT * (values + 4 * latent)
    policy = imagined * FLOAT * (step + heads + acting + 3 * latent)
    return {"collect": 3 * collected, "model": fitted, "policy": max(policy, critic)}


def _velocities(model: ModelConfig) -> int:
    """How often the dynamics network is asked for one transition."""
    if model.dynamics != "flow":
        return 1
    return model.flow.substeps * (2 if model.flow.integrator == "heun" else 1)


def _tasks_needs(alg: PWMConfig, env: TasksConfig) -> Needs | None:
    """Of several tasks; how much stored experience they bring is known when it is read."""
    if not env.tasks:
        return None
    all_sizes = [control_sizes(task) for task in env.distinct]
    embedding, tasks = alg.multitask.embedding, len(all_sizes)
    widest = ControlSizes(
        max(sizes.observation for sizes in all_sizes) + embedding,
        max(sizes.action for sizes in all_sizes) + embedding,
        max(sizes.episode_steps for sizes in all_sizes),
    )
    found = count(alg, widest.observation, widest.action)
    record = stored_bytes(vector_schema(widest.observation, widest.action))
    networks = _networks(found, tasks)
    return Needs(
        held={**networks, "environments": tasks * (alg.evaluate_episodes + 20) * ENVIRONMENT},
        peaks=_peaks(alg, widest, record),
        on_device=("networks", "optimisers"),
        steps=alg.iterations + tasks * alg.multitask.policy_iterations,
        state=networks["networks"] + networks["optimisers"] * 2 // 3,
        first_state=networks["networks"] // 2,
        evaluations=tasks * -(-alg.multitask.policy_iterations // alg.evaluate_every),
        best_agent=FLOAT * (found.model + tasks * found.actor),
        packed=PACKED,
        log=800,
        knobs=KNOBS,
    )


def pwm_calibration(config: "Config") -> Calibration | None:
    """Two iterations with one update of each kind, the second of them evaluated."""
    alg = config.alg
    assert isinstance(alg, PWMConfig)
    if isinstance(config.env, TasksConfig) or alg.pretrain.replay is not None:
        return None
    short = alg.model_copy(
        update={
            "iterations": max(alg.iterations, 3),
            "evaluate_every": 2,
            "model": alg.model.model_copy(update={"updates": 1, "bootstrap_updates": 0}),
            "actor": alg.actor.model_copy(update={"updates": 1}),
        }
    )

    def seconds(steps: StepSeconds, total: int) -> float:
        first, second = steps
        updates = alg.model.bootstrap_updates + total * alg.model.updates
        evaluations = -(-total // alg.evaluate_every)
        return (
            first["collect"]
            + total * second["collect"]
            + updates * second["model"]
            + total * alg.actor.updates * second["policy"]
            + evaluations * second.get("evaluate", 0.0)
        )

    return Calibration(config.model_copy(update={"alg": short}), 2, seconds)
