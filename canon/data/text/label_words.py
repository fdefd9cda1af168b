"""Label words: the words by which a prompt's slots say a class, and where each of their tokens is read.

Schick and Schütze 2021 (arXiv:2001.07676, 2009.07118): a word of m tokens is asked by m masks, so that there is one
variant of a prompt for each length. Networks that read from left to right, and T5's decoder, have the chain rule: the
tokens before are given, and words that begin alike share a variant. What a network reads decides which (`FILLING`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from canon.data.text.tokenizers import Tokenizer
from canon.errors import CanonError

Ids = tuple[int, ...]


class Filling(Enum):
    """How the slots of a prompt are asked."""

    MASKS = "masks"  # a mask for each token
    CHAIN = "chain"  # what follows the prompt
    SENTINEL = "sentinel"  # what T5's decoder writes for <extra_id_0>


# By the framing of a network's texts.
FILLING = {"bert": Filling.MASKS, "roberta": Filling.MASKS, "gpt": Filling.CHAIN, "t5": Filling.SENTINEL}


def filling_of(framing: str, name: str) -> Filling:
    if framing not in FILLING:
        raise CanonError(f"{name} cannot be prompted: it has no head that fills one place from both sides or goes on.")
    return FILLING[framing]


class Slots(NamedTuple):
    """Variants of the prompt, and where the words are read in all their slots end to end."""

    fills: tuple[Ids, ...]  # of each variant: the tokens given after the prompt (chain, sentinel)
    counts: tuple[int, ...]  # slots of each variant
    read: tuple[Ids, ...]  # of each word, of all classes: the slot of each of its tokens

    @property
    def total(self) -> int:
        return sum(self.counts)


def slots_of(words: Sequence[Ids], filling: Filling, fixed: int = 0) -> Slots:
    """words: the tokens of every word. fixed: so many masks, whatever the word."""
    if filling is Filling.MASKS or not words:
        lengths = sorted({fixed or len(word) for word in words}) or [fixed or 1]
        starts = {length: sum(lengths[:index]) for index, length in enumerate(lengths)}
        asked = [tuple(range(starts[len(word)], starts[len(word)] + len(word))) for word in words]
        return Slots(((),) * len(lengths), tuple(lengths), tuple(asked))
    given = sorted({word[:-1] for word in words})
    longest = [one for one in given if not any(other != one and other[: len(one)] == one for other in given)]
    counts = tuple(len(fill) + 1 for fill in longest)
    read: list[Ids] = []
    for word in words:
        variant = next(index for index, fill in enumerate(longest) if fill[: len(word) - 1] == word[:-1])
        start = sum(counts[:variant])
        read.append(tuple(range(start, start + len(word))))
    return Slots(tuple(longest), counts, tuple(read))


def encode_words(
    tokenizer: Tokenizer, words: Mapping[str, Sequence[str]], classes: Sequence[str], spaced: bool, fixed: int
) -> tuple[tuple[Ids, ...], ...]:
    """The tokens of the words of each class. spaced: whether a space stands before the slot, which a tokenizer that
    keeps spaces in its tokens reads as part of the word."""
    unknown_class = next((name for name in words if name not in classes), None)
    if unknown_class is not None:
        raise CanonError(f'data.words names "{unknown_class}", which is not a class; there is {", ".join(classes)}.')
    taken: dict[Ids, str] = {}
    of_classes = []
    for name in classes:
        words_of_class = words.get(name, () if words else (name,))
        if not words_of_class:
            raise CanonError(f'data.words has no word for the class "{name}"; give one, as in {{ "{name}" = "…" }}.')
        ids = []
        for word in words_of_class:
            tokens = tokenizer.encode([f" {word}" if spaced and tokenizer.joins_spaces else word])[0]
            token = tuple(map(int, tokens))
            if not word.strip() or not token or tokenizer.specials.unk in token:
                raise CanonError(
                    f'data.words: "{word}" of the class "{name}" is not in the tokenizer\'s vocabulary; give another, '
                    f'as in data.words = {{"{name}" = ["WORD"], …}}.'
                )
            if token in taken:
                twice = f"twice for the class {name}" if taken[token] == name else f"of {taken[token]} and of {name}"
                raise CanonError(f'data.words: "{word}" is the word {twice}; each word is of one class, once.')
            if fixed and len(token) != fixed:
                raise CanonError(
                    f'data.words: "{word}" has {len(token)} tokens, but data.template has {{mask:{fixed}}}; give words '
                    f"of {fixed} tokens, or {{mask}}."
                )
            taken[token] = name
            ids.append(token)
        of_classes.append(tuple(ids))
    return tuple(of_classes)
