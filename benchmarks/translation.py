"""Training on Multi30k against torch.nn.Transformer: `python benchmarks/translation.py` (needs Multi30k in CANON_DATA).

One network (transformer:small, weights copied across, dropout 0.1) trained by two ways in turns: canon's batches of
4,096 target tokens, sentences of similar length together and no padding; and torch's own modules as tutorials use them,
batches of as many sentences drawn at random and padded to the longest. Counted are target tokens that are not padding.
Batches are made before the clock runs, for both: the trainer's loader and torch's make them in the background.
On one batch both have the same loss (checked before anything is timed, without dropout).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from common import SMALL, arguments, write_result
from torch import Tensor, nn

from canon import recipe as recipes
from canon.data.batching.loader import Examples
from canon.data.batching.sequences import Ragged
from canon.data.schema import num_examples
from canon.nn.positions import sinusoids
from canon.nn.ragged import Layout, layout_of
from canon.systems.sequence.transformer import Transformer
from canon.training.data import read_data
from canon.training.graphs import SAMPLES, Graphs
from tests.parity.test_transformer import torch_transformer

TOKENS, DROPOUT = 4096, 0.1


class Padded(nn.Module):
    """torch.nn.Transformer with embeddings and output: what a tutorial writes."""

    def __init__(self, network: Transformer, config: Any) -> None:
        super().__init__()
        self.transformer = torch_transformer(network, config)[0].float()
        self.embedding = nn.Embedding(config.target_vocab, config.dim)
        self.embedding.weight.data.copy_(network.source_embedding.weight)
        self.dropout = nn.Dropout(DROPOUT)
        self.register_buffer("positions", sinusoids(torch.arange(512), config.dim).float())
        for module in self.transformer.modules():
            if isinstance(module, nn.Dropout):
                module.p = DROPOUT
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = 0.0

    def embed(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens) * self.embedding.embedding_dim**0.5
        return self.dropout(x + self.positions[: tokens.shape[1]])  # type: ignore[index]

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1], source.device)
        out = self.transformer(
            self.embed(source),
            self.embed(target),
            tgt_mask=causal,
            tgt_is_causal=True,
            src_key_padding_mask=source == 0,
            tgt_key_padding_mask=torch.zeros_like(target, dtype=causal.dtype).masked_fill(target == 0, -torch.inf),
            memory_key_padding_mask=source == 0,
        )
        return out @ self.embedding.weight.T


def canon_loss(network: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    logits = network(batch["input"], layout_of(batch), batch["target_input"], layout_of(batch, "target"))
    return F.cross_entropy(logits, batch["target"], label_smoothing=0.1)


def padded_loss(network: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    source, given, said = (batch[name] for name in ("source", "given", "said"))
    return F.cross_entropy(network(source, given).transpose(1, 2), said, ignore_index=0, label_smoothing=0.1)


def padded(batch: dict[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    """The same sentences in grids filled up with <pad>."""
    cpu = {name: rows.cpu() for name, rows in batch.items()}
    source, target = (Layout(cpu[f"{name}_lengths"]) for name in ("input", "target"))
    grids = {
        "source": source.pad(cpu["input"]),
        "given": target.pad(cpu["target_input"]),
        "said": target.pad(cpu["target"]),
    }
    return {name: grid.to(device) for name, grid in grids.items()}


def stepper(
    network: nn.Module,
    loss: Callable[[nn.Module, Any], Tensor],
    batches: Iterator[tuple[Any, int]],
    device: torch.device,
    longest: int = 0,
) -> Callable[[], int]:
    optimizer = torch.optim.Adam(network.parameters(), lr=0.0005, betas=(0.9, 0.98), fused=True)

    def work(batch: Any) -> Tensor:
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            total = loss(network, batch)
        total.backward()
        return total.detach()

    # As the trainer does it: on a GPU, forward and backward pass are CUDA graphs.
    graphs = Graphs(work, list(network.parameters()), longest) if longest and device.type == "cuda" else None
    if graphs is not None:
        graphs.prepare([next(batches)[0] for _ in range(SAMPLES)])

    def step() -> int:
        batch, tokens = next(batches)
        if graphs is None:
            optimizer.zero_grad(set_to_none=True)
            work(batch)
        else:
            graphs.begin()
            graphs(batch)
        optimizer.step()
        return tokens

    return step


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cuda":
        torch.backends.cuda.enable_cudnn_sdp(False)  # as the trainer sets it; helps both
    changes = {"system.name": "transformer:small", "system.dropout": 0.0}
    tokens_per_batch = TOKENS
    if options.quick:
        options.steps, options.rounds, tokens_per_batch = 1, 1, 128
        changes |= {"system.name": "transformer:tiny", "data.vocab_size": 60}
    recipe = recipes.load("sequence/multi30k-transformer", str(SMALL / "pairs.tsv") if options.quick else "", changes)
    data = read_data(recipe)
    recipe = recipe.fitted(data.schema.sizes())
    columns = data.splits["train"]
    examples = Examples(columns, data.schema, device)
    order = data.schema.order(columns, 0, tokens_per_batch, seed=0)
    torch.manual_seed(0)
    ours = Transformer(recipe.config).to(device)
    theirs = Padded(ours.cpu(), recipe.config).to(device)
    ours.to(device)
    first = examples.take(order.indices(0))
    with torch.no_grad():
        losses = [canon_loss(ours.eval(), first).item(), padded_loss(theirs.eval(), padded(first, device)).item()]
    assert abs(losses[0] - losses[1]) < 1e-3, losses
    for module in ours.modules():
        if isinstance(module, nn.Dropout):
            module.p = DROPOUT
    ours.train(), theirs.train()
    sentences = round(num_examples(columns) / order.per_epoch)
    draws = np.random.default_rng(0)

    count = options.steps * 2
    longest = max(int(column.lengths.max()) for column in columns.values() if isinstance(column, Ragged))
    composed = [examples.take(order.indices(position)) for position in range(count)]
    other = [
        examples.take(torch.from_numpy(draws.permutation(num_examples(columns))[:sentences])) for _ in range(count)
    ]
    our_batches = cycle([(batch, len(batch["target"])) for batch in composed])
    other_batches = cycle([(padded(batch, device), len(batch["target"])) for batch in other])
    steps = {
        "torch.nn.Transformer, padded": stepper(theirs, padded_loss, other_batches, device),
        "canon": stepper(ours, canon_loss, our_batches, device, longest),
    }
    rates: dict[str, list[float]] = {name: [] for name in steps}
    if device.type == "cuda":
        for _ in range(count):  # every shape once
            steps["canon"]()
    for turn in range(options.rounds + 1):
        for name, step in steps.items():
            _wait(device)
            begun = time.perf_counter()
            tokens = sum(step() for _ in range(options.steps))
            _wait(device)
            if turn:
                rates[name].append(tokens / (time.perf_counter() - begun))
    medians = {name: statistics.median(values) for name, values in rates.items()}
    ratio = medians["canon"] / medians["torch.nn.Transformer, padded"]
    for name, value in medians.items():
        print(f"{name:30s} {value:9,.0f} target tokens/s")
    print(f"ratio {ratio:.2f}×; loss of the first batch {losses[0]:.4f} and {losses[1]:.4f}")
    result = {
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "threads": torch.get_num_threads(),
        "target_tokens_per_second": {name: round(value) for name, value in medians.items()},
        "range": {name: [round(min(values)), round(max(values))] for name, values in rates.items()},
        "ratio": round(ratio, 3),
        "first_loss": losses,
    }
    name = "translation" if device.type == "cpu" else "translation-cuda"
    write_result(name, result, options, packages=("torch",))


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
