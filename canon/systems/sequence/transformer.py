"""The Transformer: an encoder and a decoder made of attention and feed-forward layers alone.

Vaswani et al. 2017, Attention is all you need (arXiv:1706.03762). Figure 1 is `Transformer`; its blocks (equations 1
and 2) are in canon/nn/attention/, positions (section 3.5) in canon/nn/positions.py, the shared matrix (section 3.4) is
`TokenEmbedding`. Dropout (section 5.4) is on the sums of embeddings and positions and on each sublayer's output.
Weights begin as in the published implementations: Glorot-uniform, the fused projections of queries, keys and values as
one matrix, biases 0, embeddings N(0, 1/D).
Deviations: projections have biases; norm = "pre" (then with a norm after each stack), learned positions, GELU,
dropout of attention weights and banded layers are additions of canon.
Tokens lie end to end, without padding (canon.nn.ragged). `step` recomputes nothing: keys and values of the past
are in a cache made once for all steps, those of the source are computed in `init_state`.
Shapes: N source tokens and M target tokens of B sequences, D features, H heads of d, V target tokens of the vocabulary,
S the longest source, C places of the cache, L layers.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from canon.config import settings
from canon.contracts import Attends, GraphRecordable
from canon.errors import CanonError
from canon.kernels.cpu.threads import own_threads
from canon.nn.attention.block import (
    Activation,
    DecoderBlock,
    NormPlace,
    Record,
    Sizes,
    TransformerDecoder,
    TransformerEncoder,
)
from canon.nn.attention.compiled import CompiledStack, compiled_states, compiles
from canon.nn.attention.embedding import TokenEmbedding
from canon.nn.attention.multihead import MultiHead
from canon.nn.attention.sparse import Sparse, windows
from canon.nn.attention.steps import DecoderStep
from canon.nn.decoding import EncoderDecoder
from canon.nn.frozen import once
from canon.nn.initialization import initialize
from canon.nn.positions import Learned, Sinusoidal
from canon.nn.ragged import Layout
from canon.nn.states import COMPILED, State
from canon.systems.settings import Beam, Depth, Length, Natural, Penalty, Positive, Share


@settings
class Config:
    source_vocab: Positive = Field(default=1000, description="tokens of the source; the data decides")
    target_vocab: Positive = Field(default=1000, description="tokens of the target; the data decides")
    shared_vocab: bool = Field(default=False, description="both have one vocabulary, and one matrix; the data decides")
    dim: Positive = Field(default=512, description="features of a token")
    num_layers: Depth = Field(default=6, description="blocks of the encoder, and of the decoder")
    num_heads: Positive = Field(default=8, description="heads of each attention; dim must be a multiple of it")
    hidden: Positive = Field(default=2048, description="units inside the feed-forward networks")
    norm: NormPlace = Field(default="post", description="post: after each sum, as published; pre: before each sublayer")
    activation: Activation = Field(default="relu", description="of the feed-forward networks: relu or gelu")
    positions: Literal["sinusoidal", "learned"] = Field(default="sinusoidal", description="kind of position embeddings")
    max_positions: Positive = Field(default=1024, description="longest sequence with learned positions")
    tie: bool = Field(default=True, description="the output's matrix is that of the target embeddings")
    dropout: Share = Field(default=0.1, description="share dropped of embeddings and of each sublayer's output")
    attention_dropout: Share = Field(default=0.0, description="share dropped of attention weights")
    sparse: Sparse = Field(default="none", description="self-attention in a band: none, banded (all), alternating")
    window: Natural = Field(default=0, description="width of the band: tokens less than so far away are seen")
    beam: Beam = Field(default=1, description="hypotheses kept open in decoding; 1: greedy")
    length_penalty: Penalty = Field(default=0.6, description="α of the beam's length penalty")
    max_length: Length = Field(default=0, description="most tokens of an output; 0: as the data says")


class Transformer(nn.Module, EncoderDecoder, Attends, GraphRecordable):
    records = True  # a pass can be a CUDA graph: all of it works on tokens end to end

    def __init__(self, config: Config) -> None:
        super().__init__()
        if config.shared_vocab and config.source_vocab != config.target_vocab:
            raise CanonError(
                "system.shared_vocab needs system.source_vocab equal to system.target_vocab, got "
                f"{config.source_vocab} and {config.target_vocab}."
            )
        sizes = Sizes(
            config.dim,
            config.num_heads,
            config.hidden,
            config.dropout,
            config.attention_dropout,
            config.norm,
            config.activation,
        )
        bands = windows(config.sparse, config.num_layers, config.window)
        self.source_embedding = TokenEmbedding(config.source_vocab, config.dim)
        self.target_embedding = None if config.shared_vocab else TokenEmbedding(config.target_vocab, config.dim)
        self.output = None if config.tie else nn.Linear(config.dim, config.target_vocab, bias=False)
        learned = config.positions == "learned"
        self.positions = Learned(config.max_positions, config.dim) if learned else Sinusoidal(config.dim)
        self.encoder = TransformerEncoder(sizes, bands)
        self.decoder = TransformerDecoder(sizes, bands)
        self.dropout = nn.Dropout(config.dropout)
        initialize(self, "xavier-uniform")
        for module in self.modules():
            if isinstance(module, MultiHead):
                module.reset()

    @property
    def _target(self) -> TokenEmbedding:
        return self.target_embedding or self.source_embedding

    def forward(self, source_N: Tensor, source: Layout, target_M: Tensor, target: Layout) -> Tensor:
        """Logits [M, V] of the token after each of `target_M`, which are <bos> y₁ … yₙ of every sequence."""
        memory_ND = self.encoder(self._embed(source_N, source, self.source_embedding), source)
        x_MD = self._embed(target_M, target, self._target)
        return self._logits(self.decoder(x_MD, target, memory_ND, source))

    @torch.no_grad()
    def attention(self, source_N: Tensor, source: Layout, target_M: Tensor, target: Layout) -> Record:
        """All weights, each [B, H, queries, keys]: "encoder/0", "decoder/0" and "cross/0" for every layer."""
        record, memory_ND = self.encoder.attention(self._embed(source_N, source, self.source_embedding), source)
        x_MD = self._embed(target_M, target, self._target)
        return record | self.decoder.attention(x_MD, target, memory_ND, source)

    def _logits(self, x: Tensor) -> Tensor:
        return self._target.logits(x) if self.output is None else self.output(x)

    def _embed(self, token_N: Tensor, layout: Layout, embedding: TokenEmbedding) -> Tensor:
        return self.dropout(embedding(token_N, self.positions(layout.positions, layout.max_length)))

    def encode(self, source_N: Tensor, source: Layout) -> State:
        """What the decoder attends to: memory [B, S, D] and memory_mask [B, S]."""
        x_ND = self._embed(source_N, source, self.source_embedding)
        if compiles(self.encoder):  # for few tokens too: steps need the kernels anyway
            memory_ND = compiled_states(self.encoder, x_ND, source, False, 1)[0]
        else:
            memory_ND = self.encoder(x_ND, source)
        return {"memory": source.pad(memory_ND), "memory_mask": source.mask}

    @torch.no_grad()
    def init_state(self, memory: State, capacity: int) -> State:
        """Ready for <bos>: keys and values of the memory, and room for those of `capacity` tokens.

        Where steps are compiled (canon/nn/attention/compiled.py), it has the form that the kernel reads; else

        | entry | shape | meaning |
        | --- | --- | --- |
        | memory | [B, L, 2, H, S, d] | keys and values of the source |
        | memory_bias | [B, 1, 1, S] | −∞ where there is no source token; absent where sources are equally long |
        | cache | [B, L, 2, H, C, d] | keys and values of the target so far |
        | position | [] | tokens so far |
        """
        device = memory["memory"].device
        self.positions.table(capacity, device)  # one that is too short is reported now, not in the middle
        if compiles(self):
            with own_threads():
                seen = memory["memory"], memory["memory_mask"]
                return once(_compiled, self).init_state(len(seen[0]), capacity, seen)
        kept = torch.stack([block.cross.remember(memory["memory"]) for block in self._blocks], 1)
        state = {"memory": kept, "position": torch.tensor(0)}
        seen_BS = memory["memory_mask"]
        if not seen_BS.all():
            # An empty source: all its places may be seen, and hold zeros, which is what attending to nothing gives.
            empty_B = ~seen_BS.any(1)
            kept.masked_fill_(empty_B.view(-1, 1, 1, 1, 1, 1), 0.0)
            bias_BS = torch.zeros(seen_BS.shape, dtype=kept.dtype, device=device)
            state["memory_bias"] = bias_BS.masked_fill_(~(seen_BS | empty_B[:, None]), -torch.inf)[:, None, None]
        batch, layers, two, heads, _, width = kept.shape
        state["cache"] = kept.new_zeros(batch, layers, two, heads, capacity, width)
        return state

    @torch.no_grad()
    def step(self, token_B: Tensor, state: State) -> tuple[Tensor, State]:
        """Logits [B, V] of what follows `token_B`, and the state after it; the cache is written in place."""
        position, cache = int(state["position"]), state["cache"]
        after = {**state, "position": state["position"] + 1}
        x_BD = self._target(token_B, self.positions.table(position + 1, cache.device)[position])
        if COMPILED in state:
            return once(_compiled, self).step(x_BD, state), after
        slots = cache.select(4, position).unbind(1)
        filled = cache.narrow(4, 0, position + 1).flatten(1, 2).unbind(1)  # keys, values, keys, values, …
        memory, bias = state["memory"].flatten(1, 2).unbind(1), state.get("memory_bias")
        for i, block in enumerate(self._blocks):
            keys, values = filled[2 * i : 2 * i + 2]
            x_BD = once(DecoderStep, block)(x_BD, slots[i], keys, values, (memory[2 * i], memory[2 * i + 1], bias))
        return self._logits(self.decoder.norm(x_BD)), after

    @property
    def _blocks(self) -> list[DecoderBlock]:
        return list(self.decoder.blocks)  # type: ignore[arg-type]


def _compiled(network: Transformer) -> CompiledStack:
    return CompiledStack(network.decoder, (network.output or network._target).weight)
