"""Names that people give to the columns of a table, in lower case, by what the columns hold."""

from __future__ import annotations

import re

LABELS = ("label", "target", "class", "y")  # what is predicted
# What it is called in well-known tables, where it is seldom the last column.
OUTCOMES = (
    *("survived", "outcome", "is_fraud", "isfraud", "churn", "churned", "exited", "attrition", "diagnosis", "species"),
    *("click", "clicked", "purchased", "converted", "is_spam", "toxic", "loan_status"),
    *("saleprice", "medv", "median_house_value"),
)
# The same in tables of texts, where other columns are texts.
TEXT_LABELS = (
    *LABELS,
    *("gold_label", "score", "similarity", "quality", "is_duplicate", "stars", "rating", "overall", "sentiment"),
    *("category", "relatedness_score", "entailment_judgment", "labels"),
)
SEVERAL = ("labels", "tags", "genres", "topics", "categories", "emotions")  # of which a cell may have several
NUMBERS = ("score", "similarity", "relatedness_score")  # labels that are numbers, whole ones too
TITLE = "title"  # is the text where there is no longer one
HEADINGS = (TITLE, "headline", "heading", "subject", "summary")  # of a longer text beside it, to be read with it
TEXTS = ("sentence", "text", "review", "content", "comment", "tweet", "text_a", "body", TITLE)
PAIRS = (  # two texts with one label
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("premise", "hypothesis"),
    ("#1 string", "#2 string"),
    ("sentence_a", "sentence_b"),
    ("sentence_1", "sentence_2"),
    ("text_a", "text_b"),
    ("text1", "text2"),
    ("text_1", "text_2"),
    ("sent1", "sent2"),
    ("s1", "s2"),
    ("q1", "q2"),
    ("qtext", "atext"),
    ("query", "passage"),
    ("query", "document"),
    ("query", "title"),
)
PAIRED = frozenset(name for pair in PAIRS for name in pair)
COUNTED = ("index", "id", "idx", "pair_id", "genre", "source")  # neither text nor label
TRANSLATED = (("source", "target"), ("src", "tgt"), ("src", "trg"), ("input", "output"), ("question", "answer"))
COLA = ("source", "label", "mark", "sentence")  # of GLUE's file without a header line
KNOWN = frozenset((*TEXT_LABELS, *TEXTS, *PAIRED, *COUNTED, *(name for pair in TRANSLATED for name in pair)))
# ISO 639-1, and what toolkits call the two sides.
LANGUAGES = (
    " aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el "
    "en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja "
    "jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd "
    "ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr "
    "ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu src tgt trg "
)
_REGION = re.compile(r"[-_][a-z]{2,4}$", re.IGNORECASE)  # pt-BR, zh_CN, zh-Hans


def is_language(name: str) -> bool:
    return f" {_REGION.sub('', name).lower()} " in LANGUAGES
