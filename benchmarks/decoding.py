"""Decoding against transformers' generate: canon's Transformer and MarianMT with the same weights and the same output.

    python benchmarks/decoding.py [--preset base] [--vocab 8000] [--run RUN] [--rounds 5] [--quick]

Greedy and beam 4 (no length penalty, which the two define differently), 1 and 32 sentences at a time, from token ids
to token ids. Weights are random, but logits are as sure of themselves as trained ones are, and the row of <eos> is
fitted so that sentences end after about as many tokens as they began with. With --run the weights are those of a
trained run, and the sentences the first of its test set.
Target: at least 3 × transformers on two cores of a CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from common import arguments, installed, interleaved, show_ratios, summary, write_result
from torch import Tensor

from canon import registry
from canon.nn import decoding
from canon.nn.decoding import BOS, EOS
from canon.nn.frozen import frozen
from canon.nn.ragged import Layout
from tests.parity.huggingface import marian_of

SENTENCES = 32
_SHARPER = 4


class Case(NamedTuple):
    network: Any
    config: Any
    sentences: list[Tensor]  # token ids of each source


def random_case(preset: str, vocab: int, seed: int = 0) -> Case:
    """A random Transformer and random sentences, about as long as those of Multi30k."""
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    system, _ = registry.find("transformer")
    config = system.configure(
        preset, {"source_vocab": vocab, "target_vocab": vocab, "shared_vocab": True, "dropout": 0.0}
    )
    network = system.load()[1](config).eval()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if "embedding" not in name:  # so that tokens do not just repeat themselves
                parameter.add_(
                    torch.randn(parameter.shape, generator=generator) * 0.3 * parameter.std().nan_to_num(0.1)
                )
        last = network.decoder.blocks[-1].feed_forward_norm  # the logits come after it
        for parameter in last.parameters():
            parameter.mul_(_SHARPER)
    lengths = (13 + 4 * torch.randn(SENTENCES, generator=generator)).round().clamp(5, 30).long()
    sentences = [torch.randint(4, vocab, (int(length),), generator=generator) for length in lengths]
    _teach_to_end(network, sentences, lengths)
    return Case(network, config, sentences)


@torch.no_grad()
def _teach_to_end(network: Any, sentences: list[Tensor], lengths: Tensor) -> None:
    """Fits the row of <eos>, by ridge regression on greedy outputs, to be the largest from each one's length on."""
    outputs: list[Tensor] = []
    steps, source = 2 * int(lengths.max()), Layout(torch.tensor([len(sentence) for sentence in sentences]))
    start = _start(network, sentences, steps)._replace(eos=-1, forbid=(EOS,))
    token_BT = decoding.greedy(network.step, start, shrink=False).tokens[:, 0]
    handle = network.decoder.norm.register_forward_hook(lambda _module, _inputs, output: outputs.append(output))
    target = Layout(torch.full((len(sentences),), steps))
    network(torch.cat(sentences), source, F.pad(token_BT[:, :-1], (1, 0), value=BOS).flatten(), target)
    handle.remove()
    x_TBD = outputs[0].unflatten(0, token_BT.shape).transpose(0, 1)
    highest_TB = network.source_embedding.logits(x_TBD).amax(-1)
    late_TB = 2 * (torch.arange(len(x_TBD))[:, None] - lengths + 0.5).clamp(-5, 5)
    x, wanted = x_TBD.flatten(0, 1).double(), (highest_TB + late_TB).flatten().double()
    gram = x.T @ x + 1e-3 * len(x) * torch.eye(x.shape[1], dtype=torch.float64)
    network.source_embedding.weight[EOS] = torch.linalg.solve(gram, x.T @ wanted).float()


def run_case(path: str) -> Case:
    """A trained Transformer and the first sentences of its test set."""
    from canon.training.data import read_data
    from canon.use.model import load

    model = load(path)
    source: Any = read_data(model.run.recipe, model.run.path).splits["test"]["input"]
    sentences = [torch.from_numpy(source[row]).long() for row in range(min(SENTENCES, len(source)))]
    return Case(model.network.eval().cpu(), model.run.recipe.config, sentences)


def _start(network: Any, sentences: list[Tensor], limit: int) -> decoding.Start:
    layout = Layout(torch.tensor([len(sentence) for sentence in sentences]))
    return decoding.begin(network, torch.cat(sentences), layout, ratio=0, extra=limit, forbid=())


def ours(case: Case, width: int, batch: int, limit: int) -> list[list[int]]:
    outputs: list[list[int]] = []
    with frozen(case.network):
        for first in range(0, len(case.sentences), batch):
            sentences = case.sentences[first : first + batch]
            start = _start(case.network, sentences, limit)
            decoded = decoding.beam(case.network.step, start, width, length_penalty=0.0)
            outputs += [decoded[row, 0] for row in range(len(sentences))]
    return outputs


def theirs(case: Case, marian: Any, width: int, batch: int, limit: int) -> list[list[int]]:
    outputs: list[list[int]] = []
    for first in range(0, len(case.sentences), batch):
        sentences = case.sentences[first : first + batch]
        layout = Layout(torch.tensor([len(sentence) for sentence in sentences]))
        rows = marian.generate(
            layout.pad(torch.cat(sentences)),
            attention_mask=layout.mask.long(),
            max_new_tokens=limit,
            num_beams=width,
            do_sample=False,
            **({"length_penalty": 0.0, "early_stopping": False} if width > 1 else {}),
        )
        for row in rows[:, 1:].tolist():
            outputs.append(row[: row.index(EOS)] if EOS in row else row)
    return outputs


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--preset", default="base")
    parser.add_argument("--vocab", type=int, default=8000)
    parser.add_argument("--run", default="")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--singles", type=int, default=8, help="sentences that are decoded one at a time")
    options = parser.parse_args()
    if options.quick:
        options.preset, options.vocab, options.rounds, options.singles = "tiny", 200, 1, 2

    case = run_case(options.run) if options.run else random_case(options.preset, options.vocab)
    marian = None
    if installed("transformers"):
        marian = marian_of(case.network, case.config)
        marian.generation_config.bad_words_ids = None
    limit = 2 * max(len(sentence) for sentence in case.sentences)
    results: dict[str, Any] = {}
    for width in (1, 4):
        for batch in (1, SENTENCES):
            chosen = case._replace(sentences=case.sentences[: options.singles]) if batch == 1 else case
            name = f"{'greedy' if width == 1 else f'beam {width}'}, batch {batch}"
            calls: dict[str, Callable[[], list[list[int]]]] = {"canon": partial(ours, chosen, width, batch, limit)}
            if marian is not None:
                calls["transformers"] = partial(theirs, chosen, marian, width, batch, limit)
            answers = {side: call() for side, call in calls.items()}
            lengths = [len(answer) for answer in answers["canon"]]
            print(f"{name}: {len(lengths)} sentences, {np.mean(lengths):.1f} tokens on average, {max(lengths)} at most")
            seconds = summary(interleaved(calls, repeats=options.rounds, warmup=0))
            ratios = show_ratios(seconds, list(seconds)[-1])
            results[name] = {
                "seconds": seconds,
                "sentences": len(lengths),
                "tokens": sum(lengths),
                "longest": max(lengths),
            }
            if marian is not None:
                equal = sum(one == other for one, other in zip(*answers.values(), strict=True))
                print(f"outputs equal: {equal} of {len(lengths)}", flush=True)
                results[name] |= {"ratio": round(ratios["canon"], 2), "equal_outputs": equal}
    settings = {key: getattr(case.config, key) for key in ("source_vocab", "dim", "num_layers", "num_heads", "hidden")}
    result = {
        "run": options.run,
        "settings": settings,
        "threads": torch.get_num_threads(),
        "rounds": options.rounds,
        "results": results,
    }
    write_result("decoding", result, options, packages=("torch", "transformers"))


if __name__ == "__main__":
    main()
