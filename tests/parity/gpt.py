"""transformers' GPT-2 and OpenAI GPT with the weights of ours; its Conv1D holds a matrix the other way round."""

from __future__ import annotations

from typing import Any

from canon.systems.pretrained.base import StackConfig
from canon.systems.pretrained.causal import CausalTransformer
from tests.parity.huggingface import transformers_module

_PLACES = {
    "attention.qkv": "attn.c_attn",
    "attention.output": "attn.c_proj",
    "feed_forward.inner": "mlp.c_fc",
    "feed_forward.outer": "mlp.c_proj",
    "attention_norm": "ln_1",
    "feed_forward_norm": "ln_2",
}


def gpt_of(network: CausalTransformer, config: StackConfig) -> Any:
    """OpenAIGPTLMHeadModel for a post-norm network (whose hidden units are 4 · dim), else GPT2LMHeadModel."""
    library = transformers_module()
    sizes = {
        "vocab_size": config.vocab_size,
        "n_positions": config.max_positions,
        "n_embd": config.dim,
        "n_layer": config.num_layers,
        "n_head": config.num_heads,
    }
    if network.norm == "post":
        made = library.OpenAIGPTLMHeadModel(library.OpenAIGPTConfig(**sizes))
        token, position = "tokens_embed", "positions_embed"
    else:
        more = {"n_inner": config.hidden, "bos_token_id": 0, "eos_token_id": 0}
        made = library.GPT2LMHeadModel(library.GPT2Config(**sizes, **more))
        token, position = "wte", "wpe"
    ours = network.state_dict()
    tensors = {
        f"{token}.weight": ours["embedding.token.weight"],
        f"{position}.weight": ours["embedding.position.weight"],
    }
    for layer in range(config.num_layers):
        for mine, other in _PLACES.items():
            for part in ("weight", "bias"):
                tensor = ours[f"layers.blocks.{layer}.{mine}.{part}"]
                tensors[f"h.{layer}.{other}.{part}"] = tensor.T if tensor.dim() == 2 else tensor
    if network.norm == "pre":
        tensors |= {f"ln_f.{part}": ours[f"layers.norm.{part}"] for part in ("weight", "bias")}
    missing, unexpected = made.transformer.load_state_dict(tensors, strict=False)
    assert not unexpected and all(name.endswith(("attn.bias", "attn.masked_bias")) for name in missing)
    made.tie_weights()
    return made.eval()
