"""BERT or GPT-2 from random weights by Hugging Face's Trainer, as transformers' run_mlm.py and run_clm.py do it: the
corpus tokenized in batches, texts put end to end and cut into blocks, dynamic masks, fused AdamW."""

# mypy: ignore-errors

from __future__ import annotations

import argparse
from itertools import chain
from pathlib import Path

import mended_torchvision  # noqa: F401
import torch
from clock import Clock
from transformers import (
    BertConfig,
    BertForMaskedLM,
    DataCollatorForLanguageModeling,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)


class Ticks(TrainerCallback):
    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def on_step_end(self, *_: object, **__: object) -> None:
        self.clock.tick()


def blocks_of(lines: list[str], tokenizer: PreTrainedTokenizerFast, size: int, causal: bool) -> list[dict]:
    blocks = []
    for start in range(0, len(lines), 1000):
        ids = tokenizer(lines[start : start + 1000], add_special_tokens=not causal)["input_ids"]
        flat = list(chain.from_iterable(ids))
        for first in range(0, len(flat) // size * size, size):
            blocks.append({"input_ids": flat[first : first + size]})
    return blocks


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["bert", "gpt2"])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("tokenizer")
    parser.add_argument("out")
    for name, value in {"steps": 1000, "batch": 256, "length": 128, "dim": 768, "layers": 12, "heads": 12}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    causal = options.kind == "gpt2"
    special = (
        {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"}
        if causal
        else {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    )
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=options.tokenizer, **special)
    lines = [line for line in options.corpus.read_text(encoding="utf-8").splitlines() if line.strip()]
    blocks = blocks_of(lines, tokenizer, options.length, causal)
    held = max(1, len(blocks) // 50)
    vocab = len(tokenizer)
    if causal:
        config = GPT2Config(
            vocab_size=vocab,
            n_positions=options.length,
            n_embd=options.dim,
            n_layer=options.layers,
            n_head=options.heads,
        )
        network = GPT2LMHeadModel(config)
    else:
        config = BertConfig(
            vocab_size=vocab,
            hidden_size=options.dim,
            num_hidden_layers=options.layers,
            num_attention_heads=options.heads,
            intermediate_size=4 * options.dim,
        )
        network = BertForMaskedLM(config)
    on_gpu = torch.cuda.is_available()
    clock = Clock()
    trainer = Trainer(
        network,
        TrainingArguments(
            options.out,
            max_steps=options.steps,
            per_device_train_batch_size=options.batch,
            per_device_eval_batch_size=options.batch,
            learning_rate=1e-4,
            weight_decay=0.01,
            lr_scheduler_type="linear",
            warmup_steps=options.steps // 10,
            bf16=on_gpu,
            torch_compile=on_gpu,
            optim="adamw_torch_fused",
            dataloader_num_workers=2 if on_gpu else 0,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            use_cpu=not on_gpu,
        ),
        data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=not causal),
        train_dataset=blocks[held:],
        eval_dataset=blocks[:held],
        callbacks=[Ticks(clock)],
    )
    trainer.train()
    loss = trainer.evaluate()["eval_loss"]
    trainer.save_model()
    clock.report(loss=loss)


if __name__ == "__main__":
    main()
