"""Pre-training text to tokens on disk by one process and by one for each core, and what a training step waits for it:
`python benchmarks/input.py [--text FILE] [--megabytes N] [--quick]`.

1. `canon.data.corpus.token_store.stored` builds the same files with 1, 2, 4 … processes; their bytes are compared.
2. From the files, mapped into memory: how long the loader takes for a batch of 32 passages of 1,024 tokens, composed
   for causal language modelling, which is what a training step has for it in the background.
Without --text: the running Python's own source.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
from common import arguments, own_cache, write_result


def text_of(options: object, folder: Path) -> Path:
    """So many megabytes of text, repeated where there is less."""
    size = 1 << 18 if options.quick else options.megabytes << 20  # type: ignore[attr-defined]
    given = options.text  # type: ignore[attr-defined]
    sources = [Path(given)] if given else sorted(Path(os.__file__).parent.glob("*.py"))
    content = "\n\n".join(path.read_text(encoding="utf-8") for path in sources)
    target = folder / "text.txt"
    target.write_text((content * (size // len(content) + 1))[:size], encoding="utf-8")
    return target


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--text", default="", help="a file of text")
    parser.add_argument("--megabytes", type=int, default=64)
    options = parser.parse_args()
    os.environ["RAYON_NUM_THREADS"] = "1"  # of the tokenizers library, so that one process is one thread

    from canon import recipe
    from canon.data.batching.composer import Composer
    from canon.data.batching.draws import Draws
    from canon.data.corpus import token_blocks, token_store
    from canon.data.corpus.text_blocks import TextStream
    from canon.data.text.tokenizers import Tokenizer

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = text_of(options, folder)
        texts = TextStream((path,))
        start = path.read_text(encoding="utf-8")[: 1 << 20 if options.quick else 1 << 23]
        tokenizer = Tokenizer.train([start], "byte-bpe", 400 if options.quick else 16000, mask=True)
        encoder = token_blocks.TextEncoder(tokenizer)
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        if options.quick:
            token_blocks.BATCH, cores = 1 << 15, 2
        counts = [1, *(count for count in (2, 4, 8, 16, 32) if count <= cores)]
        rates: dict[int, float] = {}
        digests = set()
        for count in counts:
            os.environ |= own_cache(folder / str(count))
            token_blocks.num_threads = partial(int, count)
            begun = time.perf_counter()
            store = token_store.stored(texts, encoder)
            seconds = time.perf_counter() - begun
            rates[count] = store.counts.tokens / seconds
            arrays = (store.tokens, store.begins, store.sentences, store.documents)
            digests.add(hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest())
            print(f"{count:3d} processes: {rates[count]:12,.0f} tokens/s   {rates[count] / rates[1]:.2f} × one")
        assert len(digests) == 1, "the files differ"
        print(f"The files are the same, byte by byte: {store.counts.tokens:,} tokens.")

        passages = store.passages(64 if options.quick else 1022, encoder)
        composer = Composer(recipe.load("gpt2:small").objective.create(), passages, 0)
        size = min(32, len(passages))
        order = np.random.default_rng(0).permutation(len(passages))
        begun, tokens, batches = time.perf_counter(), 0, 0
        while time.perf_counter() - begun < (0.2 if options.quick else 5):
            rows = np.take(order, np.arange(batches * size, (batches + 1) * size), mode="wrap")
            tokens += len(composer(rows, np.arange(size), Draws(0, batches))["input"])
            batches += 1
        read = tokens / (time.perf_counter() - begun)
        print(f"reading batches of {size}: {read:,.0f} tokens/s by one thread")
    write_result("input", {"tokens_per_second": rates, "reading": round(read)}, options, ("tokenizers",))


if __name__ == "__main__":
    main()
