"""torch's word_language_model example written out: two LSTM layers, columns of the text, hidden states carried on,
gradients clipped, plain SGD by hand."""

# mypy: ignore-errors

from __future__ import annotations

import argparse
import lzma
from pathlib import Path

import torch
from clock import Clock
from torch import Tensor, nn

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class RNNModel(nn.Module):
    def __init__(self, tokens: int, dim: int, hidden: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(tokens, dim)
        self.rnn = nn.LSTM(dim, hidden, layers, dropout=dropout)
        self.decoder = nn.Linear(hidden, tokens)
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)
        nn.init.uniform_(self.decoder.weight, -0.1, 0.1)

    def forward(self, x: Tensor, hidden: tuple[Tensor, Tensor] | None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        output, hidden = self.rnn(self.drop(self.encoder(x)), hidden)
        return self.decoder(self.drop(output)).flatten(0, 1), hidden


def words(path: str) -> list[str]:
    opened = lzma.open if path.endswith(".xz") else open
    with opened(path, "rt", encoding="utf-8") as file:
        return [word for line in file for word in [*line.split(), "<eos>"]]


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("train", "valid", "out"):
        parser.add_argument(name)
    numbers = {"steps": 1000, "batch": 20, "bptt": 20, "dim": 200, "hidden": 200, "layers": 2}
    for name, value in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    text = words(options.train)
    numbers_of: dict[str, int] = {}
    for word in text:
        numbers_of.setdefault(word, len(numbers_of))

    def batchify(text: list[str], batch: int) -> Tensor:
        ids = torch.tensor([numbers_of.get(word, 0) for word in text])
        return ids[: len(ids) // batch * batch].view(batch, -1).t().contiguous().to(DEVICE)

    train, valid = batchify(text, options.batch), batchify(words(options.valid), 10)
    model = RNNModel(len(numbers_of), options.dim, options.hidden, options.layers, 0.0).to(DEVICE)
    criterion = nn.CrossEntropyLoss()
    clock = Clock()
    step, lr = 0, 20.0
    while step < options.steps:
        hidden = None
        model.train()
        for first in range(0, len(train) - 1, options.bptt):
            data = train[first : first + options.bptt]
            target = train[first + 1 : first + 1 + len(data)]
            data = data[: len(target)]
            model.zero_grad()
            if hidden is not None:
                hidden = tuple(part.detach() for part in hidden)
            output, hidden = model(data, hidden)
            loss = criterion(output, target.flatten())
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.25)
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.add_(parameter.grad, alpha=-lr)
            clock.tick()
            step += 1
            if step % 200 == 0:
                print(step, loss.item(), flush=True)
            if step == options.steps:
                break
    model.eval()
    total, hidden = 0.0, None
    with torch.no_grad():
        for first in range(0, len(valid) - 1, options.bptt):
            target = valid[first + 1 : first + 1 + options.bptt]
            output, hidden = model(valid[first : first + len(target)], hidden)
            total += criterion(output, target.flatten()).item() * len(target)
    Path(options.out).mkdir(parents=True, exist_ok=True)
    torch.save(model.state_dict(), Path(options.out) / "model.pt")
    clock.report(loss=total / (len(valid) - 1))


if __name__ == "__main__":
    main()
