"""Forms of tags that mark entities: which letters they have, and what the letters mean.

| form | letters |
| --- | --- |
| BIO (IOB2) | B begins an entity, I goes on |
| IOB1 | I begins an entity and goes on; B begins one that follows another of its type |
| BIOES | B begins, I goes on, E ends; S is an entity of one word |
| BILOU | the same with L for E and U for S |
| BMES | the same with M for I; Chinese segmentation has these letters alone |
O is a word outside of entities. A letter is followed by "-" and the type (Ramshaw and Marcus 1995; Ratinov and Roth
2009).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

_FORMS = {"BIO": "BI", "BIOES": "BIES", "BILOU": "BILU", "BMES": "BMES"}  # and the letters beside O


def is_entities(tags: Collection[str]) -> bool:
    """Whether tags mark entities: all are O or a letter with a type; or all are bare letters of one form."""
    letters = {tag.partition("-")[0] for tag in tags} - {"O"}
    typed = {"-" in tag for tag in tags if tag != "O"}
    if len(typed) != 1 or not any(letters <= set(form) for form in _FORMS.values()):
        return False
    return all(tag.partition("-")[2] for tag in tags if tag != "O") if typed == {True} else _is_whole(letters)


def _is_whole(letters: set[str]) -> bool:
    """Whether bare letters are all of a form's, so that they are not the names of classes."""
    return any(letters == set(form) for form in _FORMS.values())


def scheme(sentences: Iterable[Sequence[str]]) -> str:
    """The form of sentences' tags: BIO, IOB1, BIOES, BILOU or BMES; "" where they do not mark entities."""
    sentences = list(sentences)
    tags = {tag for sentence in sentences for tag in sentence}
    if not is_entities(tags):
        return ""
    letters = {tag[0] for tag in tags} - {"O"}
    if letters <= {"B", "I"}:
        begins = [begin for sentence in sentences for begin in _begins(sentence)]
        return "IOB1" if "I" in begins and 2 * begins.count("B") < len(begins) else "BIO"
    return next(form for form, known in _FORMS.items() if letters <= set(known))


def _begins(tags: Sequence[str]) -> list[str]:
    """The letters of words that begin an entity and follow no word of its type."""
    both = zip(["O", *tags], tags, strict=False)
    return [tag[0] for before, tag in both if tag != "O" and (before == "O" or before[2:] != tag[2:])]
