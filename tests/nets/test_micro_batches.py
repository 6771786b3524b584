"""A batch that does not fit is worked on in parts: the same gradient, and a record of it."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from eigen2.errors import ResourceError
from eigen2.nets.micro_batches import Gradients, MicroBatches


def device_with_room_for(
    rows: int, weight: Tensor, data: Tensor
) -> Callable[[slice], tuple[Tensor, Gradients]]:
    def compute(part: slice) -> tuple[Tensor, Gradients]:
        if part.stop - part.start > rows:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nMore words.")
        loss = (data[part] @ weight).tanh().square().mean()
        return loss, torch.autograd.grad(loss, [weight])

    return compute


@pytest.fixture
def problem() -> tuple[Tensor, Tensor]:
    rng = torch.Generator().manual_seed(1)
    return torch.randn(5, generator=rng).requires_grad_(), torch.randn(37, 5, generator=rng)


def test_a_batch_that_fits_is_left_alone(problem: tuple[Tensor, Tensor]) -> None:
    parts = MicroBatches()
    compute = device_with_room_for(37, *problem)
    loss, gradients = parts.gradients("update", 37, compute)
    whole, (gradient,) = compute(slice(0, 37))
    assert torch.equal(loss, whole)
    assert torch.equal(gradients[0], gradient)
    assert (parts.parts, parts.take_news()) == (1, [])


def test_halves_of_halves_give_the_same_gradient_and_are_told(problem: tuple[Tensor, Tensor]) -> None:
    parts = MicroBatches()
    loss, gradients = parts.gradients("critic update", 37, device_with_room_for(10, *problem))
    whole, (gradient,) = device_with_room_for(37, *problem)(slice(0, 37))
    torch.testing.assert_close(loss, whole.detach())
    torch.testing.assert_close(gradients[0], gradient)
    news = parts.take_news()
    assert [(one["kind"], one["parts"]) for one in news] == [("out_of_memory", 2), ("out_of_memory", 4)]
    assert news[0]["message"] == (
        "The critic update does not fit onto the device with 37 rows at a time (CUDA out of memory. Tried to allocate 2.00 "
        "GiB.): from now on in 2 parts, here of 19 rows. The sum over parts is rounded differently in the last bits."
    )
    assert parts.take_news() == []
    parts.gradients("critic update", 37, device_with_room_for(10, *problem))
    assert parts.take_news() == []


def test_one_row_that_does_not_fit_is_refused(problem: tuple[Tensor, Tensor]) -> None:
    with pytest.raises(ResourceError, match="even one row at a time"):
        MicroBatches().gradients("actor update", 37, device_with_room_for(0, *problem))


def test_other_errors_are_not_for_retrying(problem: tuple[Tensor, Tensor]) -> None:
    def compute(part: slice) -> tuple[Tensor, Gradients]:
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes"):
        MicroBatches().gradients("update", 3, compute)
