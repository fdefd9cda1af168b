"""A training step of ELMo, words per second: `python benchmarks/elmo.py [--preset small] [--device cpu]`.

Work: one window of B streams × T words (the words of Python's documentation, drawn as they come), forward and backward
passes of the network without the softmax, which is alike in both. Candidates: canon's (the characters' network on
different words, both directions at once, gradients of weights as one product), and the plain way of the published code
and its successors: the characters' network on every word, each direction by itself, step by step in torch's autograd.
Both have the same weights; that they agree is asserted before the clock starts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from common import SMALL, arguments, interleaved, show_ratios, summary, write_result
from torch import Tensor

import canon
from canon import recipe as recipes
from canon.nn.ragged import Layout
from canon.systems.pretrained.elmo import ELMo
from canon.training.data import read_data


def plain(network: ELMo, token_BT: Tensor) -> Tensor:
    """[2, B, T, P] of the last layer, both directions over the same words."""
    x_BTP = network.words(network.characters[token_BT.flatten()]).view(*token_BT.shape, -1)
    layers: list[Any] = list(network.layers)
    sides = []
    for direction in range(2):
        layer_input = x_BTP if direction == 0 else x_BTP.flip(1)
        for number, layer in enumerate(layers):
            hidden = x_BTP.new_zeros(len(token_BT), layer.projection)
            cell = x_BTP.new_zeros(len(token_BT), layer.hidden)
            outputs = []
            for x_BP in layer_input.unbind(1):
                sums = torch.nn.functional.linear(x_BP, layer.input_weight[direction], layer.bias[direction])
                sums = sums + hidden @ layer.recurrent_weight[direction].T
                let_in, forget, new, let_out = sums.chunk(4, dim=1)
                cell = torch.sigmoid(forget) * cell + torch.sigmoid(let_in) * torch.tanh(new)
                cell = cell.clamp(-layer.clips[0], layer.clips[0])
                hidden = (torch.sigmoid(let_out) * torch.tanh(cell)) @ layer.projection_weight[direction].T
                hidden = hidden.clamp(-layer.clips[1], layer.clips[1])
                outputs.append(hidden)
            stacked = torch.stack(outputs, 1)
            layer_input = stacked + layer_input if number else stacked
        sides.append(layer_input if direction == 0 else layer_input.flip(1))
    return torch.stack(sides)


def ours(network: ELMo, token_BT: Tensor) -> Tensor:
    layout = Layout(torch.full((len(token_BT),), token_BT.shape[1]), token_BT.device)
    return network.encode(token_BT.flatten(), layout)[-1]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--preset", default="small")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--window", type=int, default=20)
    options = parser.parse_args()
    if options.quick:
        options.preset, options.batch, options.window = "tiny", 4, 5
    device = torch.device(options.device)
    data = read_data(recipes.load("pretrained/elmo", str(SMALL / "text.txt") if options.quick else ""))
    vocabulary = data.schema.tokenizers["text"].vocabulary
    torch.manual_seed(0)
    network = canon.create(f"elmo:{options.preset}", vocab_size=len(vocabulary), softmax_words=4, dropout=0.0)
    network.take_vocabulary(vocabulary)
    network.to(device)
    tokens = np.asarray(data.splits["train"]["input"].tokens)  # type: ignore[union-attr]
    size = options.batch * options.window
    rows = torch.from_numpy(tokens[: 2 * size].astype(np.int64))
    token_BT = rows[rows != 3][:size].view(options.batch, options.window).to(device)  # words alone
    with torch.no_grad():
        expected = plain(network, token_BT)
        torch.testing.assert_close(
            ours(network, token_BT), torch.cat(tuple(expected.flatten(1, 2)), 1), rtol=1e-3, atol=1e-4
        )

    def step(run: Callable[[ELMo, Tensor], Tensor]) -> Callable[[], None]:
        def once() -> None:
            network.zero_grad()
            run(network, token_BT).square().sum().backward()
            if device.type == "cuda":
                torch.cuda.synchronize()

        return once

    repeats = 1 if options.quick else 5
    times = summary(interleaved({"canon": step(ours), "plain": step(plain)}, repeats=repeats))
    ratios = show_ratios(times, "plain")
    for row in times.values():
        row["words_per_second"] = round(size / row["median_s"])
    different = len(token_BT.unique())
    result = {"preset": options.preset, "words": size, "different": different, "seconds": times, "ratios": ratios}
    write_result("elmo" if device.type == "cpu" else f"elmo-{device.type}", result, options, packages=("torch",))


if __name__ == "__main__":
    main()
