"""The world model: what the latent is, how it moves, what it earns and when the episode ends."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from eigen2.algorithms.pwm.config import ModelConfig
from eigen2.algorithms.pwm.dynamics import make_dynamics
from eigen2.algorithms.pwm.sequences import SequenceBatch
from eigen2.nets.choices import GROUP
from eigen2.nets.dense import Stream, linear, mlp
from eigen2.nets.simnorm import centred, simnorm
from eigen2.nets.two_hot import RewardCode, ScalarCode, TwoHotCode


@dataclass(frozen=True)
class ModelLoss:
    """Means over batch and horizon, before weighting; `total` is what is minimised."""

    total: Tensor
    latent: Tensor
    reward: Tensor
    termination: Tensor
    reconstruction: Tensor

    def stacked(self) -> Tensor:
        return torch.stack([self.total, self.latent, self.reward, self.termination, self.reconstruction])

    def metrics(self) -> dict[str, float]:
        return {
            "model_loss": self.total.item(),
            "latent_loss": self.latent.item(),
            "reward_loss": self.reward.item(),
            "termination_loss": self.termination.item(),
            "reconstruction_loss": self.reconstruction.item(),
        }


class WorldModel(nn.Module):
    """Observations come normalised, rewards scaled; L latent, A actions, O observation size."""

    def __init__(self, config: ModelConfig, observations: int, actions: int, stream: Stream) -> None:
        super().__init__()
        self.config = config
        activation = config.activation
        self.encoder = mlp(observations, config.encoder_units, config.latent, stream, activation)
        self.encoder_skip = linear(observations, config.latent, stream, "orthogonal")
        self.dynamics = make_dynamics(config, actions, stream)
        self.code: RewardCode = TwoHotCode(config.reward_bins) if config.reward == "two_hot" else ScalarCode()
        self.reward_head = mlp(
            config.latent + actions, config.units, self.code.size, stream, activation, last="zero"
        )
        self.termination_head = linear(config.latent, 1, stream, "zero")
        # Episodes rarely end: start at one in 150 steps, or the first imagined returns are worth one reward.
        torch.nn.init.constant_(self.termination_head.bias, -5.0)
        self.decoder = linear(config.latent, observations, stream)

    def encode(self, observation: Tensor) -> Tensor:
        """[..., O] -> latent [..., L]

        The straight path keeps what the normed layers drop at first, the size of the observation: without it a third
        of an ant's observation is lost for the first thousand updates.
        """
        return simnorm(self.encoder_skip(observation) + self.encoder(observation))

    def step(self, latent: Tensor, action: Tensor) -> Tensor:
        """[batch, L], [batch, A] -> next latent [batch, L]"""
        following: Tensor = self.dynamics(latent, action)
        return following

    def reward(self, latent: Tensor, action: Tensor) -> Tensor:
        """[..., L], [..., A] -> predicted scaled reward [...]"""
        return self.code.decode(self.reward_head(torch.cat([latent, action], -1)))

    def continues(self, latent: Tensor) -> Tensor:
        """Probability [...] that the episode continues after arriving at latent [..., L]."""
        logit: Tensor = self.termination_head(centred(latent)).squeeze(-1)
        return torch.sigmoid(-logit)

    def _read(self, latent: Tensor) -> tuple[Tensor, Tensor]:
        """Termination logit [...] and reconstructed observation [..., O] of latents [..., L], in one product.

        The centring of the latents is moved into the weights, W (G z - 1) + b = (G W) z + (b - W 1), which are much
        smaller than the latents.
        """
        weight = torch.cat([self.termination_head.weight, self.decoder.weight])
        bias = torch.cat([self.termination_head.bias, self.decoder.bias])
        outputs = F.linear(latent, GROUP * weight, bias - weight.sum(1))
        return outputs[..., 0], outputs[..., 1:]

    def loss(self, batch: SequenceBatch, gamma: float, tau: Tensor | None) -> ModelLoss:
        """Rolls the dynamics from the first observation and compares with what happened.

        Step t weighs gamma^t; observations and rewards of the batch are normalised; `tau` is what the dynamics draw.
        """
        config, action, observation = self.config, batch.action, batch.observation
        horizon, count = batch.reward.shape
        with torch.no_grad():
            target = self.encode(observation[1:])
        latent = [self.encode(observation[0])]
        for t in range(horizon):
            latent.append(self.step(latent[-1], action[t]))
        # Two stacks, not two slices of one: the backward pass of a slice fills and adds whole tensors of zeros.
        before, after = torch.stack(latent[:-1]), torch.stack(latent[1:])
        powers = gamma ** torch.arange(horizon, dtype=action.dtype, device=action.device)
        weight = powers.repeat_interleave(count) / (horizon * count)

        def mean(error: Tensor) -> Tensor:
            """[H, batch] or [H, batch, n] -> weighted mean"""
            return weight @ error.reshape(horizon * count, -1).sum(-1) * (horizon * count / error.numel())

        outputs = self.reward_head(torch.cat([before, action], -1))
        ends, decoded = self._read(after)
        latent_loss = mean(self.dynamics.error(before, action, after, target, tau))
        reward_loss = mean(self.code.loss(outputs, batch.reward))
        # Sequences show the end of an episode only as their last step, one H-th as often as it happens: without
        # the weight falls are underrated, and the policy learns to stand much later.
        rarity = torch.tensor(float(horizon), device=action.device)
        termination = mean(
            F.binary_cross_entropy_with_logits(ends, batch.terminated, reduction="none", pos_weight=rarity)
        )
        _, first = self._read(latent[0])
        reconstruction = F.mse_loss(first, observation[0]) / horizon + mean(
            F.mse_loss(decoded, observation[1:], reduction="none")
        )
        total = (
            config.latent_weight * latent_loss
            + config.reward_weight * reward_loss
            + config.termination_weight * termination
            + config.reconstruction_weight * reconstruction
        )
        return ModelLoss(total, latent_loss, reward_loss, termination, reconstruction)
