"""What features are computed from: postings of every field, and numbers of every document; named sets of features.

A feature is called FEATURE.FIELD (bm25-lucene.title) or by the document's number (pagerank). `letor` has the 46 of
LETOR 4.0 in the order of its files: there, columns 21 to 40 are grouped by field (BM25, LM absolute, Dirichlet and JM
of body, then of anchor, title, url, whole), as the correlations of MQ2008's columns with its tf · idf say; the list
that was published with it groups them by feature.
Shapes: n documents, p pairs of a query and a document, F features.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from canon.data.formats.documents import FIELDS, FieldedDocuments
from canon.errors import CanonError, unknown
from canon.storage import read_json, write_text
from canon.use.features import documents as of_documents
from canon.use.features import text as of_text
from canon.use.features.text import Candidates, text_features
from canon.use.search.postings import Postings, WordsOfRows

ALL_FIELDS = (*FIELDS, "whole")
_MODELS = ("bm25-lucene", "lm-absolute", "lm-dirichlet", "lm-jm")
_OF_DOCUMENTS = ("pagerank", "inlinks", "outlinks", "slashes", "url-length", "children")
LETOR = (
    *(f"{feature}.{field}" for feature in ("tf", "idf", "tfidf", "length") for field in ALL_FIELDS),
    *(f"{feature}.{field}" for field in ALL_FIELDS for feature in _MODELS),
    *_OF_DOCUMENTS,
)
EVERY = (
    *(f"{feature}.{field}" for field in ALL_FIELDS for feature in of_text.FEATURES),
    *of_documents.FEATURES,
)
PRESETS = {"all": EVERY, "letor": LETOR}
_ARRAYS = ("indptr", "docs", "counts", "lengths")


class FeatureIndex:
    """Postings by field, which share a vocabulary, and numbers [n] by name."""

    def __init__(
        self,
        ids: Sequence[str],
        fields: dict[str, Postings],
        numbers: dict[str, np.ndarray],
        words_of_rows: WordsOfRows | None = None,
    ) -> None:
        self.ids, self.fields, self.numbers = ids, fields, numbers
        self.words_of_rows = words_of_rows  # of whole, where an index was loaded that has them

    @classmethod
    def of(cls, documents: FieldedDocuments, columns: Sequence[str] = ()) -> FeatureIndex:
        """columns: others of the documents, all numbers, that are features too, such as spam."""
        words: dict[str, int] = {}
        fields = {name: Postings.of(documents.fields[name], words) for name in FIELDS}
        fields["whole"] = Postings.joined(list(fields.values()))
        numbers = of_documents.document_features(documents.fields["url"], documents.links, fields["whole"])
        numbers |= {name: _numbers(documents, name) for name in columns}
        return cls(documents.ids, fields, numbers)

    @property
    def whole(self) -> Postings:
        return self.fields["whole"]

    def features(self, names: Sequence[str], queries: Sequence[str], candidates: Candidates) -> np.ndarray:
        """float32 [p, F]"""
        by_field: dict[str, list[str]] = {}
        for name in names:
            feature, _, field = name.rpartition(".")
            if feature and field in self.fields:
                by_field.setdefault(field, []).append(feature)
            elif name not in self.numbers:
                raise unknown("feature", name, (*EVERY, *self.numbers))
        values: dict[str, np.ndarray] = {}
        for field, features in by_field.items():
            columns_of_field = text_features(self.fields[field], queries, candidates, features)
            values |= {f"{feature}.{field}": column for feature, column in columns_of_field.items()}
        columns = [values[name] if name in values else self.numbers[name][candidates.docs] for name in names]
        return np.stack(columns, axis=1).astype(np.float32) if columns else np.empty((len(candidates.docs), 0), "f4")

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        for field, postings in self.fields.items():
            for array in _ARRAYS:
                np.save(folder / f"{field}-{array}.npy", vars(postings)[array])
        for name, array in self.whole.by_row()._asdict().items():
            np.save(folder / f"rows-{name}.npy", array)
        np.save(folder / "numbers.npy", np.stack(list(self.numbers.values())))
        record = {"words": list(self.whole.words), "fields": list(self.fields), "numbers": list(self.numbers)}
        write_text(folder / "features.json", json.dumps(record, ensure_ascii=False))

    @classmethod
    def load(cls, folder: Path, ids: Sequence[str]) -> FeatureIndex:
        """Arrays are mapped into memory."""
        record = read_json(folder / "features.json")
        words = {word: place for place, word in enumerate(record["words"])}
        fields = {
            field: Postings(words, *(np.load(folder / f"{field}-{array}.npy", mmap_mode="r") for array in _ARRAYS))
            for field in record["fields"]
        }
        numbers = np.load(folder / "numbers.npy", mmap_mode="r")
        files = [folder / f"rows-{name}.npy" for name in WordsOfRows._fields]
        rows = WordsOfRows(*(np.load(file, mmap_mode="r") for file in files)) if files[0].is_file() else None
        return cls(ids, fields, dict(zip(record["numbers"], numbers, strict=True)), rows)


def _numbers(documents: FieldedDocuments, name: str) -> np.ndarray:
    if name not in documents.more:
        raise unknown("column of the documents", name, documents.more)
    try:
        return np.array([float(value) for value in documents.more[name]])
    except (TypeError, ValueError):
        bad = next(row for row, value in enumerate(documents.more[name]) if not _is_number(value))
        raise CanonError(
            f"Column {name} of document {documents.ids[bad]} is {documents.more[name][bad]!r}; a feature is a number."
        ) from None


def _is_number(value: object) -> bool:
    try:
        float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return True
