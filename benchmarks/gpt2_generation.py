"""Greedy generation with GPT-2 124 M against transformers' generate: the same weights, the same prompt, one process.

    python benchmarks/gpt2_generation.py [--batch 1] [--length 512] [--rounds 3] [--quick]

Weights are random, but logits are as sure of themselves as trained ones are. Times go from a prompt on the device to
tokens on the host, reading the prompt included; graphs are recorded in a first round that is timed by itself. Ways:
plain (a Python step per token) and graph (canon/nn/graphs.py), each in float32, where all must say the same tokens, and
in bfloat16, where the first tokens that differ are counted (rounding decides between tokens that are almost equally
likely).
Target: 1,500 tokens a second at batch 1 on an H200, and ten times transformers. Without a GPU: plain and unrecorded.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from typing import Any

import torch
from common import arguments, installed, interleaved, summary, write_result
from torch import Tensor

from canon.nn import decoding, graphs
from canon.nn.frozen import frozen
from canon.systems.pretrained import gpt2
from tests.parity.gpt import gpt_of

_SHARPER = 4
_EVERY = 16
_TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def network_of(config: gpt2.Config) -> gpt2.GPT2:
    torch.manual_seed(0)
    network = gpt2.GPT2(config).eval()
    with torch.no_grad():
        network.embedding.position.weight.mul_(10)  # so that tokens do not just repeat themselves
        network.layers.norm.weight.mul_(_SHARPER)  # type: ignore[operator]
    return network


def plain(network: gpt2.GPT2, prompt_BT: Tensor, length: int) -> Tensor:
    with frozen(network):
        start = decoding.begin_text(network, prompt_BT, length, (), -1)
        return decoding.greedy(network.step, start).tokens[:, 0]


def recorded(recorder: graphs.Recorder, prompt_BT: Tensor, length: int) -> Tensor:
    recorder.begin(prompt_BT)
    return torch.cat([recorder.advance()[0] for _ in range(-(-length // _EVERY))])[:length].T


def theirs(model: Any, prompt_BT: Tensor, length: int) -> Tensor:
    mask_BT = torch.ones_like(prompt_BT)
    options = {"do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    tokens_BT = model.generate(
        prompt_BT, attention_mask=mask_BT, max_new_tokens=length, min_new_tokens=length, **options
    )
    return tokens_BT[:, prompt_BT.shape[1] :].cpu()


def kernels(network: gpt2.GPT2, prompt_BT: Tensor) -> int:
    """Of one step, not recorded."""
    recorder = graphs.Recorder(network, len(prompt_BT), prompt_BT.shape[1] + 8, prompt_BT.device, every=2)
    recorder.begin(prompt_BT)
    with torch.no_grad():
        recorder._step(128)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            recorder._step(128)
            torch.cuda.synchronize()
    print(profile.key_averages().table(sort_by="device_time_total", row_limit=16, max_name_column_width=70))
    return sum(event.count for event in profile.key_averages())


def equal_until(tokens: Tensor, wanted: Tensor) -> int:
    """Tokens before the first that differs, of the row where it comes first."""
    same_BT = (tokens == wanted).long().cumprod(1)
    return int(same_BT.sum(1).min())


def measure(name: str, options: argparse.Namespace, config: gpt2.Config, device: torch.device) -> dict[str, Any]:
    network = network_of(config)
    model = gpt_of(network, config).to(device, _TYPES[name])
    network = network.to(device, _TYPES[name])
    generator = torch.Generator().manual_seed(0)
    prompt_BT = torch.randint(1, config.vocab_size, (options.batch, options.prompt), generator=generator).to(device)
    length = options.length
    wanted = theirs(model, prompt_BT, length)
    candidates: dict[str, Callable[[], Any]] = {}
    measured: dict[str, Any] = {}
    for way in options.ways:
        begun = time.perf_counter()
        if way == "plain":
            candidates[way] = lambda: plain(network, prompt_BT, length)
        else:
            capacity = options.prompt + -(-length // _EVERY) * _EVERY
            recorder = graphs.Recorder(network, options.batch, capacity, device, every=_EVERY)
            candidates[way] = lambda recorder=recorder: recorded(recorder, prompt_BT, length)  # type: ignore[misc]
        tokens_BT = candidates[way]()
        measured[way] = {
            "first_seconds": round(time.perf_counter() - begun, 2),
            "equal_tokens": equal_until(tokens_BT, wanted),
        }
    candidates["transformers"] = lambda: theirs(model, prompt_BT, length)
    seconds = summary(interleaved(candidates, repeats=options.rounds, warmup=1))
    for way in candidates:
        rate = options.batch * length / seconds[way]["median_s"]
        ratio = seconds["transformers"]["median_s"] / seconds[way]["median_s"]
        measured[way] = {
            **measured.get(way, {}),
            **seconds[way],
            "tokens_per_second": round(rate, 1),
            "ratio": round(ratio, 2),
        }
        print(f"{name:9s} {way:13s} {rate:9.1f} tokens/s  {ratio:6.2f} × transformers  {measured[way]}", flush=True)
    measured["different_tokens"] = len(wanted.unique())
    if options.kernels and device.type == "cuda":
        measured["kernels_of_a_step"] = kernels(network, prompt_BT)
    return measured


def main() -> None:
    on_cuda = torch.cuda.is_available()
    parser = arguments(__doc__)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--prompt", type=int, default=32)
    parser.add_argument("--length", type=int, default=512 if on_cuda else 64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--types", nargs="+", choices=_TYPES, default=list(_TYPES) if on_cuda else ["float32"])
    parser.add_argument("--ways", nargs="+", choices=("plain", "graph"), default=["plain", "graph"])
    parser.add_argument("--kernels", action="store_true", help="list the kernels of a step (a GPU)")
    options = parser.parse_args()
    config = gpt2.Config()
    if options.quick:
        config = gpt2.Config(vocab_size=199, dim=48, num_layers=2, num_heads=3, hidden=96, max_positions=256)
        options.length, options.rounds = 16, 1
    if not installed("transformers"):
        return  # there is nothing to compare with
    device = torch.device("cuda" if on_cuda else "cpu")
    results: dict[str, Any] = {}
    for name in options.types:
        results[name] = measure(name, options, config, device)
        gc.collect()
    result = {
        "device": torch.cuda.get_device_name() if on_cuda else f"{torch.get_num_threads()} threads",
        "batch": options.batch,
        "prompt": options.prompt,
        "length": options.length,
        **results,
    }
    file = f"gpt2-generation-{device.type}" + (f"-batch{options.batch}" if options.batch > 1 else "")
    write_result(file, result, options, packages=("torch", "transformers"))


if __name__ == "__main__":
    main()
