"""Products the world model and the critics join for speed give what the separate ones give."""

import torch
from torch.nn import functional as F

from eigen2.algorithms.pwm.config import ModelConfig
from eigen2.algorithms.pwm.critic import ValueEnsemble
from eigen2.algorithms.pwm.world_model import WorldModel
from eigen2.nets.simnorm import centred, simnorm


def test_termination_and_reconstruction_read_together_are_the_two_heads_on_centred_latents(stream):
    model = WorldModel(ModelConfig(latent=16, units=(16,), encoder_units=(16,)), 5, 2, stream).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, generator=stream)
    latent = simnorm(torch.randn(3, 4, 16, generator=stream, dtype=torch.float64)).requires_grad_()
    ends, decoded = model._read(latent)
    separate = model.termination_head(centred(latent)).squeeze(-1), model.decoder(centred(latent))
    torch.testing.assert_close((ends, decoded), separate)
    torch.testing.assert_close(torch.sigmoid(-ends), model.continues(latent))

    heads = [latent, *model.termination_head.parameters(), *model.decoder.parameters()]
    together, apart = (
        torch.autograd.grad(a.square().sum() + b.square().sum(), heads)
        for a, b in ((ends, decoded), separate)
    )
    torch.testing.assert_close(together, apart)


def test_every_critic_is_its_own_network_with_plain_norms(stream):
    critic = ValueEnsemble(16, (8, 8), 3, 0.9, "silu", stream).double()
    for parameter in critic.parameters():
        torch.nn.init.normal_(parameter, generator=stream)
    latent = simnorm(torch.randn(6, 16, generator=stream, dtype=torch.float64))
    for member, values in enumerate(critic.unscaled(latent)):
        x = latent
        for weight, bias in zip(critic.weights[:-1], critic.biases[:-1], strict=True):
            x = F.layer_norm(F.silu(x @ weight[member] + bias[member]), (8,))
        torch.testing.assert_close(values, (x @ critic.weights[-1][member] + critic.biases[-1][member])[:, 0])
