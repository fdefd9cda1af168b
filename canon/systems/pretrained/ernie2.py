"""ERNIE 2.0: BERT's network trained on several tasks in one run, about words and the structure of documents.

Sun et al. 2020, ERNIE 2.0: a continual pre-training framework for language understanding (arXiv:1907.12412). Figure 3:
token + position + segment + task embeddings → `TaskEmbeddings`; one stack for all tasks, a head for each: tokens hidden
in spans (BERT's head), whether a token comes elsewhere in its document → `relation`, the order of shuffled segments (9)
→ `order`, how far two texts are apart (3) → `distance`; the last two from tanh(W h_CLS). What the tasks ask for, and
which one a step is of: data/batching/several_tasks.py. Section 3.2: tasks join one after the other and none is dropped
→ `objective.stage`. Sizes are BERT's: base L=12 D=768 H=12, large L=24 D=1024 H=16.
Deviations: continual.py's; task embeddings are of the tasks that are trained, and fine-tuning has the first one's.
Shapes: N tokens of B sequences, M to fill in, R whose relation is asked for, D features.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn

from canon.config import settings
from canon.data.batching.several_tasks import ORDERS
from canon.nn.packed import Linear
from canon.nn.ragged import Layout
from canon.nn.token_loss import TokenLoss
from canon.pretexts import TaskName
from canon.systems.pretrained.base import Embeddings, Outputs, Pretrained, StackConfig


@settings
class Config(StackConfig):
    eps: float = Field(default=1e-12, description="ε of the norms", gt=0)
    tasks: tuple[TaskName, ...] = Field(
        default=("masked", "relation", "order", "distance"),
        min_length=1,
        description="what there are embeddings and heads for; the objective decides",
    )


class TaskEmbeddings(Embeddings):
    def __init__(self, config: Config) -> None:
        super().__init__(config, segments=2, norm=True)
        self.task = nn.Embedding(len(config.tasks), config.dim)

    def forward(
        self,
        token_N: Tensor,
        layout: Layout,
        segment_N: Tensor | None = None,
        more_ND: Tensor | None = None,
        vectors_KD: Tensor | None = None,
    ) -> Tensor:
        """Without tasks (more_ND) all is the first one's."""
        more_ND = self.task.weight[0] if more_ND is None else more_ND
        return super().forward(token_N, layout, segment_N, more_ND, vectors_KD)


class Ernie2(Pretrained):
    segments = 2
    embedding_norm = True
    transforms = True

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.embedding: TaskEmbeddings = TaskEmbeddings(config)
        self.pooler = Linear(config.dim, config.dim)
        sizes = {"relation": 2, "order": len(ORDERS), "distance": 3}
        self.heads = nn.ModuleDict({n: Linear(config.dim, sizes[n]) for n in config.tasks if n in sizes})
        self.reset()

    def forward(
        self,
        token_N: Tensor,
        layout: Layout,
        *,
        segment_N: Tensor | None = None,
        places_M: Tensor | None = None,
        task_B: Tensor | None = None,
        relation_R: Tensor | None = None,
    ) -> Outputs:
        """As `Pretrained.forward`, and of its tasks: order [B, 9], distance [B, 3], relation [R, 2] at `relation_R`.

        task_B: the number of each sequence's task; None: the first.
        """
        more_ND = None if task_B is None else self.embedding.task(task_B).index_select(0, layout.rows)
        hidden_ND = self.layers(self.embedding(token_N, layout, segment_N, more_ND), layout, self.causal)
        outputs, pooled_BD = self.predict(hidden_ND, layout, places_M), self.pool(hidden_ND, layout)
        for name, head in self.heads.items():
            if name != "relation":
                outputs[name] = head(pooled_BD)
            elif relation_R is not None:
                outputs[name] = head(hidden_ND.index_select(0, relation_R))
        return outputs

    def token_losses(self, hidden_MD: Tensor, target_M: Tensor, share_M: Tensor | None = None) -> TokenLoss:
        """A step whose task fills in nothing has the loss 0. With it go all heads, times 0: a step is of one task, and
        several processes wait for the gradient of every parameter."""
        parts = [part for part in (self.head, self.pooler, self.heads) if part is not None]
        idle = 0.0 * sum((p.sum() for part in parts for p in part.parameters()), start=hidden_MD.new_zeros(()))
        if not len(target_M):
            empty_M = hidden_MD.new_zeros(0, dtype=torch.float32)
            return TokenLoss(idle, empty_M, empty_M.bool())
        losses = super().token_losses(hidden_MD, target_M, share_M)
        return losses._replace(total=losses.total + idle)

    def pool(self, hidden_ND: Tensor, layout: Layout) -> Tensor:
        """tanh(W h + b) of the first token."""
        return torch.tanh(self.pooler(super().pool(hidden_ND, layout)))
