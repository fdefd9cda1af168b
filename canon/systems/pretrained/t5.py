"""T5: one encoder–decoder Transformer for every task put as text to text, pre-trained to fill in missing spans.

Raffel et al. 2020, Exploring the limits of transfer learning with a unified text-to-text Transformer
(arXiv:1910.10683). Section 2.1: norms before each sublayer that only scale → `T5Norm`; no biases anywhere; scores are
q·k without 1/√d plus a number per bucket of distances, which all layers of a stack share → `T5Stack`, and
canon/nn/positions.py. Sections 3.1.4 and 3.3: sentinels replace spans of the text, and the decoder predicts these.
T5 (tie = true, relu): one matrix for tokens in and out, the decoder's output scaled by D^−½. T5 1.1 (Shazeer 2020,
arXiv:2002.05202): feed-forward networks GELU(x W) ⊙ (x V), and a matrix of its own for the output, unscaled.
Weights begin at N(0, 1/fan in), queries at N(0, 1/(D d)), embeddings at N(0, 1), as in the authors' code.
Deviations: the output's own matrix begins at N(0, 1/D). Shapes: N source tokens and M target tokens of B sequences,
D features, H heads of d, L the longest sequence, S the longest source, C places of the cache, V tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from canon.config import settings
from canon.contracts import Encodes, TakesPrompts
from canon.kernels.cpu.threads import own_threads
from canon.nn.attention.attend import attend
from canon.nn.attention.compiled import BlockForm, CompiledStack, compiled_states, compiles, compiles_texts
from canon.nn.attention.embedding import TokenEmbedding
from canon.nn.attention.prefix import Prefix, WithPrefix
from canon.nn.frozen import once
from canon.nn.packed import Linear
from canon.nn.positions import BucketedBias
from canon.nn.ragged import Layout
from canon.nn.states import COMPILED, State
from canon.nn.token_loss import TokenLoss
from canon.systems.settings import Beam, Depth, DepthOrNone, Length, Penalty, Positive, Share


@settings
class Config:
    vocab_size: Positive = Field(default=32_128, description="tokens of the vocabulary; the data decides")
    dim: Positive = Field(default=512, description="features of a token")
    num_layers: Depth = Field(default=6, description="blocks of the encoder")
    decoder_layers: DepthOrNone = Field(default=0, description="blocks of the decoder; 0: as many as of the encoder")
    num_heads: Positive = Field(default=8, description="heads of each attention")
    head_dim: Positive = Field(default=64, description="features of a head; num_heads × head_dim need not be dim")
    hidden: Positive = Field(default=2048, description="units inside the feed-forward networks")
    activation: Literal["relu", "gated-gelu"] = Field(default="relu", description="relu: T5; gated-gelu: T5 1.1")
    tie: bool = Field(default=True, description="the output's matrix is that of the embeddings; T5 1.1: false")
    num_buckets: Annotated[Positive, Field(ge=4)] = Field(
        default=32, description="buckets of distances, each with a number per head"
    )
    max_distance: Positive = Field(default=128, description="distances from here on are alike")
    eps: Annotated[float, Field(gt=0)] = Field(default=1e-6, description="ε of the norms")
    dropout: Share = Field(default=0.1, description="share dropped of embeddings, inner units and sublayers' outputs")
    attention_dropout: Share = Field(default=0.1, description="share dropped of attention weights")
    beam: Beam = Field(default=1, description="hypotheses kept open in decoding; 1: greedy")
    length_penalty: Penalty = Field(default=0.6, description="α of the beam's length penalty")
    max_length: Length = Field(default=0, description="most tokens of an output; 0: as the data says")


class Encoded(list[Tensor]):
    """The encoder's states [N, D], of the embeddings and of each layer, and whose tokens they are."""

    def __init__(self, states: list[Tensor], layout: Layout) -> None:
        super().__init__(states)
        self.layout = layout


class T5Norm(nn.RMSNorm):
    """x / √(mean of x² + ε) ⊙ g, in the precision that the next product asks for."""

    def forward(self, x: Tensor) -> Tensor:
        normed = super().forward(x)
        kind = "cpu" if x.is_meta else x.device.type
        return normed.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else normed


class T5SelfAttention(nn.Module):
    """softmax(q kᵀ + bias) v; queries, keys and values of all heads are one product."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads = config.num_heads, config.head_dim
        self.dropout = config.attention_dropout
        width = config.num_heads * config.head_dim
        self.qkv = Linear(config.dim, 3 * width, bias=False)
        self.output = Linear(width, config.dim, bias=False)

    def forward(self, x_ND: Tensor, layout: Layout, bias_BHLL: Tensor, prefix: Prefix | None = None) -> Tensor:
        qkv = self.qkv(x_ND) if prefix is None else prefix.put(self.qkv(x_ND))
        query, key, value = layout.pad(qkv).unflatten(-1, (3, *self.heads)).transpose(1, 3).unbind(2)
        dropout = self.dropout if self.training else 0.0
        out = F.scaled_dot_product_attention(query, key, value, bias_BHLL.to(query.dtype), dropout, scale=1.0)
        return self.output(layout.unpad(out.transpose(1, 2).flatten(2)))

    def step(self, x_BD: Tensor, slot_B2Hd: Tensor, keys: Tensor, values: Tensor, bias_1H1K: Tensor) -> Tensor:
        """One token: `slot` is its place, the last, among `keys` and `values` [B, H, K, d], and is filled here."""
        projected = self.qkv(x_BD).unflatten(-1, (3, *self.heads))
        slot_B2Hd.copy_(projected[:, 1:])
        out = F.scaled_dot_product_attention(projected[:, 0, :, None], keys, values, bias_1H1K, scale=1.0)
        return self.output(out.flatten(1))


class T5CrossAttention(nn.Module):
    """Attention to the encoder's output, without a bias."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads = config.num_heads, config.head_dim
        self.dropout = config.attention_dropout
        width = config.num_heads * config.head_dim
        self.query = Linear(config.dim, width, bias=False)
        self.key_value = Linear(config.dim, 2 * width, bias=False)
        self.output = Linear(width, config.dim, bias=False)

    def forward(self, x_MD: Tensor, layout: Layout, memory_ND: Tensor, memory: Layout) -> Tensor:
        # `attend` divides by √d, which T5 does not.
        query = self.query(x_MD).unflatten(-1, self.heads) * math.sqrt(self.heads[1])
        key, value = self.key_value(memory_ND).unflatten(-1, (2, *self.heads)).unbind(1)
        dropout = self.dropout if self.training else 0.0
        return self.output(attend(query, key, value, layout=layout, key_layout=memory, dropout=dropout).flatten(1))

    def remember(self, memory_BSD: Tensor) -> Tensor:
        """Keys and values of a memory, once for all steps: [B, 2, H, S, d]."""
        return self.key_value(memory_BSD).unflatten(-1, (2, *self.heads)).permute(0, 2, 3, 1, 4).contiguous()

    def step(self, x_BD: Tensor, keys: Tensor, values: Tensor, bias_B11S: Tensor | None) -> Tensor:
        query = self.query(x_BD).unflatten(-1, self.heads)[:, :, None]
        return self.output(F.scaled_dot_product_attention(query, keys, values, bias_B11S, scale=1.0).flatten(1))


class T5FeedForward(nn.Module):
    """ReLU(x W) U, or (GELU(x W) ⊙ (x V)) U with W and V in one product."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.is_gated = config.activation == "gated-gelu"
        self.inner = Linear(config.dim, (1 + self.is_gated) * config.hidden, bias=False)
        self.outer = Linear(config.hidden, config.dim, bias=False)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.inner(x)
        if self.is_gated:
            gate, linear = inner.chunk(2, -1)
            return self.outer(self.dropout(F.gelu(gate, approximate="tanh") * linear))
        return self.outer(self.dropout(F.relu(inner)))


class T5Block(nn.Module):
    """Self-attention, in the decoder attention to the memory, then the feed-forward network: x + f(norm(x)) each."""

    window = 0

    def __init__(self, config: Config, is_decoder: bool) -> None:
        super().__init__()
        self._form = BlockForm(
            config.dim,
            config.num_heads,
            config.head_dim,
            config.hidden,
            is_pre=True,
            activation=config.activation,
            eps=config.eps,
            scale=1.0,
            is_centred=False,
            attends_memory=is_decoder,
        )
        self.attention = T5SelfAttention(config)
        self.attention_norm = T5Norm(config.dim, config.eps)
        if is_decoder:
            self.cross = T5CrossAttention(config)
            self.cross_norm = T5Norm(config.dim, config.eps)
        self.feed_forward = T5FeedForward(config)
        self.feed_forward_norm = T5Norm(config.dim, config.eps)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        x_ND: Tensor,
        layout: Layout,
        bias: Tensor,
        memory: tuple[Tensor, Layout] | None,
        prefix: Prefix | None = None,
    ) -> Tensor:
        x_ND = x_ND + self.dropout(self.attention(self.attention_norm(x_ND), layout, bias, prefix))
        if memory is not None:
            x_ND = x_ND + self.dropout(self.cross(self.cross_norm(x_ND), layout, *memory))
        return x_ND + self.dropout(self.feed_forward(self.feed_forward_norm(x_ND)))

    def form(self) -> BlockForm:
        return self._form


class T5Stack(nn.Module):
    """The encoder or the decoder."""

    def __init__(self, config: Config, is_decoder: bool) -> None:
        super().__init__()
        self.is_decoder = is_decoder
        layers = config.decoder_layers or config.num_layers if is_decoder else config.num_layers
        self.positions = BucketedBias(config.num_heads, not is_decoder, config.num_buckets, config.max_distance)
        self.blocks = nn.ModuleList(T5Block(config, is_decoder) for _ in range(layers))
        self.norm = T5Norm(config.dim, config.eps)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        x_ND: Tensor,
        layout: Layout,
        memory: tuple[Tensor, Layout] | None = None,
        prefix: Sequence[Prefix] | None = None,
    ) -> list[Tensor]:
        """The embeddings, then each layer's output; the last through the norm after the stack.

        prefix: of each block, which compiled kernels do not know.
        """
        if memory is None and prefix is None and compiles_texts(self, layout):
            bias_HK = self.positions.by_offset(1 - layout.max_length, layout.max_length)
            return [x_ND, *compiled_states(self, x_ND, layout, False, len(self.blocks), bias_HK)]
        bias, states = self._bias(layout), [self.dropout(x_ND)]
        for index, block in enumerate(self.blocks):
            states.append(block(states[-1], layout, bias, memory, None if prefix is None else prefix[index]))
        return [*states[:-1], self.dropout(self.norm(states[-1]))]

    def _bias(self, layout: Layout) -> Tensor:
        """[1 or B, H, L, L] for all layers: by distance, −∞ for what is not seen."""
        bias = self.positions(layout.max_length, layout.max_length)
        if self.is_decoder:  # padding is the future of every token
            ones = torch.ones(layout.max_length, layout.max_length, dtype=torch.bool, device=bias.device)
            return bias.masked_fill(ones.triu(1), -math.inf)
        if layout.is_full:
            return bias
        # A sequence without tokens sees its padding, which nobody reads: a row of −∞ alone would give NaN.
        seen_BL = layout.mask | (layout.device_lengths == 0)[:, None]
        return bias.where(seen_BL[:, None, None], -math.inf)


class T5Embeddings(nn.Module):
    """A vector per token, and nothing of its place."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.token = TokenEmbedding(config.vocab_size, config.dim, scale=1.0)
        nn.init.normal_(self.token.weight)

    def forward(self, token_N: Tensor, vectors_KD: Tensor | None = None) -> Tensor:
        return self.token(token_N, vectors_KD=vectors_KD)


class T5(nn.Module, TakesPrompts, Encodes):
    framing = "t5"
    limit = 0

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.dim = config.dim
        self.embedding = T5Embeddings(config)
        self.encoder = T5Stack(config, is_decoder=False)
        self.decoder = T5Stack(config, is_decoder=True)
        self.head = None if config.tie else TokenEmbedding(config.vocab_size, config.dim)
        for module in self.modules():
            if isinstance(module, Linear):
                nn.init.normal_(module.weight, std=module.in_features**-0.5)
            elif isinstance(module, BucketedBias):
                nn.init.normal_(module.weight, std=config.dim**-0.5)
        width = config.num_heads * config.head_dim
        for module in self.modules():
            if isinstance(module, T5SelfAttention):
                nn.init.normal_(module.qkv.weight[:width], std=(config.dim * config.head_dim) ** -0.5)
            elif isinstance(module, T5CrossAttention):
                nn.init.normal_(module.query.weight, std=(config.dim * config.head_dim) ** -0.5)

    def forward(self, source_N: Tensor, source: Layout, target_M: Tensor, target: Layout) -> dict[str, Tensor]:
        """What `logits` and `token_losses` read of the token after each of `target_M`: hidden [M, D]."""
        memory_ND = self.encode(source_N, source)[-1]
        return {"hidden": self.decoder(self.embedding(target_M), target, (memory_ND, source))[-1]}

    def logits(self, hidden_MD: Tensor) -> Tensor:
        """Of each token of the vocabulary, [M, V]."""
        return self._output.logits(self._scaled(hidden_MD))

    def token_losses(self, hidden_MD: Tensor, target_M: Tensor) -> TokenLoss:
        return self._output.token_losses(self._scaled(hidden_MD), target_M)

    def prompted(
        self,
        token_N: Tensor,
        layout: Layout,
        segment_N: Tensor | None = None,
        *,
        vectors_KD: Tensor | None = None,
        prefix_LP2D: Tensor | None = None,
    ) -> Tensor:
        """Of the encoder."""
        if prefix_LP2D is None:
            return self.encoder(self.embedding(token_N, vectors_KD), layout)[-1]
        wide = WithPrefix(layout, prefix_LP2D.shape[1])
        x_ND = self.embedding(wide.widen(token_N), vectors_KD)
        return wide.narrow(self.encoder(x_ND, wide.layout, None, wide.of_layers(prefix_LP2D))[-1])

    def continued(
        self,
        target_M: Tensor,
        target: Layout,
        memory_ND: Tensor,
        memory: Layout,
        prefix_LP2D: Tensor | None = None,
    ) -> Tensor:
        """[M, D] the decoder's states, which name the token after each of `target_M`."""
        if prefix_LP2D is None:
            return self.decoder(self.embedding(target_M), target, (memory_ND, memory))[-1]
        wide = WithPrefix(target, prefix_LP2D.shape[1])
        prefix = wide.of_layers(prefix_LP2D)
        states = self.decoder(self.embedding(wide.widen(target_M)), wide.layout, (memory_ND, memory), prefix)
        return wide.narrow(states[-1])

    def naming(self, hidden_MD: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        return self._scaled(hidden_MD), self._output.weight, None

    @property
    def _output(self) -> TokenEmbedding:
        return self.head or self.embedding.token

    def _scaled(self, x: Tensor) -> Tensor:
        return x * self.dim**-0.5 if self.head is None else x

    def encode(self, token_N: Tensor, layout: Layout, segment_N: Tensor | None = None) -> Encoded:
        """The encoder's states, embeddings first; T5 knows no segments, so that these are not looked at."""
        return Encoded(self.encoder(self.embedding(token_N), layout), layout)

    def pool(self, hidden_ND: Tensor, layout: Layout) -> Tensor:
        """[B, D]: the mean over each sequence's tokens."""
        return layout.mean(hidden_ND)

    @torch.no_grad()
    def init_state(self, memory: Encoded, capacity: int) -> State:
        """Ready for the first token: keys and values of the memory, and room for those of `capacity` tokens.

        | entry | shape | meaning |
        | --- | --- | --- |
        | memory | [B, layers, 2, H, S, d] | keys and values of the source |
        | memory_bias | [B, 1, 1, S] | −∞ where there is no source token; absent where sources are equally long |
        | cache | [B, layers, 2, H, C, d] | keys and values of the target so far |
        | shared_bias | [1, H, 1, C] | by distance C−1 … 0: the token at place p reads the last p + 1 |
        | position | [] | tokens so far |

        Where steps are compiled, it has the form that the kernel reads (canon/nn/attention/compiled.py).
        """
        layout, memory_BSD = memory.layout, memory.layout.pad(memory[-1])
        if compiles(self):
            bias_HC = self.decoder.positions.by_offset(1 - capacity, 1)
            with own_threads():
                return once(_compiled, self).init_state(layout.size, capacity, (memory_BSD, layout.mask), None, bias_HC)
        kept = torch.stack([block.cross.remember(memory_BSD) for block in self.decoder.blocks], 1)  # type: ignore[union-attr, operator]
        state = {"memory": kept, "position": torch.tensor(0)}
        if not layout.is_full:
            # An empty source: all its places may be seen, and hold zeros, which is what attending to nothing gives.
            seen_BS = layout.mask | (layout.device_lengths == 0)[:, None]
            bias_BS = torch.zeros(seen_BS.shape, dtype=kept.dtype, device=kept.device)
            state["memory_bias"] = bias_BS.masked_fill_(~seen_BS, -math.inf)[:, None, None]
        batch, layers, two, heads, _, width = kept.shape
        state["cache"] = kept.new_zeros(batch, layers, two, heads, capacity, width)
        state["shared_bias"] = self.decoder.positions(1, capacity).to(kept.dtype)
        return state

    @torch.no_grad()
    def step(self, token_B: Tensor, state: State) -> tuple[Tensor, State]:
        """Logits [B, V] of what follows `token_B`, and the state after it; the cache is written in place."""
        position, cache, after = int(state["position"]), state["cache"], {**state, "position": state["position"] + 1}
        if COMPILED in state:
            return once(_compiled, self).step(self.embedding(token_B), state), after
        # Keys and values of each block: its own so far, and those of the source.
        slots = cache.select(4, position).unbind(1)
        filled = [pair.unbind(1) for pair in cache.narrow(4, 0, position + 1).unbind(1)]
        memory, memory_bias = [pair.unbind(1) for pair in state["memory"].unbind(1)], state.get("memory_bias")
        bias_1H1K = state["shared_bias"][..., cache.shape[4] - position - 1 :]
        x_BD = self.embedding(token_B)
        blocks: list[T5Block] = list(self.decoder.blocks)  # type: ignore[arg-type]
        for block, slot, (key, value), (far_key, far_value) in zip(blocks, slots, filled, memory, strict=True):
            x_BD = x_BD + block.attention.step(block.attention_norm(x_BD), slot, key, value, bias_1H1K)
            x_BD = x_BD + block.cross.step(block.cross_norm(x_BD), far_key, far_value, memory_bias)
            x_BD = x_BD + block.feed_forward(block.feed_forward_norm(x_BD))
        return self.logits(self.decoder.norm(x_BD)), after


def _compiled(network: T5) -> CompiledStack:
    return CompiledStack(network.decoder, network._output.weight, 1.0 if network.head else network.dim**-0.5)
