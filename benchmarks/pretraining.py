"""BERT and GPT-2 against transformers: `python benchmarks/pretraining.py`.

Whole training steps (forward, loss, backward, fused AdamW), one after the other in one process. On a GPU BERT-base and
GPT-2 124 M in bfloat16, both compiled; on a CPU bert:tiny and bert:small in float32, not compiled. BERT's batches have
realistic lengths, on average 59 % of the longest, or as full as the passages that canon makes of a corpus, 85 to 90 %:
transformers pads them, canon does not. GPT-2 reads 32 texts of 1,024
tokens, and without dropout once more beside a network written by hand (opponents/plain_gpt2.py). Padding does not count
as tokens; the peak memory is measured for each network alone.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import torch
import torch.nn.functional as F
from common import arguments, installed, write_result
from torch import Tensor, nn

import canon
from canon import registry
from canon.nn.compiling import compile_parts
from canon.nn.ragged import Layout, layout_of
from canon.systems.pretrained import gpt2
from canon.training.graphs import Graphs
from tests.parity.huggingface import transformers_module

PEAK = 989.5e12  # of an H200 in bfloat16, by its data sheet
SHARE = 0.15
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
ON_CUDA = DEVICE.type == "cuda"
Step = Callable[[int], Tensor]


def lengths(batch: int, longest: int, fill: float) -> Tensor:
    """Uniform with the mean fill · longest, up to the longest."""
    evenly = torch.linspace(2 * fill - 1, 1.0, batch).mul(longest).round().long()
    return evenly[torch.randperm(batch)]


def batches(batch: int, longest: int, fill: float, vocabulary: int, count: int) -> list[dict[str, Any]]:
    data = []
    for _ in range(count):
        layout = Layout(lengths(batch, longest, fill), DEVICE)
        token_N = torch.randint(1000, vocabulary, (layout.total,), device=DEVICE)
        places_M = (torch.rand(layout.total, device=DEVICE) < SHARE).nonzero()[:, 0]
        data.append(
            {
                "input": token_N,
                "input_lengths": layout.lengths,
                "places": places_M,
                "target": token_N[places_M],
                "next": torch.randint(0, 2, (batch,), device=DEVICE),
                "segment": torch.zeros_like(token_N),
            }
        )
    return data


def stepper(network: nn.Module, loss: Callable[[Any], Tensor], data: list[dict[str, Any]], longest: int = 0) -> Step:
    """longest: if not 0, forward and backward pass are CUDA graphs on a GPU, as in the trainer."""
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, fused=True)

    def work(batch: Any) -> Tensor:
        with torch.autocast(DEVICE.type, torch.bfloat16, enabled=ON_CUDA):
            total = loss(batch)
        total.backward()
        return total.detach()

    graphs = Graphs(work, [*network.parameters()], longest, of_sequences=("next",)) if longest and ON_CUDA else None
    if graphs is not None:
        graphs.prepare(data)

    def step(index: int) -> Tensor:
        batch = data[index % len(data)]
        if graphs is None:
            value = work(batch)
        else:
            graphs.begin()
            value = graphs(batch)
        optimizer.step()
        if graphs is None:
            optimizer.zero_grad(set_to_none=True)
        return value

    return step


def canon_bert(data: list[dict[str, Any]], longest: int, preset: str) -> Step:
    network = canon.create(f"bert:{preset}", vocab_size=30522).to(DEVICE)
    if ON_CUDA:
        compile_parts(network)

    def loss(one: dict[str, Any]) -> Tensor:
        out = network(one["input"], layout_of(one), segment_N=one["segment"], places_M=one["places"])
        total = network.token_losses(out["hidden"], one["target"]).total
        return total / (one["target"] >= 0).sum() + F.cross_entropy(out["next"].float(), one["next"], ignore_index=-100)

    return stepper(network, loss, data, longest)


def their_bert(data: list[dict[str, Any]], longest: int, preset: str) -> Step:
    library = transformers_module()
    sizes = registry.find("bert")[0].presets[preset]
    names = {
        "dim": "hidden_size",
        "num_layers": "num_hidden_layers",
        "num_heads": "num_attention_heads",
        "hidden": "intermediate_size",
    }
    config = library.BertConfig(attn_implementation="sdpa", **{names[key]: value for key, value in sizes.items()})
    network = library.BertForPreTraining(config).to(DEVICE)
    model = torch.compile(network) if ON_CUDA else network
    grids = []
    for one in data:
        layout = layout_of(one)
        labels = torch.full_like(one["input"], -100)
        labels[one["places"]] = one["target"]

        def pad(x: Tensor, fill: int = 0, layout: Layout = layout) -> Tensor:
            return F.pad(layout.pad(x, fill), (0, longest - layout.max_length), value=fill)

        grids.append(
            {
                "input_ids": pad(one["input"]),
                "attention_mask": pad(torch.ones_like(one["input"])),
                "token_type_ids": pad(one["segment"]),
                "labels": pad(labels, -100),
                "next_sentence_label": one["next"],
            }
        )
    return stepper(network, lambda one: model(**one).loss, grids)


def canon_gpt2(token_BT: Tensor, dropout: float = 0.1) -> Step:
    network = gpt2.GPT2(gpt2.Config(dropout=dropout, attention_dropout=dropout)).to(DEVICE)
    compile_parts(network)
    batch, length = token_BT.shape
    one = {
        "input": token_BT.flatten(),
        "input_lengths": torch.full((batch,), length),
        "places": torch.arange(batch * length, device=DEVICE).view(batch, length)[:, :-1].flatten(),
        "target": token_BT[:, 1:].flatten(),
    }

    def loss(one: dict[str, Any]) -> Tensor:
        hidden_MD = network(one["input"], layout_of(one), places_M=one["places"])["hidden"]
        return network.token_losses(hidden_MD, one["target"]).total / (batch * (length - 1))

    return stepper(network, loss, [one], length)


def their_gpt2(token_BT: Tensor) -> Step:
    library = transformers_module()
    network = library.GPT2LMHeadModel(library.GPT2Config(attn_implementation="sdpa", use_cache=False)).to(DEVICE)
    model = torch.compile(network)
    return stepper(network, lambda one: model(input_ids=one, labels=one).loss, [token_BT])  # type: ignore[list-item]


def plain_gpt2(token_BT: Tensor) -> Step:
    plain = import_module("opponents.plain_gpt2")
    model = torch.compile(plain.GPT2(positions=token_BT.shape[1]).to(DEVICE))
    return stepper(model, lambda one: model(one), [token_BT])  # type: ignore[arg-type, list-item]


def wait() -> None:
    if ON_CUDA:
        torch.cuda.synchronize()


def timed(make: Callable[[], Step], warm: int, steps: int, rounds: int, tokens: int) -> dict[str, Any]:
    """Tokens per second (median of rounds) and peak memory, with nothing else on the device."""
    gc.collect()
    if ON_CUDA:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        torch._dynamo.reset()
    torch.manual_seed(0)
    begun = time.perf_counter()
    step = make()
    for index in range(warm):
        last = step(index)
    wait()
    start = time.perf_counter() - begun
    rates = []
    for turn in range(rounds):
        wait()
        begun = time.perf_counter()
        for index in range(steps):
            last = step(turn * steps + index)
        wait()
        rates.append(steps * tokens / (time.perf_counter() - begun))
    memory = {"peak_gib": round(torch.cuda.max_memory_reserved() / 2**30, 2)} if ON_CUDA else {}
    return {
        "tokens_per_second": round(statistics.median(rates)),
        "range": [round(min(rates)), round(max(rates))],
        **memory,
        "first_steps_seconds": round(start, 1),
        "loss": round(last.item(), 3),
    }


def flops_bert(data: dict[str, Any]) -> float:
    """FLOPs of a training step without padding: 6 for each weight and token, attention, and the head's places."""
    layout = layout_of(data)
    body = 12 * (4 * 768 * 768 + 2 * 768 * 3072)
    scores = 12 * 12 * 768 * int((layout.lengths**2).sum())
    return 6 * body * layout.total + scores + 6 * len(data["places"]) * 768 * (30522 + 768)


CASES = {  # preset, texts of a batch, the longest, how full they are on average
    "bert-128": ("base", 512, 128, 0.59),
    "bert-128-passages": ("base", 512, 128, 0.875),
    "bert-512": ("base", 128, 512, 0.59),
    "bert-tiny": ("tiny", 32, 128, 0.59),
    "bert-small": ("small", 16, 128, 0.59),
    "quick": ("tiny", 2, 16, 0.59),
}


def main() -> None:
    parser = arguments(__doc__)
    cases = (
        ["bert-128", "bert-128-passages", "bert-512", "gpt2", "gpt2-plain"] if ON_CUDA else ["bert-tiny", "bert-small"]
    )
    parser.add_argument("--only", nargs="*", default=cases, choices=[*CASES, "gpt2", "gpt2-plain"])
    parser.add_argument("--ours", action="store_true", help="leave transformers out")
    options = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    if ON_CUDA:
        torch.backends.cuda.enable_cudnn_sdp(False)  # as the trainer sets it
    warm, steps, rounds = (12, 20, 5) if ON_CUDA else (2, 4, 5)
    if options.quick:
        options.only, (warm, steps, rounds) = ["quick"], (1, 1, 1)
    opponent = not options.ours and installed("transformers")
    results: dict[str, Any] = {}
    for name in options.only:
        if name.startswith("gpt2"):
            token_BT = torch.randint(0, 50257, (32, 1024), device=DEVICE)
            ways: dict[str, Callable[[], Step]] = {
                "canon": partial(canon_gpt2, token_BT),
                "transformers": partial(their_gpt2, token_BT),
            }
            if name == "gpt2-plain":
                ways = {"canon": partial(canon_gpt2, token_BT, 0.0), "by hand": partial(plain_gpt2, token_BT)}
            tokens, each = token_BT.numel(), 6 * (12 * 12 * 768 * 768 + 50257 * 768) + 12 * 12 * 768 * 1024 / 2
        else:
            preset, batch, longest, fill = CASES[name]
            torch.manual_seed(0)
            data = batches(batch, longest, fill, 30522, 4)
            ways = {
                "canon": partial(canon_bert, data, longest, preset),
                "transformers": partial(their_bert, data, longest, preset),
            }
            tokens = len(data[0]["input"])
            each = flops_bert(data[0]) / tokens if preset == "base" else 0.0
        if not opponent:
            ways = {"canon": ways["canon"]}
        measured = {way: timed(make, warm, steps, rounds, tokens) for way, make in ways.items()}
        results[name] = {**compared(name, measured, each), "tokens": tokens}
    device = {"device": torch.cuda.get_device_name() if ON_CUDA else "cpu", "threads": torch.get_num_threads()}
    file = "pretraining-cuda" if ON_CUDA else "pretraining"
    write_result(file, {**device, **results}, options, packages=("torch", "transformers"))


def compared(name: str, measured: dict[str, Any], flops_per_token: float) -> dict[str, Any]:
    """Adds the ratios and the share of the device's peak to the measurements, and prints them."""
    if ON_CUDA and flops_per_token:
        measured["share_of_peak"] = round(measured["canon"]["tokens_per_second"] * flops_per_token / PEAK, 3)
    if other := next((way for way in measured if way not in ("canon", "share_of_peak")), ""):
        ours, theirs = measured["canon"], measured[other]
        measured["ratio"] = round(ours["tokens_per_second"] / theirs["tokens_per_second"], 2)
        if ON_CUDA:
            measured["memory_ratio"] = round(ours["peak_gib"] / theirs["peak_gib"], 2)
    print(name, measured, flush=True)
    return measured


if __name__ == "__main__":
    main()
