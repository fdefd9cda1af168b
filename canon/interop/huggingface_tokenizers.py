"""Tokenisers into Hugging Face's folders, with what AutoTokenizer needs to put special tokens where canon's framing has
them (canon/data/text/framing.py). Reading: canon/data/text/tokenizer_folder.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from canon.config import Table
from canon.data.text.framing import PATTERNS
from canon.data.text.tokenizers import Tokenizer
from canon.data.text.vocabularies import library
from canon.errors import CanonError

_ROLES = ("pad", "unk", "cls", "sep", "mask", "bos", "eos")


def write(tokenizer: Tokenizer, folder: Path, framing: str, limit: int) -> None:
    """tokenizer.json, tokenizer_config.json and special_tokens_map.json, for sequences of at most `limit` tokens."""
    plain = tokenizer_json(tokenizer, framing)
    names = special_names(tokenizer)
    chosen: Table = {"tokenizer_class": "PreTrainedTokenizerFast", **names, "clean_up_tokenization_spaces": False}
    if limit:
        chosen["model_max_length"] = limit
    segments = any(segment for _, segment in PATTERNS[framing][1])
    kinds = ("input_ids", "token_type_ids", "attention_mask") if segments else ("input_ids", "attention_mask")
    chosen["model_input_names"] = list(kinds)
    files = {"tokenizer.json": plain, "tokenizer_config.json": chosen, "special_tokens_map.json": names}
    for name, table in files.items():
        (folder / name).write_text(json.dumps(table, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def tokenizer_json(tokenizer: Tokenizer, framing: str) -> Table:
    """What tokenizer.json holds: the tokeniser, which puts special tokens where the framing has them."""
    if tokenizer.offset:
        raise CanonError(
            "The tokenizer was not made for this network: its ids were moved to make room for canon's own, which no "
            "tokenizer.json can say; train with a tokenizer that keeps its ids."
        )
    plain: Table = json.loads(tokenizer.to_json())
    if framing in ("bert", "roberta", "xlnet", "t5") and plain.get("post_processor") is None:
        plain["post_processor"] = template(tokenizer, framing)
    return plain


def special_names(tokenizer: Tokenizer) -> dict[str, str]:
    """The special tokens by what transformers calls their parts: pad_token, cls_token …"""
    ids = {role: getattr(tokenizer.specials, role) for role in _ROLES}
    return {f"{role}_token": tokenizer.vocabulary[index] for role, index in ids.items() if index >= 0}


def template(tokenizer: Tokenizer, framing: str) -> Any:
    """A framing in the library's words."""
    tokenizers = library()
    texts = {"first": "$A", "second": "$B"}
    special: dict[str, int] = {}
    sides = []
    for pattern in PATTERNS[framing]:
        parts = []
        for role, segment in pattern:
            if role not in texts:
                index = tokenizer.specials.require(role, f"{framing}'s framing")
                special[tokenizer.vocabulary[index]] = index
            parts.append(f"{texts.get(role) or tokenizer.vocabulary[index]}:{segment}")
        sides.append(parts)
    bare = tokenizers.Tokenizer(tokenizers.models.BPE())
    bare.post_processor = tokenizers.processors.TemplateProcessing(
        single=sides[0], pair=sides[1], special_tokens=list(special.items())
    )
    return json.loads(bare.to_str())["post_processor"]
