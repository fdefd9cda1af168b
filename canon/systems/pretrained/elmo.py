"""ELMo: words made of characters, read by two language models, one from each side; the states of all layers are used.

Peters et al. 2018, Deep contextualized word representations (arXiv:1802.05365); the characters' network is that of
Jozefowicz et al. 2016 (arXiv:1602.02410). `ELMo.forward` is the objective of section 3.1, Σ log p(t_k | t_1 … t_{k−1})
+ log p(t_k | t_{k+1} … t_N) with one softmax and one character network for both directions (half of it: the mean);
`ELMo.encode` gives R_k of section 3.2: [x_k; x_k] and [h→_{k,j}; h←_{k,j}] of each layer j. Their mix, eq. 1, is
canon/nn/mix.py; characters are canon/nn/characters.py; the LSTM (projected, clipped) is canon/nn/projected_lstm.py.
The convolution runs on the different words among the tokens only. The vocabulary is for the softmax and for reading
tokens: `characters` holds how each of its words is spelled, and `encode_words` takes any words.
Deviations: the whole softmax in place of 8,192 sampled words; the backward direction restarts in every window, where
the published code reads the sentences' reversal as a stream of its own; a text has one token between two sentences,
which the forward direction reads as <S> and the backward one as </S>; a sentence is encoded from an empty state.
Shapes: B sequences, T tokens of a window, N tokens, U different words, C characters, P features of a direction,
D = 2 P, V words of the softmax.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from canon.config import settings
from canon.contracts import Encodes, TakesVocabulary
from canon.data.text.vocabularies import BOS, EOS, RESERVED, UNK
from canon.errors import CanonError
from canon.nn.characters import BEGIN_SENTENCE, END_SENTENCE, LENGTH, PADDING, CharacterCNN, spell, spell_mark
from canon.nn.projected_lstm import Grid, ProjectedLSTM
from canon.nn.ragged import Layout
from canon.nn.states import State
from canon.nn.token_loss import TokenLoss, token_loss
from canon.systems.settings import Depth, DepthOrNone, Natural, Positive, Share

Clip = Annotated[float, Field(ge=0)]


@settings
class Config:
    vocab_size: Positive = Field(default=len(RESERVED), description="words of the vocabulary; the data decides")
    softmax_words: Natural = Field(
        default=0, description="predict only so many of the first words, the others as <unk>; 0: all"
    )
    max_characters: Annotated[Positive, Field(ge=3)] = Field(
        default=LENGTH, description="bytes of a word and its two marks, at most"
    )
    char_dim: Positive = Field(default=16, description="features of a character")
    filters: tuple[tuple[Positive, Positive], ...] = Field(
        default=((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024)),
        description="widths of the characters' convolutions and how many of each",
    )
    num_highway: DepthOrNone = Field(default=2, description="highway layers after them")
    activation: Literal["relu", "tanh"] = Field(default="relu", description="of the convolutions")
    projection: Positive = Field(default=512, description="features of a word, and of a direction's output")
    hidden: Positive = Field(default=4096, description="cells of an LSTM")
    num_layers: Depth = Field(default=2, description="LSTMs on top of each other, in each direction")
    cell_clip: Clip = Field(default=3.0, description="cells stay within ± this; 0: no bounds")
    projection_clip: Clip = Field(default=3.0, description="outputs of an LSTM stay within ± this; 0: no bounds")
    skip: bool = Field(default=True, description="from the second on, a layer's input is added to its output")
    dropout: Share = Field(default=0.1, description="share dropped of each layer's input and before the softmax")


class ELMo(nn.Module, Encodes, TakesVocabulary):
    framing = "bert"  # <bos> a <eos> [b <eos>]
    limit = 0
    characters: Tensor  # [V, C] how each word of the vocabulary is spelled
    _ddp_params_and_buffers_to_ignore = ("characters",)  # every process has it: DDP need not send it at every step

    def __init__(self, config: Config) -> None:
        super().__init__()
        widest = max((width for width, _ in config.filters), default=0)
        if not 0 < widest <= config.max_characters:
            raise CanonError(
                f"system.filters needs widths from 1 to system.max_characters = {config.max_characters}, "
                f"got {widest or 'none'}."
            )
        self.config = config
        self.dim = 2 * config.projection
        spelled = torch.full((config.vocab_size, config.max_characters), PADDING, dtype=torch.int16)
        self.register_buffer("characters", spelled)
        self.words = CharacterCNN(
            config.char_dim, config.filters, config.num_highway, config.projection, config.activation
        )
        sizes = (config.projection, config.hidden, config.projection, config.cell_clip, config.projection_clip)
        self.layers = nn.ModuleList(ProjectedLSTM(*sizes) for _ in range(config.num_layers))
        self.dropout = nn.Dropout(config.dropout)
        self.softmax = nn.Linear(config.projection, min(config.softmax_words or config.vocab_size, config.vocab_size))
        nn.init.normal_(self.softmax.weight, std=config.projection**-0.5)
        nn.init.zeros_(self.softmax.bias)
        self.take_vocabulary(RESERVED)

    def take_vocabulary(self, vocabulary: Sequence[str]) -> None:
        """The words that tokens stand for, by id; <bos> and <eos> are the marks of a sentence's beginning and end.

        The softmax stays as it is: after training, another vocabulary is for `encode` alone.
        """
        table_VC = spell(vocabulary, self.config.max_characters)
        table_VC[BOS] = spell_mark(BEGIN_SENTENCE, self.config.max_characters)
        table_VC[EOS] = spell_mark(END_SENTENCE, self.config.max_characters)
        spelled_VC = torch.from_numpy(table_VC).to(self.characters.device)
        if len(spelled_VC) < len(self.characters):  # no word is known yet but the reserved ones
            spelled_VC = torch.cat((spelled_VC, self.characters[len(spelled_VC) :]))
        self.characters = spelled_VC

    # Pre-training

    def forward(
        self, token_BT: Tensor, next_BT: Tensor, layout: Layout, state: State | None = None
    ) -> tuple[TokenLoss, State]:
        """The losses [2 N] of a window's tokens and the state to go on with: forward [N], then backward [N].

        next_BT: one token on. The forward direction reads `token` and predicts `next`; the backward one reads `next`
        from right to left and predicts `token`. layout: how many of each row's T tokens there are.
        """
        token_N, next_N = (layout.unpad(rows_BT[:, : layout.max_length]) for rows_BT in (token_BT, next_BT))
        hidden, after = self._read_tokens(torch.stack((token_N, next_N)), layout, state)
        target_M = torch.cat((next_N, token_N))
        known = len(self.softmax.weight)
        if known < self.config.vocab_size:
            target_M = torch.where(target_M < known, target_M, UNK)
        last_MP = self.dropout(hidden[-1]).flatten(0, 1)
        return token_loss(last_MP, self.softmax.weight, self.softmax.bias, target_M), after

    # Use

    def encode(self, token_N: Tensor, layout: Layout, segment_N: Tensor | None = None) -> list[Tensor]:
        """[N, D] of each layer, the words themselves first; each sequence is framed by <bos> and <eos>."""
        hidden, _ = self._read_tokens(token_N.expand(2, -1), layout)
        return [torch.cat(tuple(layer_2NP), dim=1) for layer_2NP in hidden]

    def pool(self, hidden_ND: Tensor, layout: Layout) -> Tensor:
        """[B, D]: the mean of each sequence."""
        return layout.mean(hidden_ND)

    def encode_words(self, sentences: Sequence[Sequence[str]]) -> list[Tensor]:
        """[layers, words, D] of each sentence, whatever its words are; the marks around it are left out."""
        device = self.characters.device
        words = list(dict.fromkeys(word for sentence in sentences for word in sentence))
        ids = {word: index for index, word in enumerate(words, start=2)}
        marks = [spell_mark(mark, self.config.max_characters) for mark in (BEGIN_SENTENCE, END_SENTENCE)]
        character_UC = torch.from_numpy(np.concatenate((np.stack(marks), spell(words, self.config.max_characters))))
        lengths = torch.tensor([len(sentence) + 2 for sentence in sentences], dtype=torch.int64)
        layout = Layout(lengths, device)
        index_N = torch.tensor([i for sentence in sentences for i in (0, *map(ids.__getitem__, sentence), 1)])
        hidden, _ = self._read(character_UC.to(device), index_N.to(device).expand(2, -1), layout)
        layers_JND = torch.stack([torch.cat(tuple(layer_2NP), dim=1) for layer_2NP in hidden])
        return [part[:, 1:-1] for part in layers_JND.split(lengths.tolist(), dim=1)]

    # Both

    def _read_tokens(self, token_2N: Tensor, layout: Layout, state: State | None = None) -> tuple[list[Tensor], State]:
        """`_read` for tokens; a boundary of sentences begins one to the right and ends one to the left."""
        forward_N, backward_N = token_2N
        read_2N = torch.stack(
            (torch.where(forward_N == EOS, BOS, forward_N), torch.where(backward_N == BOS, EOS, backward_N))
        )
        if read_2N.is_meta:  # where nothing can be counted, all words are different
            word_U, index_2N = read_2N.flatten(), torch.empty_like(read_2N)
        else:
            word_U, index_2N = read_2N.unique(return_inverse=True)
        return self._read(self.characters.index_select(0, word_U), index_2N, layout, state)

    def _read(
        self, character_UC: Tensor, index_2N: Tensor, layout: Layout, state: State | None = None
    ) -> tuple[list[Tensor], State]:
        """[2, N, P] of the words and of each layer, and the state of the forward direction after each sequence.

        index_2N: which of the U words each direction reads at each token.
        """
        grid = Grid(layout)
        word_UP = self.words(character_UC)
        x_2NP = word_UP.index_select(0, index_2N.flatten()).view(2, layout.total, -1)
        hidden = [x_2NP]
        carried = []
        for number, layer in enumerate(self.layers):
            before = None if state is None else (state["hidden"][:, number], state["cell"][:, number])
            x_2NP = self.dropout(x_2NP)
            out_2NP, after = layer(x_2NP, grid, before)
            x_2NP = out_2NP + x_2NP if number and self.config.skip else out_2NP
            hidden.append(x_2NP)
            carried.append(after)
        outs, cells = zip(*carried, strict=True)
        return hidden, {"hidden": torch.stack(outs, dim=1), "cell": torch.stack(cells, dim=1)}
