"""A pre-trained BERT fine-tuned on SST-2 by Hugging Face's Trainer, as transformers' run_glue.py does it: texts cut at
128 tokens, batches padded to their longest, linear rate; the scores of the test part at the end."""

# mypy: ignore-errors

from __future__ import annotations

import argparse
import csv
import lzma

import mended_torchvision  # noqa: F401
import numpy as np
import torch
from clock import Clock
from pretrain import Ticks
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
)


def read(path: str) -> list[dict]:
    opened = lzma.open if path.endswith(".xz") else open
    with opened(path, "rt", encoding="utf-8", newline="") as file:
        rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        next(rows)
        return [{"text": row[0], "label": int(row[1])} for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("train")
    parser.add_argument("test")
    parser.add_argument("out")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=32)
    options = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    network = AutoModelForSequenceClassification.from_pretrained(options.model, num_labels=2)

    def encoded(path: str) -> list[dict]:
        rows = read(path)
        ids = tokenizer([row["text"] for row in rows], truncation=True, max_length=128)["input_ids"]
        return [{"input_ids": own, "labels": row["label"]} for own, row in zip(ids, rows, strict=True)]

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
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            use_cpu=not on_gpu,
        ),
        data_collator=DataCollatorWithPadding(tokenizer),
        train_dataset=encoded(options.train),
        eval_dataset=encoded(options.test),
        compute_metrics=lambda said: {"accuracy": float((said.predictions.argmax(-1) == said.label_ids).mean())},
        callbacks=[Ticks(clock)],
    )
    trainer.train()
    scores = trainer.evaluate()
    trainer.save_model()
    clock.report(accuracy=float(np.float64(scores["eval_accuracy"])))


if __name__ == "__main__":
    main()
