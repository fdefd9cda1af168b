"""Transformer-XL: a language model that reads a text in segments and attends to the ones before, by distance.

Dai et al. 2019, Transformer-XL: attentive language models beyond a fixed-length context (arXiv:1901.02860). Recurrence
(section 3.2): each layer sees its own inputs for the last `memory` tokens, SG(h), in `Layers.forward`. Positions by
distance (section 3.3): canon/nn/attention/relative.py. memory = 0 is the same Transformer, weight for weight, without.
Weights begin at N(0, 0.02²), u and v too, as in the authors' code; embeddings are scaled by √D and tied to the output.
Deviations: full softmax in place of the adaptive one; embeddings begin at N(0, 1/D); no dropout inside the feed-forward
networks; norm = "pre" is ours to choose. Generation (`step`) keeps keys and values in place of layer inputs, and looks
back on `context` tokens where that is more than `memory`, so that a model without memory sees its own text.
Shapes: B streams, T tokens of a segment, M of memory, D features, H heads of d, V tokens of the vocabulary, L layers,
S tokens that generation looks back on, C = 2S + 1 places of its cache.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn

from canon.config import settings
from canon.errors import CanonError
from canon.nn.attention.block import Activation, FeedForward, NormPlace, Record
from canon.nn.attention.embedding import TokenEmbedding
from canon.nn.attention.relative import RelativeAttention, distances
from canon.nn.states import State
from canon.systems.settings import Depth, Natural, Positive, Share

_STD = 0.02


@settings
class Config:
    vocab_size: Positive = Field(default=1000, description="tokens of the vocabulary; the data decides")
    dim: Positive = Field(default=410, description="features of a token")
    num_layers: Depth = Field(default=16, description="blocks")
    num_heads: Positive = Field(default=10, description="heads of each attention; dim must be a multiple of it")
    hidden: Positive = Field(default=2100, description="units inside the feed-forward networks")
    memory: Natural = Field(default=150, description="tokens before a segment that every layer sees; 0: none")
    context: Positive = Field(default=512, description="tokens that generation looks back on, if more than memory")
    norm: NormPlace = Field(default="post", description="post: after each sum, as published; pre: before each sublayer")
    activation: Activation = Field(default="relu", description="of the feed-forward networks: relu or gelu")
    tie: bool = Field(default=True, description="the output's matrix is that of the embeddings")
    output_bias: bool = Field(default=False, description="the output has a bias, as in the authors' code")
    dropout: Share = Field(default=0.1, description="share dropped of embeddings, distances and sublayers' outputs")
    attention_dropout: Share = Field(default=0.0, description="share dropped of attention weights")


class Block(nn.Module):
    """Relative attention over memory and segment, then the feed-forward network."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.is_pre = config.norm == "pre"
        self.attention = RelativeAttention(config.dim, config.num_heads, config.attention_dropout)
        self.feed_forward = FeedForward(config.dim, config.hidden, config.activation)
        self.attention_norm = nn.LayerNorm(config.dim)
        self.feed_forward_norm = nn.LayerNorm(config.dim)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self, x_BTD: Tensor, memory_BMD: Tensor, r_KD: Tensor, record: Record | None = None, name: str = ""
    ) -> Tensor:
        asked, past = x_BTD, memory_BMD
        if self.is_pre:
            asked, past = self.attention_norm(x_BTD), self.attention_norm(memory_BMD)
        if record is not None:
            record[name] = self.attention.weights(asked, past, r_KD)
        return self._rest(x_BTD, self.attention(asked, past, r_KD))

    def _rest(self, x: Tensor, attended: Tensor) -> Tensor:
        x = x + self.dropout(attended)
        if self.is_pre:
            return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))
        x = self.attention_norm(x)
        return self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))

    def remember(self, memory_BMD: Tensor) -> Tensor:
        return self.attention.remember(self.attention_norm(memory_BMD) if self.is_pre else memory_BMD)

    def step(self, x_BD: Tensor, slot: Tensor, keys: Tensor, values: Tensor, by_distance: Tensor) -> Tensor:
        asked = self.attention_norm(x_BD) if self.is_pre else x_BD
        return self._rest(x_BD, self.attention.step(asked, slot, keys, values, by_distance))


class Layers(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.num_layers))
        self.norm = nn.LayerNorm(config.dim) if config.norm == "pre" else nn.Identity()
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self, x_BTD: Tensor, memory_BLMD: Tensor, keep: int, record: Record | None = None
    ) -> tuple[Tensor, Tensor]:
        """The stack's output, and of each layer's inputs the last `keep`, without their history: [B, L, ≤ keep, D]."""
        keys = memory_BLMD.shape[2] + x_BTD.shape[1]
        r_KD = self.dropout(distances(keys, x_BTD.shape[2], x_BTD.device).to(x_BTD.dtype))
        kept: list[Tensor] = []
        for i, (block, memory_BMD) in enumerate(zip(self.blocks, memory_BLMD.unbind(1), strict=True)):
            kept.append(_newest(memory_BMD, x_BTD.detach(), keep))
            x_BTD = block(x_BTD, memory_BMD, r_KD, record, f"decoder/{i}")
        return self.dropout(self.norm(x_BTD)), torch.stack(kept, 1)


def _newest(memory_BMD: Tensor, x_BTD: Tensor, keep: int) -> Tensor:
    """The last `keep` of both, [B, ≤ keep, D]."""
    length, older = x_BTD.shape[1], memory_BMD.shape[1]
    if keep <= length or not older:
        return x_BTD[:, max(length - keep, 0) :]
    return torch.cat([memory_BMD[:, max(older + length - keep, 0) :], x_BTD], 1)


class TransformerXL(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.memory = config.memory
        self.span = max(config.memory, config.context)
        self.shape = config.num_layers, config.dim
        self.embedding = TokenEmbedding(config.vocab_size, config.dim)
        self.output = None if config.tie else nn.Linear(config.dim, config.vocab_size, bias=False)
        self.output_bias = nn.Parameter(torch.zeros(config.vocab_size)) if config.output_bias else None
        self.dropout = nn.Dropout(config.dropout)
        self.layers = Layers(config)
        for name, parameter in self.layers.named_parameters():
            if "norm" not in name:
                nn.init.zeros_(parameter) if name.endswith(".bias") else nn.init.normal_(parameter, std=_STD)
        if self.output is not None:
            nn.init.normal_(self.output.weight, std=_STD)

    def forward(self, token_BT: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Logits [B, T, V] of each next token, and the state to go on with; None: a text begins.

        The state is {"memory": [B, L, M, D]}, the inputs of each layer. In training it holds `memory` tokens; otherwise
        it holds as many as generation looks back on, of which `forward` reads the last `memory`.
        """
        return self._run(token_BT, state)

    @torch.no_grad()
    def attention(self, token_BT: Tensor, state: State | None = None) -> Record:
        """All weights: "decoder/0" [B, H, T, M + T] for every layer."""
        record: Record = {}
        self._run(token_BT, state, record)
        return record

    def _run(self, token_BT: Tensor, state: State | None, record: Record | None = None) -> tuple[Tensor, State]:
        if state is None:
            state = self.init_state(len(token_BT), token_BT.device)
        if "memory" not in state:
            raise CanonError("A state that step has gone on with holds no memory for forward; go on with step.")
        held = state["memory"]
        x_BTD = self.dropout(self.embedding(token_BT))
        before = held[:, :, max(held.shape[2] - self.memory, 0) :]
        out_BTD, after = self.layers(x_BTD, before, self.memory if self.training else self.span, record)
        return self._logits(out_BTD), {"memory": after}

    def _logits(self, out: Tensor) -> Tensor:
        if self.output is None:
            return self.embedding(out, bias=self.output_bias)
        return self.output(out) if self.output_bias is None else self.output(out) + self.output_bias

    def init_state(self, batch: int, device: torch.device | str | None = None) -> State:
        return {"memory": self.embedding.weight.new_zeros(batch, self.shape[0], 0, self.shape[1], device=device)}

    def read(self, token_BT: Tensor, room: int = 0) -> State:
        """The state behind a prompt, to go on with; `step` makes its own room."""
        return self(token_BT)[1] if token_BT.shape[1] else self.init_state(len(token_BT), token_BT.device)

    @torch.no_grad()
    def step(self, token_B: Tensor, state: State) -> tuple[Tensor, State]:
        """Logits [B, V] behind `token_B`, and the state after it.

        The first step turns layer inputs into cache [B, L, 2, H, C, d], position and shared_distances [L, H, d, S + 1]
        (W r of each); later ones write to the cache in place.
        """
        if "memory" in state:
            state = self._begin(state["memory"])
        cache, distances_LHdK, position = state["cache"], state["shared_distances"], int(state["position"])
        if position == cache.shape[4]:  # full: the newer half moves to the front, once in S steps
            position = self.span
            cache.narrow(4, 0, position).copy_(cache.narrow(4, cache.shape[4] - position, position).clone())
        first = max(position - self.span, 0)
        filled = cache.narrow(4, first, position + 1 - first)
        x_BD = self.embedding(token_B)
        slots = cache.select(4, position).unbind(1)
        for i, block in enumerate(self.layers.blocks):
            keys, values = filled[:, i].unbind(1)
            by_distance = distances_LHdK[i, :, :, -keys.shape[2] :]
            x_BD = block.step(x_BD, slots[i], keys, values, by_distance)  # type: ignore[operator]
        out_BD = self.layers.norm(x_BD)
        return self._logits(out_BD), {**state, "position": torch.tensor(position + 1)}

    def _begin(self, held_BLMD: Tensor) -> State:
        """Keys and values of what was read, room for more, and W r of all distances that can occur."""
        blocks: list[Block] = list(self.layers.blocks)  # type: ignore[arg-type]
        held_BLMD = held_BLMD[:, :, max(held_BLMD.shape[2] - self.span, 0) :]
        kept = torch.stack([block.remember(held_BLMD[:, i]) for i, block in enumerate(blocks)], 1)
        batch, layers, two, heads, length, width = kept.shape
        cache = kept.new_zeros(batch, layers, two, heads, 2 * self.span + 1, width)
        cache[..., :length, :] = kept
        r_SD = distances(self.span + 1, self.shape[1], kept.device).to(held_BLMD.dtype)
        by_distance = torch.stack([block.attention.by_distance(r_SD) for block in blocks])
        return {"cache": cache, "shared_distances": by_distance, "position": torch.tensor(length)}
