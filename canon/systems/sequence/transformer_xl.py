"""Transformer-XL: a language model that reads a text in segments and attends to the ones before, by distance.

Dai et al. 2019, Transformer-XL: attentive language models beyond a fixed-length context (arXiv:1901.02860). Recurrence
(section 3.2): each layer sees its own inputs for the last `memory` tokens, SG(h), in `TransformerXLLayers.forward`.
Positions by distance (section 3.3): canon/nn/attention/relative.py. memory = 0 is the same network without it.
Weights begin at N(0, 0.02²), u and v too, as in the authors' code; embeddings are scaled by √D and tied to the output.
Deviations: full softmax in place of the adaptive one; embeddings begin at N(0, 1/D); no dropout inside the feed-forward
networks; norm = "pre" is an addition of canon. Generation (`step`) keeps keys and values in place of layer inputs, and
looks back on `context` tokens where that is more than `memory`, so that a model without memory sees its own text.
Shapes: B streams, T tokens of a segment, M of memory, D features, H heads of d, V tokens of the vocabulary, L layers,
S tokens that generation looks back on, C = 2S + 1 places of its cache.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn

from canon.config import settings
from canon.contracts import Attends
from canon.errors import CanonError
from canon.nn.attention.block import Activation, FeedForward, NormPlace, Record, Sublayers
from canon.nn.attention.embedding import TokenEmbedding
from canon.nn.attention.relative import RelativeAttention, distances
from canon.nn.decoding import LanguageModel
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


class TransformerXLBlock(Sublayers):
    """Relative attention over memory and segment, then the feed-forward network."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.is_pre = config.norm == "pre"
        self.attention = RelativeAttention(config.dim, config.num_heads, config.attention_dropout)
        self.feed_forward = FeedForward(config.dim, config.hidden, config.activation)
        self.attention_norm = nn.LayerNorm(config.dim)
        self.feed_forward_norm = nn.LayerNorm(config.dim)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x_BTD: Tensor, memory_BMD: Tensor, r_KD: Tensor) -> Tensor:
        return self._rest(x_BTD, self.attention(self._normed(x_BTD), self._normed(memory_BMD), r_KD))

    def weights(self, x_BTD: Tensor, memory_BMD: Tensor, r_KD: Tensor) -> Tensor:
        return self.attention.weights(self._normed(x_BTD), self._normed(memory_BMD), r_KD)

    def _normed(self, x: Tensor) -> Tensor:
        return self.before(self.attention_norm, x)

    def _rest(self, x: Tensor, attended: Tensor) -> Tensor:
        x, norm = self.after(self.attention_norm, x, attended), self.feed_forward_norm
        return self.after(norm, x, self.feed_forward(self.before(norm, x)))

    def remember(self, memory_BMD: Tensor) -> Tensor:
        return self.attention.remember(self._normed(memory_BMD))

    def step(self, x_BD: Tensor, slot: Tensor, keys: Tensor, values: Tensor, by_distance: Tensor) -> Tensor:
        return self._rest(x_BD, self.attention.step(self._normed(x_BD), slot, keys, values, by_distance))


class TransformerXLLayers(nn.Module, Attends):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(TransformerXLBlock(config) for _ in range(config.num_layers))
        self.norm = nn.LayerNorm(config.dim) if config.norm == "pre" else nn.Identity()
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x_BTD: Tensor, memory_BLMD: Tensor, keep: int) -> tuple[Tensor, Tensor]:
        """The stack's output, and of each layer's inputs the last `keep`, without their history: [B, L, ≤ keep, D]."""
        r_KD, kept = self._distances(x_BTD, memory_BLMD), []
        for block, memory_BMD in zip(self.blocks, memory_BLMD.unbind(1), strict=True):
            kept.append(_newest(memory_BMD, x_BTD.detach(), keep))
            x_BTD = block(x_BTD, memory_BMD, r_KD)
        return self.dropout(self.norm(x_BTD)), torch.stack(kept, 1)

    def attention(self, x_BTD: Tensor, memory_BLMD: Tensor) -> Record:
        """The weights of each block."""
        r_KD, record = self._distances(x_BTD, memory_BLMD), {}
        for i, (block, memory_BMD) in enumerate(zip(self.blocks, memory_BLMD.unbind(1), strict=True)):
            record[f"decoder/{i}"] = block.weights(x_BTD, memory_BMD, r_KD)  # type: ignore[operator]
            x_BTD = block(x_BTD, memory_BMD, r_KD)
        return record

    def _distances(self, x_BTD: Tensor, memory_BLMD: Tensor) -> Tensor:
        keys = memory_BLMD.shape[2] + x_BTD.shape[1]
        return self.dropout(distances(keys, x_BTD.shape[2], x_BTD.device).to(x_BTD.dtype))


def _newest(memory_BMD: Tensor, x_BTD: Tensor, keep: int) -> Tensor:
    """The last `keep` of both, [B, ≤ keep, D]."""
    length, older = x_BTD.shape[1], memory_BMD.shape[1]
    if keep <= length or not older:
        return x_BTD[:, max(length - keep, 0) :]
    return torch.cat([memory_BMD[:, max(older + length - keep, 0) :], x_BTD], 1)


class TransformerXL(nn.Module, LanguageModel, Attends):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.memory = config.memory
        self.span = max(config.memory, config.context)
        self.shape = config.num_layers, config.dim
        self.embedding = TokenEmbedding(config.vocab_size, config.dim)
        self.output = None if config.tie else nn.Linear(config.dim, config.vocab_size, bias=False)
        self.output_bias = nn.Parameter(torch.zeros(config.vocab_size)) if config.output_bias else None
        self.dropout = nn.Dropout(config.dropout)
        self.layers = TransformerXLLayers(config)
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
        x_BTD, before = self._read(token_BT, state)
        out_BTD, after = self.layers(x_BTD, before, self.memory if self.training else self.span)
        return self._logits(out_BTD), {"memory": after}

    @torch.no_grad()
    def attention(self, token_BT: Tensor, state: State | None = None) -> Record:
        """All weights: "decoder/0" [B, H, T, M + T] for every layer."""
        return self.layers.attention(*self._read(token_BT, state))

    def _read(self, token_BT: Tensor, state: State | None) -> tuple[Tensor, Tensor]:
        """The embedded tokens, and the memory before them."""
        if state is None:
            state = self.init_state(len(token_BT), token_BT.device)
        if "memory" not in state:
            raise CanonError("A state that step has gone on with holds no memory for forward; go on with step.")
        held = state["memory"]
        return self.dropout(self.embedding(token_BT)), held[:, :, max(held.shape[2] - self.memory, 0) :]

    def _logits(self, out: Tensor) -> Tensor:
        if self.output is None:
            return self.embedding.logits(out, self.output_bias)
        return self.output(out) if self.output_bias is None else self.output(out) + self.output_bias

    def init_state(self, batch: int, device: torch.device | str | None = None) -> State:
        return {"memory": self.embedding.weight.new_zeros(batch, self.shape[0], 0, self.shape[1], device=device)}

    def read(self, token_BT: Tensor, room: int = 0) -> State:
        """The state after a prompt, to go on with; `step` makes its own room."""
        return self(token_BT)[1] if token_BT.shape[1] else self.init_state(len(token_BT), token_BT.device)

    @torch.no_grad()
    def step(self, token_B: Tensor, state: State) -> tuple[Tensor, State]:
        """Logits [B, V] of what follows `token_B`, and the state after it.

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
        blocks: list[TransformerXLBlock] = list(self.layers.blocks)  # type: ignore[arg-type]
        held_BLMD = held_BLMD[:, :, max(held_BLMD.shape[2] - self.span, 0) :]
        kept = torch.stack([block.remember(held_BLMD[:, i]) for i, block in enumerate(blocks)], 1)
        batch, layers, two, heads, length, width = kept.shape
        cache = kept.new_zeros(batch, layers, two, heads, 2 * self.span + 1, width)
        cache[..., :length, :] = kept
        r_SD = distances(self.span + 1, self.shape[1], kept.device).to(held_BLMD.dtype)
        by_distance = torch.stack([block.attention.by_distance(r_SD) for block in blocks])
        return {"cache": cache, "shared_distances": by_distance, "position": torch.tensor(length)}
