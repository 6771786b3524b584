"""How much each weight moves the actions: what proximal mutation divides its noise by."""

import torch

from eigen2.algorithms.erl.task import ERLTask
from eigen2.nets.stacked import Params
from eigen2.replay import Replay

PROBES = 4


def sensitivity(task: ERLTask, actors: Params, replay: Replay) -> Params:
    """Root mean square gradient, by each weight, of the mean action over sampled states; shaped like `actors`.

    Each probe takes the gradient of a sum of actions with random signs, so that effects do not cancel. The signs and
    the states come from the replay's own stream.
    """
    state = task.batch(replay).state
    params = {name: value.detach().to(task.device).requires_grad_(True) for name, value in actors.items()}
    squares = {name: torch.zeros_like(value) for name, value in params.items()}
    for probe in range(PROBES):
        action = task.squash(task.policy(params, state))
        signs = torch.where(torch.arange(action[0].numel()) // (probe + 1) % 2 == 0, 1.0, -1.0)
        total = (action * signs.view(action.shape[1:]).to(action.device)).flatten(1).mean(1).sum()
        for (name, value), gradient in zip(
            squares.items(), torch.autograd.grad(total, list(params.values())), strict=True
        ):
            squares[name] = value + gradient.square() / PROBES
    return {name: value.sqrt().cpu() for name, value in squares.items()}
