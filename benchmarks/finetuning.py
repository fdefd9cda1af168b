"""Fine-tuning a pre-trained network beside the same network from random weights and a bag of words.

`python benchmarks/finetuning.py --from RUN --seeds 3 --out runs/finetuning` (needs the sets in CANON_DATA). Every row
is one data set: the mean and the standard deviation over seeds of its metric on the test set, each run an ordinary run
directory OUT/SET/WEIGHTS-SEED that is taken as it is if it is finished. Random weights have the same tokenizer, steps
and data. The bag of words is TF-IDF of words and pairs of words (of Chinese characters) in logistic or ridge
regression; of two texts both, their product and their difference; of words to tag, each one's most frequent tag in
training; of choices, a logistic regression that tells right from wrong ones; of spans there is none.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from common import SMALL, arguments, write_result

from canon import metrics
from canon.data.config import DataConfig
from canon.data.encodings import Ask
from canon.data.encodings.framed import FRAMED, Divided, codes_of, divide, numbers_of
from canon.data.formats.rows import ChoiceRows, TagRows, TextRows
from canon.data.kinds import open_for
from canon.data.kinds.examples import ExampleSource
from canon.data.targets import Number, Span
from canon.interop.backbones import find
from canon.tasks import table as tasks
from canon.training.run import Run
from canon.training.trainer import train

# Set: metric, epochs, tokens of a sequence.
SETS: dict[str, tuple[str, int, int]] = {
    "sst-2": ("accuracy", 3, 128),
    "cola": ("matthews", 8, 128),
    "sts-b": ("spearman", 8, 128),
    "rte": ("accuracy", 8, 256),
    "ud-english-ewt": ("tag_accuracy", 5, 256),
    "weibo-ner": ("entity_f1", 20, 256),
    "squad": ("f1", 4, 384),
    "openbookqa": ("accuracy", 6, 128),
    "chnsenticorp": ("accuracy", 4, 256),
}


def settings(name: str, source: str, weights: str, seed: int, lr: float, limit: int) -> dict[str, Any]:
    _, epochs, length = SETS[name]
    own: dict[str, Any] = {
        "train.epochs": float(epochs),
        "train.seed": seed,
        "data.max_length": length,
        "data.limit": limit,
        "optimizer.lr": lr,
    }
    if weights == "random":
        found = find(source)
        run = Path(source) / "vocab" / "text.json"
        file = run if run.is_file() else Path(source) / "tokenizer.json"
        return own | {"system.backbone": found.system, "system.settings": found.settings, "data.tokenizer": str(file)}
    return own | {"train.init": source}


def fit(name: str, source: str, weights: str, seed: int, lr: float, limit: int, out: Path) -> float:
    """The metric on the test set; of a finished run as it was."""
    path = out / Path(name).stem / f"{weights}-{seed}"
    run = Run(path)
    if not path.exists() or run.result is None:
        changes = settings(name, source, weights, seed, lr, limit)
        run = train("pretrained/finetune", name, path, resume=path.exists(), changes={} if path.exists() else changes)
    assert run.result is not None
    return float(run.result["scores"]["test"][SETS[name][0]])


def split(name: str, limit: int) -> Divided:
    """The rows that a run trains and is tested on, and what is asked of them."""
    config, ask = DataConfig(source=name, limit=limit), Ask(tasks.TASKS["fine-tuning"].targets)
    source = open_for(FRAMED.kinds(ask), config)
    assert isinstance(source, ExampleSource)
    return divide(source, config, ask)


def bag_of_words(name: str, limit: int) -> float | None:
    from scipy.sparse import hstack
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression, Ridge

    _, target, parts, _ = split(name, limit)
    fitted, tested = parts["train"], parts["test"]
    if isinstance(fitted, TagRows) and isinstance(tested, TagRows):
        return _most_frequent_tags(fitted, tested, SETS[name][0])
    if isinstance(target, Span):
        return None
    chinese = any("一" <= character <= "鿿" for character in "".join(fitted.texts()[:100]))
    maker = TfidfVectorizer(analyzer="char" if chinese else "word", ngram_range=(1, 2), sublinear_tf=True, min_df=2)
    maker.fit(fitted.texts())

    def features(first: Any, second: Any) -> Any:
        if second is None:
            return maker.transform(first)
        one, two = maker.transform(first), maker.transform(second)
        product = one.multiply(two)
        return hstack([one, two, product, abs(one - two), product.sum(1)]).tocsr()

    if isinstance(fitted, ChoiceRows) and isinstance(tested, ChoiceRows):
        return _choices(fitted, tested, features)
    assert isinstance(fitted, TextRows) and isinstance(tested, TextRows)
    x, z = features(fitted.first, fitted.second), features(tested.first, tested.second)
    if isinstance(target, Number):
        predicted = Ridge(alpha=1.0).fit(x, numbers_of(fitted)).predict(z)
        return metrics.spearman(numbers_of(tested), predicted)
    predicted = LogisticRegression(max_iter=1000, C=4.0).fit(x, codes_of(fitted, target.classes)).predict(z)
    right = codes_of(tested, target.classes)
    return metrics.matthews(right, predicted) if SETS[name][0] == "matthews" else metrics.accuracy(right, predicted)


def _choices(fitted: ChoiceRows, tested: ChoiceRows, features: Any) -> float:
    from sklearn.linear_model import LogisticRegression

    def pairs(rows: ChoiceRows) -> Any:
        counts = [len(own) for own in rows.choices]
        asked = [question for question, count in zip(rows.questions, counts, strict=True) for _ in range(count)]
        right = [int(k == answer) for answer, n in zip(rows.answers or (), counts, strict=True) for k in range(n)]
        return features(asked, [choice for own in rows.choices for choice in own]), np.array(right), counts

    x, y, _ = pairs(fitted)
    z, _, counts = pairs(tested)
    scores = LogisticRegression(max_iter=1000).fit(x, y).decision_function(z)
    told = [int(own.argmax()) for own in np.split(scores, np.cumsum(counts)[:-1])]
    return float(np.mean(np.array(told) == np.array(tested.answers)))


def _most_frequent_tags(fitted: TagRows, tested: TagRows, metric: str) -> float:
    counts: dict[str, dict[str, int]] = {}
    overall: dict[str, int] = {}
    for words, tags in zip(fitted.words, fitted.tags or (), strict=True):
        for word, tag in zip(words, tags, strict=True):
            own = counts.setdefault(word, {})
            own[tag] = own.get(tag, 0) + 1
            overall[tag] = overall.get(tag, 0) + 1
    best = {word: max(own, key=own.__getitem__) for word, own in counts.items()}
    common = max(overall, key=overall.__getitem__)
    told = [[best.get(word, common) for word in words] for words in tested.words]
    right = [list(tags) for tags in tested.tags or ()]
    if metric == "entity_f1":
        return metrics.entity_scores(right, told).micro.f1
    return metrics.accuracy([tag for row in right for tag in row], [tag for row in told for tag in row])


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--from", dest="source", default="", help="a run, or a folder of Hugging Face's")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS))
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--random-lr", type=float, default=3e-4)
    parser.add_argument("--limit", type=int, default=0, help="training examples; 0: all")
    parser.add_argument("--out", type=Path, default=Path("runs/finetuning"))
    options = parser.parse_args()
    if options.quick:
        with tempfile.TemporaryDirectory() as folder:
            options.out, options.seeds, options.sets = Path(folder), 1, [str(SMALL / "sentences.csv")]
            options.source = str(small_network(Path(folder) / "bert"))
            SETS[options.sets[0]] = ("accuracy", 1, 16)
            measure(options)
    elif options.source:
        measure(options)
    else:
        parser.error("name a pre-trained network: --from RUN")


def small_network(path: Path) -> Path:
    """A BERT that has seen a few steps."""
    sizes = {"dim": 16, "num_layers": 1, "num_heads": 2, "hidden": 32}
    changes: dict[str, Any] = {f"system.{key}": value for key, value in sizes.items()}
    changes |= {
        "data.tokenizer": "word",
        "data.vocab_size": 0,
        "data.max_length": 32,
        "train.steps": 2,
        "train.batch": 8,
    }
    return train("pretrained/bert", str(SMALL / "documents.txt"), path, changes=changes, quiet=True).path


def measure(options: argparse.Namespace) -> None:
    rows = []
    for name in options.sets:
        row: dict[str, Any] = {"data": name, "metric": SETS[name][0], "bag of words": bag_of_words(name, options.limit)}
        for weights, lr in (("pre-trained", options.lr), ("random", options.random_lr)):
            scores = [
                fit(name, options.source, weights, seed, lr, options.limit, options.out)
                for seed in range(options.seeds)
            ]
            row[weights] = {"mean": statistics.fmean(scores), "sd": statistics.pstdev(scores), "seeds": scores}
        rows.append(row)
        bag = "–" if row["bag of words"] is None else f"{row['bag of words']:.3f}"
        cells = [f"{row[weights]['mean']:.3f} ± {row[weights]['sd']:.3f}" for weights in ("pre-trained", "random")]
        print(f"| {name} | {row['metric']} | {cells[0]} | {cells[1]} | {bag} |", flush=True)
    result = {
        "from": options.source, "seeds": options.seeds, "lr": options.lr, "random_lr": options.random_lr, "rows": rows,
    }  # fmt: skip
    write_result("finetuning", result, options, packages=("torch", "scikit-learn"))


if __name__ == "__main__":
    main()
