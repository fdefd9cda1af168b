"""Translation by torch.nn.Transformer in an ordinary loop, as PyTorch's tutorial has it: one BPE for both languages,
random batches padded to their longest, cross-entropy that ignores padding, Adam."""

# mypy: ignore-errors

from __future__ import annotations

import argparse
import gzip
import math
from pathlib import Path

import torch
from clock import Clock
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

PAD, BOS, EOS = 0, 1, 2
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def read(path: str) -> list[str]:
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8") as file:
        return [line.strip() for line in file]


class Translator(nn.Module):
    def __init__(self, vocab: int, dim: int, layers: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.dim = dim
        self.embedding = nn.Embedding(vocab, dim)
        nn.init.normal_(self.embedding.weight, std=dim**-0.5)
        self.transformer = nn.Transformer(dim, heads, layers, layers, hidden, dropout, batch_first=True)
        self.output = nn.Linear(dim, vocab, bias=False)
        self.output.weight = self.embedding.weight
        self.dropout = nn.Dropout(dropout)
        place = torch.arange(512)[:, None] * torch.exp(torch.arange(0, dim, 2) * (-math.log(10000.0) / dim))
        self.register_buffer("positions", torch.stack([place.sin(), place.cos()], -1).flatten(1))

    def embed(self, tokens: Tensor) -> Tensor:
        return self.dropout(self.embedding(tokens) * math.sqrt(self.dim) + self.positions[: tokens.shape[1]])

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1], source.device, torch.bool)
        x = self.transformer(
            self.embed(source),
            self.embed(target),
            tgt_mask=causal,
            src_key_padding_mask=source == PAD,
            tgt_key_padding_mask=target == PAD,
            memory_key_padding_mask=source == PAD,
        )
        return self.output(x)


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("source", "target", "valid_source", "valid_target", "out"):
        parser.add_argument(name)
    numbers = {"steps": 1000, "batch": 128, "dim": 256, "layers": 3, "heads": 4, "hidden": 1024, "vocab": 8000}
    for name, value in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    sides = [read(path) for path in (options.source, options.target)]
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    special = ["[PAD]", "[BOS]", "[EOS]", "[UNK]"]
    learning = trainers.BpeTrainer(vocab_size=options.vocab, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator([*sides[0], *sides[1]], learning)

    def pairs(source: list[str], target: list[str]) -> list[tuple[Tensor, Tensor]]:
        ids = ([torch.tensor(one.ids) for one in tokenizer.encode_batch(side)] for side in (source, target))
        ends = torch.tensor([BOS]), torch.tensor([EOS])
        return [(torch.cat((s, ends[1])), torch.cat((ends[0], t, ends[1]))) for s, t in zip(*ids, strict=True)]

    def collate(rows: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        source, target = zip(*rows, strict=True)
        return pad_sequence(source, True, PAD), pad_sequence(target, True, PAD)

    loader = DataLoader(pairs(*sides), options.batch, shuffle=True, collate_fn=collate, drop_last=True)
    sizes = options.dim, options.layers, options.heads, options.hidden
    network = Translator(tokenizer.get_vocab_size(), *sizes, dropout=0.1).to(DEVICE)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, betas=(0.9, 0.98))
    criterion = nn.CrossEntropyLoss(ignore_index=PAD)
    clock = Clock()
    step = 0
    network.train()
    while step < options.steps:
        for source, target in loader:
            source, target = source.to(DEVICE), target.to(DEVICE)
            with torch.autocast("cuda", torch.bfloat16, enabled=DEVICE.type == "cuda"):
                logits = network(source, target[:, :-1])
                loss = criterion(logits.flatten(0, 1), target[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            clock.tick()
            step += 1
            if step % 50 == 0:
                print(step, loss.item(), flush=True)
            if step == options.steps:
                break
    network.eval()
    total = count = 0.0
    with torch.no_grad():
        for source, target in DataLoader(
            pairs(read(options.valid_source), read(options.valid_target)), options.batch, collate_fn=collate
        ):
            source, target = source.to(DEVICE), target.to(DEVICE)
            logits = network(source, target[:, :-1])
            tokens = (target[:, 1:] != PAD).sum().item()
            total += criterion(logits.flatten(0, 1), target[:, 1:].flatten()).item() * tokens
            count += tokens
    Path(options.out).mkdir(parents=True, exist_ok=True)
    torch.save(network.state_dict(), Path(options.out) / "model.pt")
    clock.report(loss=total / count)


if __name__ == "__main__":
    main()
