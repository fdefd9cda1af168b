"""A decoder that takes its steps by the compiled kernel of decoder_kernel.py, where nothing is learned on a CPU.

Weights are copied into the kernel's order at the first use, and again when they may have changed (canon/nn/packed.py).
Rows are shared out among threads (canon/nn/threads.py), four to each at least.
Shapes: as in decoder_kernel.py; B rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from canon.nn.attention.block import ACTIVATIONS, Decoder, DecoderBlock
from canon.nn.packed import is_plain, state_of
from canon.nn.states import State
from canon.nn.threads import is_compiled, share

if TYPE_CHECKING:
    from canon.nn.attention.decoder_kernel import Sizes

_LINE = 16  # floats of a cache line
_ORDER = list(ACTIVATIONS.values())  # as decoder_kernel.Sizes numbers them


class CompiledDecoder:
    """`ready` says whether the kernel can do it, and then `step` does."""

    def __init__(self) -> None:
        self._state: tuple[Any, ...] = ()  # of the weights when they were copied
        self._weights = np.empty(0, np.float32)

    def ready(self, decoder: Decoder, output: Tensor) -> bool:
        """Copies the weights if need be; `output` are those of logits, [V, D]."""
        blocks: list[DecoderBlock] = list(decoder.blocks)  # type: ignore[arg-type]
        layers = list(_in_order(decoder, blocks, output))
        tensors = [tensor for layer in layers for tensor in layer if tensor is not None]
        if not (is_compiled(output) and all(is_plain(tensor) for tensor in tensors)):
            return False
        from canon.nn.attention import decoder_kernel as kernel

        block, attention = blocks[0], blocks[0].attention
        state = tuple(state_of(tensor) for tensor in tensors)
        if state != self._state:
            pieces = [piece for layer in layers for piece in _laid_out(*layer)]
            self._weights = _aligned(sum(len(piece) for piece in pieces))
            np.concatenate(pieces, out=self._weights)
            self._state = state
        self._windows = np.array([block.attention.window for block in blocks])
        self._sizes: Sizes = kernel.Sizes(
            dim=attention.dim,
            heads=attention.num_heads,
            hidden=block.feed_forward.inner.out_features,
            layers=len(blocks),
            outputs=kernel.padded(len(output)),
            is_pre=block.is_pre,
            activation=_ORDER.index(block.feed_forward.activation),
            eps=block.attention_norm.eps,
        )
        self._tokens = len(output)
        return True

    def init_state(self, decoder: Decoder, memory_BSD: Tensor, seen_BS: Tensor, capacity: int) -> State:
        """Keys and values of the memory, of whose places each row sees the first ones, and room for more tokens.

        | entry | shape | meaning |
        | --- | --- | --- |
        | memory | [B, L, S, 2D] | keys and values of the source |
        | memory_length | [B] | its tokens |
        | cache | [B, L, C, 2D] | keys and values of the target so far |
        | position | [] | tokens so far |
        """
        blocks: list[DecoderBlock] = list(decoder.blocks)  # type: ignore[arg-type]
        kept = torch.stack([block.cross.key_value(memory_BSD) for block in blocks], 1)
        batch, layers, _, width = kept.shape
        cache, length_B = kept.new_empty(batch, layers, capacity, width), seen_BS.sum(1)
        return {"memory": kept, "memory_length": length_B, "cache": cache, "position": torch.tensor(0)}

    def step(self, x_BD: Tensor, state: State) -> Tensor:
        """Logits [B, V] behind tokens that are embedded; the cache is written to."""
        from canon.nn.attention import decoder_kernel as kernel

        cache, memory = state["cache"], state["memory"]
        size, capacity, sources = len(x_BD), cache.shape[2], memory.shape[2]
        rows = size if size == 1 else -(-size // kernel.TILE) * kernel.TILE
        stride = kernel.stride_of(self._sizes, max(capacity, sources))
        work = _aligned(rows * stride)
        work.fill(0)
        logits_RV = np.empty((rows, self._sizes.outputs), np.float32)
        given = (
            _flat(x_BD),
            size,
            self._sizes,
            self._weights,
            self._windows,
            work,
            stride,
            _flat(cache),
            capacity,
            int(state["position"]),
            _flat(memory),
            sources,
            state["memory_length"].numpy(),
            logits_RV.reshape(-1),
        )
        share(lambda first, count: kernel.step(first, count, *given), rows, kernel.TILE)
        if not cache.is_inference():
            torch.autograd.graph.increment_version(cache)
        return torch.from_numpy(logits_RV)[:size, : self._tokens]


def _aligned(size: int) -> np.ndarray:
    """Numbers that begin with a cache line, so that none of the kernel's vectors lies in two."""
    numbers = np.empty(size + _LINE, np.float32)
    skipped = -numbers.ctypes.data // numbers.itemsize % _LINE
    return numbers[skipped : skipped + size]


def _flat(x: Tensor) -> np.ndarray:
    return x.view(-1).numpy()


def _in_order(decoder: Decoder, blocks: list[DecoderBlock], output: Tensor) -> Iterator[tuple[Tensor, Tensor | None]]:
    """Weights and biases in the order in which a step comes to them."""
    for block in blocks:
        layers: list[nn.Linear | nn.LayerNorm] = [
            *(block.attention.qkv, block.attention.output, block.cross.query, block.cross.output),
            *(block.feed_forward.inner, block.feed_forward.outer),
        ]
        norms = (block.attention_norm, block.cross_norm, block.feed_forward_norm)
        for place, norm in zip((0, 3, 6) if block.is_pre else (2, 5, 8), norms, strict=True):
            layers.insert(place, norm)
        yield from ((layer.weight, layer.bias) for layer in layers)
    if isinstance(decoder.norm, nn.LayerNorm):
        yield decoder.norm.weight, decoder.norm.bias
    yield output, None


def _laid_out(weight: Tensor, bias: Tensor | None) -> list[np.ndarray]:
    """A norm's numbers as they are; a product's in panels of outputs, input by input, then its bias. All are copies:
    torch cannot give back the memory of a weight (FSDP does) that numpy has once looked at."""
    from canon.nn.attention.decoder_kernel import PANEL, padded

    if weight.dim() == 1:
        assert bias is not None, "norms have biases"
        return [weight.clone().numpy(), bias.clone().numpy()]
    outputs, inputs = weight.shape
    wide = F.pad(weight, (0, 0, 0, padded(outputs) - outputs)).view(-1, PANEL, inputs).transpose(1, 2)
    added = weight.new_zeros(padded(outputs))
    if bias is not None:
        added[:outputs] = bias
    return [wide.reshape(-1).numpy(), added.numpy()]
