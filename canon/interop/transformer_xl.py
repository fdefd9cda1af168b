"""Transformer-XL as its authors keep it, both ways: the tensors of their PyTorch code to canon's and back.

Dai et al. 2019 (arXiv:1901.02860). Their training saves whole Python objects, which are not read; a file of the tensors
(torch.save(model.state_dict(), …), or the same names below transformer.) is. Names, for L layers of H heads of d:
    word_emb.emb_layers.0.weight [V, D], crit.out_layers.0.weight [V, D] and bias [V]
    layers.I.dec_attn.qkv_net, r_net, o_net (no biases), layer_norm; layers.I.pos_ff.CoreNet.0, CoreNet.3, layer_norm
    r_w_bias, r_r_bias [H, d], once for all layers, or in each layer's dec_attn
Their sinusoids hold all sines before all cosines, canon's alternate: the columns of r_net move. The output has a bias:
canon's output_bias. Adaptive embeddings and softmax (several emb_layers, emb_projs, cluster_weight) are refused.
Whether norms come before or after sublayers is not in the tensors: after, as published.
"""

from __future__ import annotations

import re
from pathlib import Path

import torch

from canon.config import Table
from canon.errors import CanonError
from canon.interop.formats import Candidate, GivesWeights
from canon.interop.network import ForeignWeights, Report, Tensors, sines_first, weight

_EMBEDDING, _OUTPUT = "word_emb.emb_layers.0.weight", "crit.out_layers.0."
_MARK = "layers.0.dec_attn.qkv_net.weight"
_ADAPTIVE = re.compile(r"emb_layers\.[1-9]|out_layers\.[1-9]|_projs|crit\.cluster_")
_BUFFERS = re.compile(r"pos_emb\.inv_freq$")
_BIASES = {"content_bias": "r_w_bias", "position_bias": "r_r_bias"}  # u and v
_LAYER = {  # canon's name in a block: theirs
    "attention.qkv.weight": "dec_attn.qkv_net.weight",
    "attention.relative.weight": "dec_attn.r_net.weight",
    "attention.output.weight": "dec_attn.o_net.weight",
    "attention_norm.weight": "dec_attn.layer_norm.weight",
    "attention_norm.bias": "dec_attn.layer_norm.bias",
    "feed_forward.inner.weight": "pos_ff.CoreNet.0.weight",
    "feed_forward.inner.bias": "pos_ff.CoreNet.0.bias",
    "feed_forward.outer.weight": "pos_ff.CoreNet.3.weight",
    "feed_forward.outer.bias": "pos_ff.CoreNet.3.bias",
    "feed_forward_norm.weight": "pos_ff.layer_norm.weight",
    "feed_forward_norm.bias": "pos_ff.layer_norm.bias",
}


class TransformerXLFile(GivesWeights):
    """A file of the authors' tensors."""

    def __init__(self, path: Path, tensors: Tensors) -> None:
        super().__init__(path, "transformer-xl", "transformer-xl")
        self._tensors = tensors

    def read(self) -> ForeignWeights:
        return ForeignWeights(*from_original(self._tensors, str(self.path)))


def recognise(candidate: Candidate) -> TransformerXLFile | None:
    tensors = candidate.tensors
    is_original = tensors is not None and any(name.endswith(_MARK) for name in tensors)
    return TransformerXLFile(candidate.path, tensors or {}) if is_original else None


def from_original(tensors: Tensors, source: str = "The file") -> tuple[Table, Tensors]:
    """The settings that the sizes show, and canon's tensors."""
    prefix = next(name for name in tensors if name.endswith(_MARK)).removesuffix(_MARK)
    known = {
        name.removeprefix(prefix): weight(tensor, name, source)
        for name, tensor in tensors.items()
        if not _BUFFERS.search(name)
    }
    if adaptive := [name for name in known if _ADAPTIVE.search(name)]:
        raise CanonError(
            f"{source} is a Transformer-XL with adaptive embeddings or softmax ({', '.join(adaptive)}), which canon's "
            "does not have."
        )
    layers = len({place[1] for name in known if (place := re.match(r"layers\.(\d+)\.", name))})
    shared = "r_w_bias" in known
    names = _names(layers, shared)
    optional = {"output.weight", "output_bias"}
    missing = sorted({theirs for ours, theirs in names.items() if theirs not in known and ours not in optional})
    unexpected = sorted(set(known) - set(names.values()))
    report = Report([], missing, unexpected, [])
    if not report.fits:
        raise CanonError(f"{source} is not a whole Transformer-XL of its authors' form: {report.sentence()}.")
    tokens, dim = known[_EMBEDDING].shape
    heads, width = known[names["layers.blocks.0.attention.content_bias"]].shape
    if heads * width != dim:
        raise CanonError(f"{source} has {heads} heads of {width} for {dim} features; canon's heads share them all.")
    tie = torch.equal(known.get(_OUTPUT + "weight", known[_EMBEDDING]), known[_EMBEDDING])
    settings: Table = {
        "vocab_size": tokens,
        "dim": dim,
        "num_layers": layers,
        "num_heads": heads,
        "hidden": len(known["layers.0.pos_ff.CoreNet.0.weight"]),
        "norm": "post",
        "activation": "relu",
        "tie": tie,
        "output_bias": _OUTPUT + "bias" in known,
    }
    converted = {ours: known[theirs].clone() for ours, theirs in names.items() if theirs in known}
    if tie:
        converted.pop("output.weight", None)
    for i in range(layers):
        name = f"layers.blocks.{i}.attention.relative.weight"
        converted[name] = converted[name][:, sines_first(dim)].contiguous()
    return settings, converted


def to_original(tensors: Tensors, settings: Table) -> Tensors:
    """Their tensors; u and v once for all layers where all have the same."""
    for key, wanted in (("norm", "post"), ("activation", "relu")):
        if settings[key] != wanted:
            raise CanonError(f'system.{key} is "{settings[key]}", and the authors\' Transformer-XL has "{wanted}".')
    layers = settings["num_layers"]
    biases = [[tensors[f"layers.blocks.{i}.attention.{name}"] for name in _BIASES] for i in range(layers)]
    shared = all(torch.equal(one, two) for pair in biases for one, two in zip(pair, biases[0], strict=True))
    theirs = {other: tensors[ours].clone() for ours, other in _names(layers, shared).items() if ours in tensors}
    order = sines_first(tensors["embedding.weight"].shape[1]).argsort()
    for i in range(layers):
        name = f"layers.{i}.dec_attn.r_net.weight"
        theirs[name] = theirs[name][:, order].contiguous()
    theirs.setdefault(_OUTPUT + "weight", theirs[_EMBEDDING].clone())
    theirs.setdefault(_OUTPUT + "bias", torch.zeros(len(theirs[_EMBEDDING])))
    return theirs


def _names(layers: int, shared: bool) -> dict[str, str]:
    """Each of canon's tensors, and theirs."""
    names = {"embedding.weight": _EMBEDDING, "output.weight": _OUTPUT + "weight", "output_bias": _OUTPUT + "bias"}
    for i in range(layers):
        names |= {f"layers.blocks.{i}.{ours}": f"layers.{i}.{theirs}" for ours, theirs in _LAYER.items()}
        where = "" if shared else f"layers.{i}.dec_attn."
        names |= {f"layers.blocks.{i}.attention.{ours}": where + theirs for ours, theirs in _BIASES.items()}
    return names
