import pytest
import torch

from eigen2.nets.simnorm import centred, groups, logits_of, pushed, simnorm


@pytest.fixture
def stream() -> torch.Generator:
    return torch.Generator().manual_seed(3)


def test_every_group_sums_to_one_and_is_not_negative(stream: torch.Generator) -> None:
    latent = simnorm(10 * torch.randn(5, 7, 64, generator=stream))
    assert latent.shape == (5, 7, 64)
    assert (latent >= 0).all()
    torch.testing.assert_close(groups(latent).sum(-2), torch.ones(5, 7, 8))


def test_logits_of_a_latent_give_the_latent_back(stream: torch.Generator) -> None:
    latent = simnorm(torch.randn(9, 32, generator=stream))
    torch.testing.assert_close(simnorm(logits_of(latent)), latent, atol=1e-4, rtol=0)


def test_a_push_of_the_logits_moves_the_latent_by_the_derivative_of_simnorm(stream: torch.Generator) -> None:
    logits, change = (torch.randn(9, 32, generator=stream, dtype=torch.float64) for _ in range(2))
    moved = (simnorm(logits + 1e-6 * change) - simnorm(logits - 1e-6 * change)) / 2e-6
    torch.testing.assert_close(pushed(simnorm(logits), change), moved)


def test_a_change_of_one_group_leaves_the_others_alone(stream: torch.Generator) -> None:
    logits = torch.randn(1, 32, generator=stream)
    moved = logits.clone()
    groups(moved)[:, :, 2] += torch.randn(8, generator=stream)
    changed = (simnorm(moved) != simnorm(logits)).view(-1, 8, 4).any(1)
    assert changed.tolist() == [[False, False, True, False]]


def test_centred_latents_have_mean_zero_in_every_group(stream: torch.Generator) -> None:
    latent = simnorm(torch.randn(9, 32, generator=stream))
    torch.testing.assert_close(groups(centred(latent)).mean(-2), torch.zeros(9, 4), atol=1e-6, rtol=0)
