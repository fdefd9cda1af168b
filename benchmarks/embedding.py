"""Sentence embeddings beside sentence-transformers, and exact search beside faiss: same machine, threads and vectors.

    python benchmarks/embedding.py [--model FOLDER] [--threads N] [--quick]

| part | ours | opponent |
| --- | --- | --- |
| encode | canon.use.encoder.Encoder | SentenceTransformer.encode, batches of 32; texts of mixed lengths, float32 |
| step | a step of mnrl in one piece, AdamW | MultipleNegativesRankingLoss with AdamW on the same pairs |
| search | canon.use.search.exact | faiss.IndexFlatIP, 64 queries and one, top 10 |
Vectors and results are compared before anything is timed. --model: a folder of sentence-transformers; without it, and
with --quick, a small network of random weights is written. Opponents that are not installed are left out.
"""

from __future__ import annotations

import os
import random
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import common
import numpy as np


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


def encode(model: Path, some: list[str], repeats: int) -> dict[str, Any]:
    from canon.use.encoder import Encoder

    ours = Encoder.open(model)
    work = {"canon": lambda: ours.encode(some).vectors}
    result: dict[str, Any] = {"texts": len(some)}
    if common.installed("sentence_transformers"):
        from sentence_transformers import SentenceTransformer

        theirs = SentenceTransformer(str(model), device="cpu")
        work["sentence-transformers"] = lambda: theirs.encode(some, batch_size=32)
        result["difference"] = float(np.abs(work["canon"]() - work["sentence-transformers"]()).max())
        print(f"encode: vectors differ by {result['difference']:.1e} at most")
    times = common.interleaved(work, repeats=repeats)
    for name, seconds in times.items():
        result[name] = len(some) / min(seconds)
        print(f"encode  {name:24} {result[name]:10,.0f} texts/s")
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
            result[f"{name}, {queries}"] = min(seconds)
            print(f"search  {name:24} {min(seconds) * 1000:10.1f} ms for {queries} queries in {rows:,} x {dim}")
    return result


def main() -> None:
    parser = common.arguments(__doc__)
    parser.add_argument("--model", type=Path, help="a folder of sentence-transformers")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the search")
    parser.add_argument("--texts", type=int, default=2000)
    chosen = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(chosen.threads)
    import torch

    torch.set_num_threads(chosen.threads)
    with tempfile.TemporaryDirectory() as folder:
        model = small_model(Path(folder)) if chosen.quick or chosen.model is None else chosen.model
        some = texts(40 if chosen.quick else chosen.texts, chosen.quick)
        size = 8 if chosen.quick else 64
        repeats = 1 if chosen.quick else 3
        result = {
            "encode": encode(model, some, repeats),
            "step": step(model, list(zip(some[:size], some[size : 2 * size], strict=True)), repeats),
            "search": search(2000 if chosen.quick else chosen.rows, 32 if chosen.quick else 384, repeats),
        }
    packages = ("torch", "numpy", "sentence-transformers", "faiss-cpu")
    common.write_result("embedding", {"threads": chosen.threads, **result}, chosen, packages)


if __name__ == "__main__":
    main()
