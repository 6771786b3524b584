import pytest
import torch

from eigen2.nets.two_hot import ScalarCode, TwoHotCode, symexp, symlog

CODES = [ScalarCode(), TwoHotCode(), TwoHotCode(bins=21, low=-4.0, high=4.0)]
REWARDS = torch.tensor([-40.0, -3.0, -0.5, 0.0, 0.01, 1.04, 7.0, 50.0])


def test_symexp_undoes_symlog() -> None:
    torch.testing.assert_close(symexp(symlog(REWARDS)), REWARDS)


@pytest.mark.parametrize("code", CODES)
def test_a_reward_survives_encoding_and_decoding(code: ScalarCode | TwoHotCode) -> None:
    torch.testing.assert_close(code.decode(code.encode(REWARDS)), REWARDS, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("code", CODES)
def test_minimising_the_loss_makes_the_decoder_return_the_reward(code: ScalarCode | TwoHotCode) -> None:
    """The defect this guards against: logits trained by squared error and read through a softmax decode to zero."""
    outputs = torch.zeros(len(REWARDS), code.size, dtype=torch.float64, requires_grad=True)
    rewards = REWARDS.double()
    optimiser = torch.optim.LBFGS([outputs], lr=0.5, max_iter=400, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimiser.zero_grad()
        loss: torch.Tensor = code.loss(outputs, rewards).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    optimiser.step(closure)  # type: ignore[no-untyped-call]
    torch.testing.assert_close(code.decode(outputs.detach()), rewards, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("code", CODES)
def test_the_encoded_reward_has_the_least_loss(code: ScalarCode | TwoHotCode) -> None:
    reward = torch.tensor([1.3])
    best = code.loss(code.encode(reward), reward)
    for other in (-2.0, 0.0, 1.0, 1.6, 9.0):
        assert code.loss(code.encode(torch.tensor([other])), reward) > best


def test_rewards_beyond_the_bins_take_the_last_bin() -> None:
    code = TwoHotCode(bins=11, low=-2.0, high=2.0)
    target = code.target(torch.tensor([1e6, -1e6]))
    assert target[0, -1] == 1.0
    assert target[1, 0] == 1.0
    torch.testing.assert_close(target.sum(-1), torch.ones(2))
