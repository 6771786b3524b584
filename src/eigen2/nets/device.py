"""Where tensors live."""

import torch

from eigen2.errors import ConfigError


def pick_device(name: str) -> torch.device:
    """auto takes CUDA, then MPS, then the CPU; a device asked for by name must be there."""
    present = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        return torch.device(next(kind for kind, there in present.items() if there))
    if not present[name]:
        raise ConfigError(f"device={name} is not available on this machine; use device=auto or device=cpu.")
    return torch.device(name)
