"""A system's network, or its learner, from its settings: the one place where weights are first allocated."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from canon.contracts import Context
from canon.errors import CanonError, is_out_of_memory
from canon.registry.record import System

if TYPE_CHECKING:
    from torch import nn

_HINT = "choose smaller sizes (system.…)"


def build(system: System, config: Any, context: Context | None = None) -> Any:
    """A network, or else a learner or agent, with the context of its run if it has one. Refused before anything is
    allocated where the weights are more than the machine holds."""
    _, cls = system.load()
    if system.loop != "gradient":
        return cls(config, context or Context())
    import torch

    from canon.nn.limits import require_memory

    device = torch.get_default_device()
    if device.type != "meta":
        require_memory(_size(cls, config, system.name), f"{system.name} of these sizes", _HINT, device)
    return cls(config)


def _size(cls: type[nn.Module], config: Any, name: str) -> int:
    """Bytes of all weights, by shapes alone."""
    import torch

    from canon.nn.without_dynamo import shapes_alone

    try:
        with torch.random.fork_rng(devices=[]), shapes_alone():
            network = cls(config)
    except (RuntimeError, OverflowError) as error:
        if is_out_of_memory(error):
            raise CanonError(f"{name} of these sizes has more weights than can be counted; {_HINT}.") from None
        raise
    return sum(tensor.nbytes for tensor in chain(network.parameters(), network.buffers()))
