"""RoBERTa: BERT trained longer on more text, with new masks at every visit and without predicting the next sentence.

Liu et al. 2019, RoBERTa: a robustly optimized BERT pretraining approach (arXiv:1907.11692). Dynamic masks (section 4.1)
are what canon does everywhere; no next sentence (section 4.2); byte-level BPE (section 4.4) is data.tokenizer =
"byte-bpe"; large batches (section 4.3) are train.batch. The network is BERT's without segments and pooler.
Deviations: a sequence never crosses documents (DOC-SENTENCES, not FULL-SENTENCES); the two position rows that the
published checkpoints reserve are left out here and put back on export. Shapes: as in bert.py.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from canon.config import settings
from canon.systems.pretrained.base import Pretrained, StackConfig
from canon.systems.settings import Positive


@settings
class Config(StackConfig):
    vocab_size: Positive = Field(default=50265, description="tokens of the vocabulary; the data decides")
    eps: Annotated[float, Field(gt=0)] = Field(default=1e-5, description="ε of the norms")


class Roberta(Pretrained):
    framing = "roberta"
    embedding_norm = True
    transforms = True
    segments = 1  # one kind, as published: its row is added everywhere

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.reset()
