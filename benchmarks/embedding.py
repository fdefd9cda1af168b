"""Training of sentence embeddings beside sentence-transformers, exact search beside faiss, and the memory of encoding.

    python benchmarks/embedding.py [--parts step search memory] [--model FOLDER] [--threads N] [--quick]

| part | ours | opponent |
| --- | --- | --- |
| step | a step of mnrl in one piece, AdamW | MultipleNegativesRankingLoss with AdamW on the same pairs |
| search | canon.use.search.exact | faiss.IndexFlatIP, 64 queries and one, top 10 |
| memory | `canon encode` of 10⁶ short lines by a network of 2 layers by 16, in a process of its own | |
Results of a search are compared before it is timed. --model: a folder of sentence-transformers; without it, and with
--quick, a small network of random weights is written. Opponents that are not installed are left out. How fast texts are
encoded is measured by encoding.py.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import common
import numpy as np

PARTS = ("step", "search", "memory")


def texts(count: int, quick: bool) -> list[str]:
    """Words of the small texts in sentences of 3 to 60 words, most of them short."""
    draw = random.Random(0)
    words = (common.SMALL / "documents.txt").read_text(encoding="utf-8").split()
    longest = 12 if quick else 60
    return [" ".join(draw.choices(words, k=min(3 + int(draw.expovariate(1 / 12)), longest))) for _ in range(count)]


def small_model(folder: Path) -> Path:
    from canon.training.trainer import train
    from canon.use.export import convert

    changes = {"data.source": str(common.SMALL / "triples.csv"), "train.steps": 1, "train.device": "cpu"}
    train("embed:tiny", out=folder / "run", quiet=True, changes={**changes, "system.normalize": True})
    convert(str(folder / "run"), folder / "model", "sentence-transformers")
    return folder / "model"


def memory(folder: Path, lines: int) -> dict[str, Any]:
    """The most memory that `canon encode` has had, with a small network and so many short lines."""
    model, file = small_model(folder), folder / "lines.txt"
    with file.open("w", encoding="utf-8") as opened:
        opened.writelines(f"the cat number {number} eats grass\n" for number in range(lines))
    command = [sys.executable, "-m", "canon", "encode", str(model), str(file), "--out", str(folder / "vectors")]
    start = time.perf_counter()
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(common.ROOT)}, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} failed")
    result = {
        "lines": lines,
        "gigabytes": used.ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e9,
        "seconds": time.perf_counter() - start,
        "processor_seconds": used.ru_utime + used.ru_stime,
    }
    print(
        f"memory  {result['gigabytes']:.2f} GB at most, {lines:,} lines, {result['processor_seconds']:.0f} s of a core"
    )
    return result


def step(model: Path, pairs: list[tuple[str, str]], repeats: int) -> dict[str, Any]:
    """Seconds of a training step on all pairs."""
    import torch

    from canon.data.encodings.framing_rows import encode_texts
    from canon.data.encodings.texts import keys_of
    from canon.data.formats.rows import TextRows
    from canon.nn.ragged import Layout
    from canon.objectives.sentences import MultipleNegatives
    from canon.objectives.settings import OtherTexts
    from canon.use.encoder import Encoder

    ours = Encoder.open(model)
    ours.network.train()
    optimizer = torch.optim.AdamW(ours.network.parameters(), lr=1e-6)
    flat = [text for pair in pairs for text in pair]
    keys = torch.from_numpy(keys_of(flat).reshape(-1, 2))
    loss = MultipleNegatives(OtherTexts())

    def canon_step() -> float:
        framed, _ = encode_texts(ours.schema.tokenizers["text"], ours.schema, TextRows("", str, flat))
        token_N = torch.from_numpy(framed.tokens_N.astype(np.int64))
        vectors = ours.network(token_N, Layout(torch.from_numpy(framed.lengths_S))).view(len(pairs), 2, -1)
        total = loss.total(vectors, {"keys": keys}, (0, len(pairs))) / len(pairs)
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        return total.item()

    work = {"canon": canon_step}
    if common.installed("sentence_transformers"):
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

        network = SentenceTransformer(str(model), device="cpu")
        network.train()
        theirs = MultipleNegativesRankingLoss(network)
        other = torch.optim.AdamW(network.parameters(), lr=1e-6)

        def their_step() -> float:
            features = [network.preprocess([pair[side] for pair in pairs]) for side in (0, 1)]
            total = theirs(features, None)
            other.zero_grad()
            total.backward()
            other.step()
            return float(total.item())

        work["sentence-transformers"] = their_step
    result: dict[str, Any] = {"pairs": len(pairs)}
    for name, seconds in common.interleaved(work, repeats=repeats).items():
        result[name] = min(seconds)
        print(f"step    {name:24} {min(seconds):10.3f} s")
    return result


def processor_time(call: Callable[[], Any]) -> float:
    """Seconds that this process has computed for, whatever else the machine does."""
    start = time.process_time()
    call()
    return time.process_time() - start


def search(rows: int, dim: int, repeats: int) -> dict[str, Any]:
    from canon.use.search.exact import exact

    draw = np.random.default_rng(0)
    vectors = draw.normal(size=(rows, dim)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    result: dict[str, Any] = {"rows": rows, "dim": dim}
    for queries in (64, 1):
        asked = vectors[:queries] + 0.1 * draw.normal(size=(queries, dim)).astype(np.float32)
        work: dict[str, Any] = {"canon": partial(exact, vectors, asked, 10)}
        if common.installed("faiss"):
            import faiss

            index = faiss.IndexFlatIP(dim)
            index.add(vectors)
            work["faiss"] = lambda asked=asked, index=index: index.search(asked, 10)[1]
            same = float((work["canon"]()[0] == work["faiss"]()).mean())
            print(f"search: {same:.1%} of the results are the same rows in the same order")
        for name, seconds in common.interleaved(work, repeats=repeats).items():
            own = min(processor_time(work[name]) for _ in range(repeats))
            result[f"{name}, {queries}"] = {"seconds": min(seconds), "processor_seconds": own}
            took = f"{min(seconds) * 1000:10.1f} ms, {own * 1000:10.1f} ms of a processor"
            print(f"search  {name:24} {took}, {queries} queries in {rows:,} x {dim}")
    return result


def main() -> None:
    parser = common.arguments(__doc__)
    parser.add_argument("--model", type=Path, help="a folder of sentence-transformers")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the search")
    parser.add_argument("--lines", type=int, default=1_000_000, help="of the part memory")
    parser.add_argument("--parts", nargs="+", default=[*PARTS], choices=PARTS)
    chosen = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(chosen.threads)
    import torch

    torch.set_num_threads(chosen.threads)
    repeats = 1 if chosen.quick else 3
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        if "step" in chosen.parts:
            model = small_model(Path(folder) / "step") if chosen.quick or chosen.model is None else chosen.model
            size = 8 if chosen.quick else 64
            some = texts(2 * size, chosen.quick)
            result["step"] = step(model, list(zip(some[:size], some[size:], strict=True)), repeats)
        if "search" in chosen.parts:
            result["search"] = search(2000 if chosen.quick else chosen.rows, 32 if chosen.quick else 384, repeats)
        if "memory" in chosen.parts:
            result["memory"] = memory(Path(folder), 3000 if chosen.quick else chosen.lines)
    packages = ("torch", "numpy", "sentence-transformers", "faiss-cpu")
    common.write_result("embedding", {"threads": chosen.threads, **result}, chosen, packages)


if __name__ == "__main__":
    main()
