"""A Transformer's encoder and decoder by compiled kernels, on a CPU where nothing is learned.

The kernels are canon/kernels/cpu/transformer.py. Weights are copied into their order, once where they are
frozen (canon/nn/frozen.py) and for no longer; elsewhere the modules do it. Threads share sequences and rows
(canon/kernels/cpu/threads.py).
Shapes: as in the kernels' file; N tokens of B sequences, W numbers for a place of the memory, L · 2D and more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from canon.kernels.cpu.threads import has_kernels, share, threads
from canon.nn.attention.block import ACTIVATIONS, DecoderBlock, EncoderBlock, TransformerDecoder, TransformerEncoder
from canon.nn.frozen import is_frozen
from canon.nn.packed import is_plain
from canon.nn.ragged import Layout
from canon.nn.states import State

if TYPE_CHECKING:
    from canon.kernels.cpu.transformer import KernelSizes

_LINE = 16  # floats of a cache line
_PART = 256  # tokens that go through an encoder together: their features stay near
_ORDER = list(ACTIVATIONS.values())  # as kernels.cpu.transformer.KernelSizes numbers them

Affine = tuple[Tensor, Tensor | None]  # weight and bias


def compiles(module: nn.Module) -> bool:
    """Whether kernels can do what the module does, by a copy of its weights."""
    return is_frozen(module) and has_kernels() and not module.training and all(map(is_plain, module.parameters()))


class CompiledEncoder:
    """An encoder with its weights as they were when this was made."""

    def __init__(self, encoder: TransformerEncoder) -> None:
        blocks: list[EncoderBlock] = list(encoder.blocks)  # type: ignore[arg-type]
        self._sizes, self._windows = _sizes(blocks[0], len(blocks)), _windows(blocks)
        self._weights = _copied(_in_order(blocks, encoder.norm))

    def __call__(self, x_ND: Tensor, layout: Layout) -> Tensor:
        """[B, S, D], 0 after a sequence's end."""
        from canon.kernels.cpu import transformer as kernel

        sizes = self._sizes
        out_BSD = x_ND.new_zeros(layout.size, layout.max_length, sizes.dim)
        if not layout.total:
            return out_BSD
        length_B = layout.lengths.numpy()
        end_B = length_B.cumsum()
        start_B, stride = end_B - length_B, kernel.stride_of(sizes, layout.max_length)
        # Parts of about as many tokens, as many for each thread.
        parts = threads() * -(-layout.total // (_PART * threads()))
        bounds = np.searchsorted(end_B, np.arange(1, parts) * layout.total / parts)
        edges = [0, *bounds.tolist(), layout.size]
        given = (_flat(x_ND), start_B, length_B, sizes, self._weights, self._windows)

        def run(first: int, count: int) -> None:
            for begin, end in list(pairwise(edges))[first : first + count]:
                rows = _filled_up(int(length_B[begin:end].sum()))
                if rows:
                    work = _zeros(rows * stride)
                    kernel.encode(begin, end, rows, *given, work, stride, _flat(out_BSD), layout.max_length)

        share(run, parts, 1)
        return out_BSD


class CompiledDecoder:
    """A decoder with its weights as they were when this was made; what it remembers of a search is in the state."""

    def __init__(self, decoder: TransformerDecoder, output: Tensor) -> None:
        """`output` are the weights of logits, [V, D]."""
        blocks: list[DecoderBlock] = list(decoder.blocks)  # type: ignore[arg-type]
        self._windows, self._tokens = _windows(blocks), len(output)
        self._sizes = _sizes(blocks[0], len(blocks), self._tokens)
        self._weights = _copied([*_in_order(blocks, decoder.norm), (output, None)])
        self._memory = _copied((block.cross.key_value.weight, block.cross.key_value.bias) for block in blocks)

    def init_state(self, memory_BSD: Tensor, seen_BS: Tensor, capacity: int) -> State:
        """Keys and values of the memory, of whose places each row sees the first ones, and room for more tokens.

        | entry | shape | meaning |
        | --- | --- | --- |
        | memory | [B, S, W] | keys and values of the source, of one layer after the other |
        | memory_length | [B] | its tokens |
        | cache | [B, L, C, 2D] | keys and values of the target so far |
        | position | [] | tokens so far |
        """
        from canon.kernels.cpu import transformer as kernel

        (batch, places, dim), layers = memory_BSD.shape, self._sizes.layers
        rows, width = _filled_up(batch * places), layers * kernel.padded(2 * dim)
        x = F.pad(memory_BSD.reshape(-1, dim), (0, 0, 0, rows - batch * places))
        memory_RW = x.new_empty(rows, width)
        given = (_flat(x), dim, self._memory, layers, _flat(memory_RW))
        if rows:
            share(lambda first, count: kernel.project(first, count, *given), rows, kernel.TILE)
        return {
            "memory": memory_RW[: batch * places].view(batch, places, width),
            "memory_length": seen_BS.sum(1),
            "cache": x.new_empty(batch, layers, capacity, 2 * dim),
            "position": torch.tensor(0),
        }

    def step(self, x_BD: Tensor, state: State) -> Tensor:
        """Logits [B, V] of what follows tokens that are embedded; the cache is written to."""
        from canon.kernels.cpu import transformer as kernel

        cache, memory = state["cache"], state["memory"]
        (size, _), capacity, (_, sources, width) = x_BD.shape, cache.shape[2], memory.shape
        rows, stride = _filled_up(size), kernel.stride_of(self._sizes, max(capacity, sources))
        logits_RV = np.empty((rows, self._sizes.outputs), np.float32)
        given = (
            *(_flat(x_BD), size, self._sizes, self._weights, self._windows),
            *(_zeros(rows * stride), stride, _flat(cache), capacity, int(state["position"])),
            *(_flat(memory), sources, width, state["memory_length"].numpy(), logits_RV.reshape(-1)),
        )
        share(lambda first, count: kernel.step(first, count, *given), rows, kernel.TILE)
        if not cache.is_inference():
            torch.autograd.graph.increment_version(cache)
        return torch.from_numpy(logits_RV)[:size, : self._tokens]


def _sizes(block: EncoderBlock | DecoderBlock, layers: int, tokens: int = 0) -> KernelSizes:
    from canon.kernels.cpu import transformer as kernel

    return kernel.KernelSizes(
        dim=block.attention.dim,
        heads=block.attention.num_heads,
        hidden=block.feed_forward.inner.out_features,
        layers=layers,
        outputs=kernel.padded(tokens),
        is_pre=block.is_pre,
        activation=_ORDER.index(block.feed_forward.activation),
        eps=block.attention_norm.eps,
    )


def _windows(blocks: list[Any]) -> np.ndarray:
    return np.array([block.attention.window for block in blocks])


def _filled_up(rows: int) -> int:
    """One, or a multiple of TILE, as kernels take them."""
    from canon.kernels.cpu.transformer import TILE

    return rows if rows == 1 else -(-rows // TILE) * TILE


def _aligned(size: int) -> np.ndarray:
    """Numbers that begin with a cache line, so that none of the kernel's vectors lies in two."""
    numbers = np.empty(size + _LINE, np.float32)
    skipped = -numbers.ctypes.data // numbers.itemsize % _LINE
    return numbers[skipped : skipped + size]


def _zeros(size: int) -> np.ndarray:
    numbers = _aligned(size)
    numbers.fill(0)
    return numbers


def _flat(x: Tensor) -> np.ndarray:
    return x.detach().view(-1).numpy()


def _copied(layers: Iterable[Affine]) -> np.ndarray:
    """Weights in the order of their use, in one array."""
    pieces = [piece for layer in layers for piece in _laid_out(*layer)]
    numbers = _aligned(sum(len(piece) for piece in pieces))
    return np.concatenate(pieces, out=numbers)


def _in_order(blocks: list[Any], norm: nn.Module) -> Iterator[Affine]:
    """Weights and biases of an encoder or decoder in the order in which one comes to them."""
    for block in blocks:
        pairs: list[tuple[Any, list[Any]]] = [
            (block.attention_norm, [block.attention.qkv, block.attention.output]),
            (block.feed_forward_norm, [block.feed_forward.inner, block.feed_forward.outer]),
        ]
        if isinstance(block, DecoderBlock):
            pairs.insert(1, (block.cross_norm, [block.cross.query, block.cross.output]))
        for own, layers in pairs:
            for layer in (own, *layers) if block.is_pre else (*layers, own):
                yield layer.weight, layer.bias
    if isinstance(norm, nn.LayerNorm):
        yield norm.weight, norm.bias


def _laid_out(weight: Tensor, bias: Tensor | None) -> list[np.ndarray]:
    """A norm's numbers as they are; a product's in panels of outputs, input by input, then its bias. All are copies:
    torch cannot give back the memory of a weight (FSDP does) that numpy has once looked at."""
    from canon.kernels.cpu.transformer import PANEL, padded

    if weight.dim() == 1:
        assert bias is not None, "norms have biases"
        return [weight.clone().numpy(), bias.clone().numpy()]
    outputs, inputs = weight.shape
    wide = F.pad(weight, (0, 0, 0, padded(outputs) - outputs)).view(-1, PANEL, inputs).transpose(1, 2)
    added = weight.new_zeros(padded(outputs))
    if bias is not None:
        added[:outputs] = bias
    return [wide.reshape(-1).numpy(), added.numpy()]
