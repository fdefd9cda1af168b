"""A stack of Transformer blocks by compiled kernels, on a CPU where nothing is learned: texts, and token by token.

The kernels are canon/kernels/cpu/transformer.py. Weights are copied into their order, once where they are
frozen (canon/nn/frozen.py) and for no longer; elsewhere the modules do it. Threads share texts and rows
(canon/kernels/cpu/threads.py).
Shapes: as in the kernels' file; N tokens of B sequences, I features of all heads, W numbers for a place of the memory,
L · 2I and more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from canon.kernels.cpu.threads import has_kernels, own_threads, share, threads
from canon.nn.frozen import is_frozen, once
from canon.nn.packed import is_plain
from canon.nn.ragged import Layout
from canon.nn.states import COMPILED, State

if TYPE_CHECKING:
    from canon.kernels.cpu.transformer import KernelSizes

_LINE = 16  # floats of a cache line
_PART = 256  # tokens that go through an encoder together: their features stay near
_WORTH = 2048  # tokens of texts for which kernels are loaded

Affine = tuple[Tensor, Tensor | None]  # weight and bias


class BlockForm(NamedTuple):
    """What a block is, beside its weights."""

    dim: int
    heads: int
    width: int  # of a head
    hidden: int
    is_pre: bool
    activation: str
    eps: float
    scale: float  # of scores
    is_centred: bool = True  # norms take the mean away
    attends_memory: bool = False


def compiles(module: nn.Module) -> bool:
    """Whether kernels can do what the module does, by a copy of its weights."""
    return is_frozen(module) and has_kernels() and not module.training and all(map(is_plain, module.parameters()))


def compiles_texts(module: nn.Module, layout: Layout) -> bool:
    """Whether it pays for these texts."""
    return layout.total >= _WORTH and layout.device.type == "cpu" and compiles(module)


class CompiledStack:
    """Blocks and a norm with their weights as they were when this was made; what they remember is in a state."""

    def __init__(self, stack: Any, output: Tensor | None = None, factor: float = 1.0) -> None:
        """`output` are the weights of logits, [V, D], of features times `factor`."""
        from canon.kernels.cpu import products, transformer

        blocks: list[Any] = list(stack.blocks)
        form: BlockForm = blocks[0].form()
        self._tokens = 0 if output is None else len(output)
        self._sizes: KernelSizes = transformer.KernelSizes(
            **{**form._asdict(), "activation": products.ACTIVATIONS[form.activation]},
            layers=len(blocks),
            outputs=products.padded(self._tokens),
        )
        self._inner = form.heads * form.width
        self._windows = np.array([block.window for block in blocks])
        ends = [] if output is None else [(output if factor == 1 else output * factor, None)]
        self._weights = _copied([*_in_order(blocks, stack.norm), *ends])
        if form.attends_memory:
            self._memory = _copied((block.cross.key_value.weight, block.cross.key_value.bias) for block in blocks)

    def states(
        self,
        x_ND: Tensor,
        layout: Layout,
        causal: bool = False,
        kept: int = 1,
        bias_HK: Tensor | None = None,
        cache: Tensor | None = None,
        slot_B: Tensor | None = None,
    ) -> Tensor:
        """[kept, N, D]: the outputs of the last blocks, the very last through the norm.

        bias_HK, K = 2L − 1, is added to scores by key − query = 1 − L …; with a cache [B, L, C, 2I], keys and values go
        to its places from `slot` on.
        """
        from canon.kernels.cpu import transformer as kernel

        sizes, longest = self._sizes, layout.max_length
        out_KND = x_ND.new_empty(kept, layout.total, sizes.dim)
        if not layout.total:
            return out_KND
        length_B = layout.lengths.numpy()
        prefix_B = layout.prefix.to("cpu", torch.int64) if layout.prefix is not None else layout.lengths * (not causal)
        end_B = length_B.cumsum()
        start_B, stride = end_B - length_B, kernel.stride_of(sizes)
        # Parts of about as many tokens, as many for each thread.
        parts = threads() * -(-layout.total // (_PART * threads()))
        bounds = np.searchsorted(end_B, np.arange(1, parts) * layout.total / parts)
        edges = [0, *bounds.tolist(), layout.size]
        bias = _bias(bias_HK, kernel.padded(longest))
        slots = np.zeros(layout.size, np.int64) if slot_B is None else slot_B.numpy()
        given = (_flat(x_ND), start_B, length_B, prefix_B.numpy(), sizes, self._weights, self._windows, *bias)
        kept_too = (_flat(out_KND), kept, layout.total, *_cache(cache), slots)

        def run(first: int, count: int) -> None:
            panels = [_aligned(size) for size in kernel.panels_of(sizes, longest)]
            for begin, end in list(pairwise(edges))[first : first + count]:
                rows = _filled_up(int(length_B[begin:end].sum()))
                if rows:
                    work = _zeros((rows + kernel.TILE) * stride)
                    kernel.encode(begin, end, rows, *given, longest - 1, work, stride, *panels, *kept_too)

        share(run, parts, 1)
        if cache is not None:
            _written(cache)
        return out_KND

    def init_state(
        self,
        batch: int,
        capacity: int,
        memory: tuple[Tensor, Tensor] | None = None,
        start_B: Tensor | None = None,
        bias_HC: Tensor | None = None,
    ) -> State:
        """Room for so many tokens; keys and values of a memory [B, S, D], of whose places [B, S] each row sees the
        first ones.

        | entry | shape | meaning |
        | --- | --- | --- |
        | cache | [B, L, C, 2I] | keys and values so far |
        | compiled_start | [B] | the first place of the cache that belongs to a row's text |
        | position | [] | tokens so far |
        | memory | [B, S, W] | keys and values of a memory, of one layer after the other |
        | memory_length | [B] | its tokens |
        | shared_bias | [H, C] | added to scores by distance C−1 … 0 |
        """
        state = {
            "cache": torch.empty(batch, self._sizes.layers, capacity, 2 * self._inner),
            COMPILED: torch.zeros(batch, dtype=torch.int64) if start_B is None else start_B.clone(),
            "position": torch.tensor(0),
        }
        if bias_HC is not None:
            state["shared_bias"] = bias_HC.contiguous()
        if memory is not None:
            state |= self._remember(*memory)
        return state

    def _remember(self, memory_BSD: Tensor, seen_BS: Tensor) -> State:
        from canon.kernels.cpu import transformer as kernel

        (batch, places, dim), layers = memory_BSD.shape, self._sizes.layers
        rows, width = _filled_up(batch * places), layers * kernel.padded(2 * self._inner)
        x = F.pad(memory_BSD.reshape(-1, dim), (0, 0, 0, rows - batch * places))
        memory_RW = x.new_empty(rows, width)
        given = (_flat(x), dim, self._memory, layers, 2 * self._inner, _flat(memory_RW))
        if rows:
            share(lambda first, count: kernel.project(first, count, *given), rows, kernel.TILE)
        kept_BSW = memory_RW[: batch * places].view(batch, places, width)
        return {"memory": kept_BSW, "memory_length": seen_BS.sum(1)}

    def step(self, x_BD: Tensor, state: State) -> Tensor:
        """Logits [B, V] of what follows tokens that are embedded; the cache is written to."""
        from canon.kernels.cpu import transformer as kernel

        cache = state["cache"]
        memory = state.get("memory", cache.new_empty(0, 0, 0))
        (size, _), capacity, (_, sources, width) = x_BD.shape, cache.shape[2], memory.shape
        rows, sizes = _filled_up(size), self._sizes
        stride = kernel.stride_of(sizes, max(capacity, sources))
        logits_RV = np.empty((rows, sizes.outputs), np.float32)
        given = (
            *(_flat(x_BD), size, sizes, self._weights, self._windows, *_bias(state.get("shared_bias"), 0)),
            *(_zeros(rows * stride), stride, *_cache(cache), int(state["position"]), state[COMPILED].numpy()),
            *(_flat(memory), sources, width, state.get("memory_length", state[COMPILED]).numpy()),
        )
        share(lambda first, count: kernel.step(first, count, *given, logits_RV.reshape(-1)), rows, kernel.TILE)
        _written(cache)
        return torch.from_numpy(logits_RV)[:size, : self._tokens]


def compiled_states(
    stack: nn.Module, x_ND: Tensor, layout: Layout, causal: bool, kept: int, bias_HK: Tensor | None = None
) -> Tensor:
    """`CompiledStack.states` of texts, by all threads."""
    with own_threads():
        return once(CompiledStack, stack).states(x_ND, layout, causal, kept, bias_HK)


def _bias(bias_HK: Tensor | None, more: int) -> tuple[np.ndarray, int]:
    """Its numbers, with some more at the end, and how many a head has; none without a bias."""
    if bias_HK is None:
        return np.empty(0, np.float32), 0
    return _flat(F.pad(bias_HK.reshape(-1), (0, more))), bias_HK.shape[1]


def _cache(cache: Tensor | None) -> tuple[np.ndarray, int]:
    """Its numbers, and its places."""
    return (np.empty(0, np.float32), 0) if cache is None else (_flat(cache), cache.shape[2])


def _written(cache: Tensor) -> None:
    if not cache.is_inference():
        torch.autograd.graph.increment_version(cache)


def _filled_up(rows: int) -> int:
    """One, or a multiple of TILE, as kernels take them."""
    from canon.kernels.cpu.products import TILE

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
    pairs = list(layers)
    numbers = _aligned(sum(_size(weight) for weight, _ in pairs))
    at = 0
    for weight, bias in pairs:
        _lay_out(weight, bias, torch.from_numpy(numbers[at : at + _size(weight)]))
        at += _size(weight)
    return numbers


def _in_order(blocks: list[Any], norm: nn.Module) -> Iterator[Affine]:
    """Weights and biases of a stack in the order in which one comes to them."""
    for block in blocks:
        form: BlockForm = block.form()
        pairs: list[tuple[Any, list[Any]]] = [
            (block.attention_norm, [block.attention.qkv, block.attention.output]),
            (block.feed_forward_norm, [block.feed_forward.inner, block.feed_forward.outer]),
        ]
        if form.attends_memory:
            pairs.insert(1, (block.cross_norm, [block.cross.query, block.cross.output]))
        for norm_of_layers, layers in pairs:
            for layer in (norm_of_layers, *layers) if form.is_pre else (*layers, norm_of_layers):
                yield _affine(layer)
    if form.is_pre:
        yield _affine(norm)


def _affine(layer: Any) -> Affine:
    return layer.weight, None if isinstance(layer, nn.RMSNorm) else layer.bias


def _size(weight: Tensor) -> int:
    """Numbers of a layer's weight and bias."""
    from canon.kernels.cpu.products import padded

    return 2 * len(weight) if weight.dim() == 1 else padded(len(weight)) * (weight.shape[1] + 1)


def _lay_out(weight: Tensor, bias: Tensor | None, out: Tensor) -> None:
    """A norm's numbers as they are; a product's in panels of outputs, input by input, then its bias; zeros for a bias
    that is not there. Never as views: torch cannot give back the memory of a weight (FSDP does) that numpy has once
    looked at."""
    from canon.kernels.cpu.products import PANEL

    outputs, inputs = len(weight), weight[0].numel()
    if weight.dim() == 1:
        out[:outputs] = weight
    else:
        whole = outputs // PANEL
        panels = out[: -(-outputs // PANEL) * PANEL * inputs].view(-1, inputs, PANEL)
        panels[:whole] = weight[: whole * PANEL].view(whole, PANEL, inputs).transpose(1, 2)
        if whole < len(panels):
            panels[whole].zero_()[:, : outputs - whole * PANEL] = weight[whole * PANEL :].T
    rest = out[weight.numel() if weight.dim() == 1 else panels.numel() :].zero_()
    if bias is not None:
        rest[:outputs] = bias
