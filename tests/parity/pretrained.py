"""transformers' networks with random weights beside canon's with the same: hidden states, logits, gradients.

Theirs read batches padded to the longest text, with a mask; canon's read the same tokens end to end. Everything but
dropout is random: norms and biases too, so that no two tensors can be taken for each other.
"""

# ruff: noqa: N815 (fields with shape suffixes)

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from canon import registry
from canon.interop.huggingface import FAMILIES
from canon.nn.ragged import Layout
from tests.parity.compare import assert_close
from tests.parity.huggingface import transformers_module

SIZES: dict[str, list[dict[str, Any]]] = {  # odd ones, as config.json names them
    "bert": [
        {"vocab_size": 97, "hidden_size": 12, "num_hidden_layers": 3, "num_attention_heads": 3,
         "intermediate_size": 20},
        {"vocab_size": 31, "hidden_size": 10, "num_hidden_layers": 1, "num_attention_heads": 5, "intermediate_size": 7,
         "hidden_act": "gelu_new", "layer_norm_eps": 1e-5, "max_position_embeddings": 17},
    ],
    "roberta": [
        {"vocab_size": 97, "hidden_size": 12, "num_hidden_layers": 3, "num_attention_heads": 3, "intermediate_size": 20,
         "max_position_embeddings": 19, "type_vocab_size": 1},
        {"vocab_size": 53, "hidden_size": 14, "num_hidden_layers": 1, "num_attention_heads": 7, "intermediate_size": 9,
         "max_position_embeddings": 25, "type_vocab_size": 1, "pad_token_id": 4},
    ],
    "gpt": [
        {"vocab_size": 97, "n_embd": 12, "n_layer": 3, "n_head": 3, "n_positions": 21},
        {"vocab_size": 29, "n_embd": 10, "n_layer": 1, "n_head": 5, "n_positions": 13, "afn": "relu"},
    ],
    "gpt2": [
        {"vocab_size": 97, "n_embd": 12, "n_layer": 3, "n_head": 3, "n_positions": 21, "n_inner": 18},
        {"vocab_size": 29, "n_embd": 10, "n_layer": 1, "n_head": 5, "n_positions": 13, "activation_function": "gelu"},
    ],
}  # fmt: skip
CLASSES = {
    "bert": ("BertConfig", "BertForPreTraining"),
    "roberta": ("RobertaConfig", "RobertaForMaskedLM"),
    "gpt": ("OpenAIGPTConfig", "OpenAIGPTLMHeadModel"),
    "gpt2": ("GPT2Config", "GPT2LMHeadModel"),
}
CASES = [(system, index) for system, rows in SIZES.items() for index in range(len(rows))]


def their_network(system: str, index: int = 0, architecture: str = "", **changes: Any) -> Any:
    """transformers' network of these sizes, every number random, without dropout."""
    library = transformers_module()
    settings, network = CLASSES[system]
    torch.manual_seed(index)
    config = getattr(library, settings)(**{**SIZES[system][index], **changes}, attn_implementation="eager")
    model = getattr(library, architecture or network)(config).eval()
    return scatter(model)


def scatter(network: Any) -> Any:
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(0.3 * torch.randn_like(parameter) + (parameter == 1).float())
    return network


def our_network(system: str, model: Any) -> nn.Module:
    """canon's with the weights of theirs, through the same way that folders take."""
    taken = FAMILIES[system].take(dict(model.state_dict()), model.config.to_dict(), "weights")
    return build(system, taken.settings, taken.tensors)


def build(system: str, settings: dict[str, Any], tensors: dict[str, Tensor]) -> nn.Module:
    record, _ = registry.find(system)
    network: nn.Module = record.load()[1](record.configure("", {**settings, "dropout": 0.0, "attention_dropout": 0.0}))
    network.load_state_dict(tensors)
    return network.eval()


class Batch(NamedTuple):
    """The same texts padded, as transformers reads them, and end to end."""

    token_BL: Tensor
    mask_BL: Tensor
    segment_BL: Tensor
    token_N: Tensor
    segment_N: Tensor
    layout: Layout

    @classmethod
    def of(cls, vocab_size: int, pad: int, lengths: tuple[int, ...] = (5, 1, 9, 3)) -> Batch:
        """Random tokens, none of which is `pad`; the second half of each text is of segment 1."""
        torch.manual_seed(7)
        layout = Layout(torch.tensor(lengths))
        token_N = torch.randint(vocab_size - 1, (layout.total,))
        token_N += token_N >= pad
        segment_N = (layout.positions * 2 >= layout.lengths[layout.rows]).long()
        return cls(layout.pad(token_N, pad), layout.mask, layout.pad(segment_N), token_N, segment_N, layout)


def assert_same_gradients(system: str, ours: nn.Module, theirs: Any, settings: dict[str, Any], atol: float) -> None:
    """Of every weight that is named once in theirs, at the scale of its largest."""
    family = FAMILIES[system]
    mine = {name: parameter.grad for name, parameter in ours.named_parameters() if parameter.grad is not None}
    assert set(mine) == {name for name, _ in ours.named_parameters()}
    values = {**settings, "pad_token_id": theirs.config.pad_token_id}
    actual = family.tensors_to(mine, values)
    wanted = {name: parameter.grad for name, parameter in theirs.named_parameters() if parameter.grad is not None}
    assert set(wanted) == set(actual)
    for name, gradient in wanted.items():
        if gradient.abs().max() > 1e-6:
            assert_close(actual[name], gradient, atol, name)
        else:  # zero but for rounding, as a key's bias has it
            assert actual[name].abs().max() <= 1e-6, name
