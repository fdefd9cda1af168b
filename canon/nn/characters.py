"""Words as characters: the bytes of a word with marks around them, and the convolution that makes a vector of them.

Papers: Kim et al. 2016 (arXiv:1508.06615) and Jozefowicz et al. 2016 (arXiv:1602.02410) (the convolution), Srivastava,
Greff and Schmidhuber 2015 (arXiv:1505.00387), eq. 3 (`Highway`), Peters et al. 2018 (arXiv:1802.05365) (sizes, marks).
`spell`: a word is <begin> b₁ … bₙ <end> and padding up to 50 places, b its UTF-8 bytes; characters 0 to 255 are bytes,
256 to 260 are begin and end of a sentence, begin and end of a word, and padding. A sentence's mark is a word whose only
character is that mark. `CharacterCNN`: y_k = act(max_t(W_k c_{t … t+w−1} + b_k)) for all filters of all widths, highway
layers, a projection.
Deviations: none in values. On a CPU, places after the longest word and the widest filter are left out: there are only
paddings, and one filter's width of them is in already. (The reader that was published with the weights adds 1 to every
character, so that 0 can fill up sentences; here sentences are not filled up.)
Shapes: U words, C characters of a word, F filters of all widths, D features.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from canon.nn.activations import activation as activation_of

BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, PADDING = range(256, 261)
NUM_CHARACTERS = 261
LENGTH = 50  # characters of a word, its marks among them


def spell(words: Sequence[str], length: int = LENGTH) -> np.ndarray:
    """[U, C] int16: the characters of each word; of a longer one the first length − 2 bytes."""
    spelled = [word.encode("utf-8", "ignore")[: length - 2] for word in words]
    lengths_U = np.fromiter(map(len, spelled), dtype=np.int64, count=len(spelled))
    table_UC = np.full((len(spelled), length), PADDING, dtype=np.int16)
    table_UC[:, 0] = BEGIN_WORD
    rows = np.repeat(np.arange(len(spelled)), lengths_U)
    starts = np.repeat(np.cumsum(lengths_U) - lengths_U, lengths_U)
    table_UC[rows, np.arange(len(rows)) - starts + 1] = np.frombuffer(b"".join(spelled), dtype=np.uint8)
    table_UC[np.arange(len(spelled)), lengths_U + 1] = END_WORD
    return table_UC


def spell_mark(mark: int, length: int = LENGTH) -> np.ndarray:
    """[C] int16: a sentence's beginning or end, as the one character of a word."""
    row_C = np.full(length, PADDING, dtype=np.int16)
    row_C[:3] = BEGIN_WORD, mark, END_WORD
    return row_C


class Highway(nn.Module):
    """y = T(x) ⊙ relu(W_h x + b_h) + (1 − T(x)) ⊙ x with the gate T(x) = σ(W_t x + b_t), which begins nearly closed."""

    def __init__(self, dim: int, gate_bias: float = -2.0) -> None:
        super().__init__()
        self.gate_bias = gate_bias
        self.both = nn.Linear(dim, 2 * dim)  # the gate, then the transform: one product
        self.reset_parameters()

    def reset_parameters(self) -> None:
        dim = self.both.in_features
        nn.init.normal_(self.both.weight, std=dim**-0.5)
        nn.init.zeros_(self.both.bias)
        with torch.no_grad():
            self.both.bias[:dim].fill_(self.gate_bias)

    def forward(self, x_UD: Tensor) -> Tensor:
        gate_UD, transform_UD = self.both(x_UD).chunk(2, dim=-1)
        return torch.lerp(x_UD, torch.relu(transform_UD).to(x_UD.dtype), torch.sigmoid(gate_UD).to(x_UD.dtype))


class CharacterCNN(nn.Module):
    """Characters of words [U, C] to vectors [U, D]."""

    def __init__(
        self,
        char_dim: int,
        filters: Sequence[tuple[int, int]],
        num_highway: int,
        dim: int,
        activation: str = "relu",
    ) -> None:
        """filters: (width, how many), as in (1, 32), (2, 32)."""
        super().__init__()
        self.widest = max(width for width, _ in filters)
        self.num_filters = sum(count for _, count in filters)
        self.embedding = nn.Embedding(NUM_CHARACTERS, char_dim)
        self.convolutions = nn.ModuleList(nn.Conv1d(char_dim, count, width) for width, count in filters)
        self.activation_name = activation
        self.activation = activation_of(activation)
        self.highways = nn.Sequential(*(Highway(self.num_filters) for _ in range(num_highway)))
        self.projection = nn.Linear(self.num_filters, dim)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As published: ± 1 for characters, ± 0.05 (Kim et al.) for rectified filters, 1/√fan-in for the others."""
        nn.init.uniform_(self.embedding.weight, -1.0, 1.0)
        for convolution in self.convolutions:
            weight, bias = convolution.parameters()
            if self.activation_name == "relu":
                nn.init.uniform_(weight, -0.05, 0.05)
            else:
                nn.init.normal_(weight, std=(weight.shape[1] * weight.shape[2]) ** -0.5)
            nn.init.zeros_(bias)
        nn.init.normal_(self.projection.weight, std=self.num_filters**-0.5)
        nn.init.zeros_(self.projection.bias)

    def forward(self, character_UC: Tensor) -> Tensor:
        if character_UC.device.type == "cpu" and len(character_UC):  # elsewhere the host would wait for the longest
            longest = int((character_UC != PADDING).sum(1).max())
            character_UC = character_UC[:, : longest + self.widest]
        x_UEC = self.embedding(character_UC.long()).transpose(1, 2)
        # The activation rises, so it may follow the maximum.
        features_UF = torch.cat([convolution(x_UEC).amax(2) for convolution in self.convolutions], dim=1)
        return self.projection(self.highways(self.activation(features_UF)))
