"""What the systems of this chapter share: one table with a row for every value of every field.

A row is [w, v]: the first-order weight w, and the vector v of D numbers. A field's vector is the sum of its places'
rows, each times its weight (a cell of k values has weights 1/k, a number its size). Features that belong to no field
are a term each; an MLP reads their sum.
Shapes: B examples, S places, T terms (fields, or features without fields), D dimensions, C crosses.
"""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from canon.contracts import Paced, ParameterPace
from canon.errors import CanonError
from canon.nn.rows import RowTable
from canon.systems.clicks.settings import FieldConfig

Std = Annotated[float, Field(ge=0, le=1)]


class FieldNetwork(nn.Module, Paced):
    """b + Σ w, and the vectors of the fields."""

    def __init__(self, config: FieldConfig, name: str, dim: int, std: float = 0.0, crossed: bool = False) -> None:
        super().__init__()
        if config.crosses and not crossed:
            raise CanonError(f"{name} does not use data.crosses: leave them out, or train field-lr or wide-and-deep.")
        self.dim, self.widths, self.apart = dim, config.widths, config.apart
        self.bias = nn.Parameter(torch.zeros(1))
        self.table = RowTable(config.num_rows, 1 + dim, std, zeros=1)
        if config.crosses:
            self.crosses = RowTable(config.cross_rows, 1, 0.0)
        places = sum(self.widths)
        field_S = torch.repeat_interleave(torch.arange(len(self.widths)), torch.tensor(self.widths), output_size=places)
        self.register_buffer("field_S", field_S, persistent=False)

    def paces(self) -> dict[str, ParameterPace]:
        return {
            name: ParameterPace(rows=True)
            for name, _ in self.named_parameters()
            if name.startswith(("table.", "crosses."))
        }

    @property
    def inputs(self) -> int:
        """Numbers that an MLP reads."""
        return self.dim if self.apart else len(self.widths) * self.dim

    def look_up(self, rows_BS: Tensor, weights_BS: Tensor | None, crosses_BC: Tensor | None) -> tuple[Tensor, Tensor]:
        """b + Σ w [B], the weights of crosses among them, and the terms [B, T, D]."""
        row_BSD = self.table(rows_BS)
        if weights_BS is not None:
            row_BSD = row_BSD * weights_BS[:, :, None]
        first_B = self.bias + row_BSD[:, :, 0].sum(1)
        if crosses_BC is not None:
            first_B = first_B + self.crosses(crosses_BC).sum((1, 2))
        terms_BTD = row_BSD[:, :, 1:]
        if not self.apart and len(self.widths) < terms_BTD.shape[1]:
            pooled_BTD = terms_BTD.new_zeros(len(terms_BTD), len(self.widths), self.dim)
            terms_BTD = pooled_BTD.index_add(1, self.field_S, terms_BTD)
        return first_B, terms_BTD

    def flat(self, terms_BTD: Tensor) -> Tensor:
        """What an MLP reads."""
        return terms_BTD.sum(1) if self.apart else terms_BTD.flatten(1)
