"""The sections [train] and [[optimizer.groups]] of a recipe: the budget, and parameters with other rates."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from canon.config import settings

_MOST = 1 << 53  # whole numbers up to here are exact in any arithmetic
Positive = Annotated[int, Field(gt=0, le=_MOST)]
Natural = Annotated[int, Field(ge=0, le=_MOST)]
Threads = Annotated[int, Field(ge=0, le=1024)]
Passes = Annotated[float, Field(gt=0, le=_MOST)]
Seed = Annotated[int, Field(ge=0, lt=1 << 63)]


@settings
class TrainConfig:
    steps: Positive | None = Field(default=None, description="optimiser steps; or give epochs")
    epochs: Passes | None = Field(default=None, description="passes over the training set")
    least_steps: Natural = Field(default=0, description="with epochs: at least so many steps, for small training sets")
    seconds: Annotated[float, Field(gt=0)] | None = Field(default=None, description="stop after so much training time")
    batch: Natural = Field(default=64, description="examples per optimiser step over all devices; 0: all of them")
    tokens: Natural = Field(
        default=0, description="target tokens per step, sentences of similar length together; in place of batch"
    )
    micro_batch: Natural = Field(default=0, description="most examples a device takes at once; 0: its whole share")
    seed: Seed = Field(default=0, description="decides first weights, order and noise")
    init: str = Field(default="", description="weights to start from: a run, or a checkpoint of another tool")
    embeddings: str = Field(
        default="", description="word vectors to begin with, of a run or a file: rows of known words are copied in"
    )
    device: Literal["auto", "cpu", "cuda", "mps"] = Field(default="auto", description="where to train")
    threads: Threads = Field(default=0, description="CPU threads; 0: all cores, but one for tiny networks")
    precision: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        default="auto", description="of the arithmetic; auto: bfloat16 on CUDA, else float32"
    )
    compile: Literal["auto", "on", "off"] = Field(
        default="auto", description="auto: on CUDA, for runs that are long enough to earn it back"
    )
    deterministic: bool = Field(default=False, description="only deterministic kernels (CUDA)")
    clip: Annotated[float, Field(gt=0)] | None = Field(default=None, description="largest norm of all gradients")
    clip_value: Annotated[float, Field(gt=0)] | None = Field(default=None, description="largest value of a gradient")
    nonfinite: Literal["stop", "skip"] = Field(default="stop", description="what a non-finite loss or gradient does")
    parallel: Literal["ddp", "fsdp"] = Field(default="ddp", description="under torchrun: copies, or shards (FSDP2)")
    shards: Literal["auto", "on", "off"] = Field(
        default="auto",
        description="checkpoints of FSDP2 in a file of each process; auto: if the whole takes a quarter of the memory",
    )
    log_every: Natural = Field(
        default=0, description="steps between lines of metrics.jsonl; 0: a hundredth of all, but 10 at least"
    )
    evaluate_every: Natural = Field(
        default=0, description="steps between evaluations; 0: a twentieth of all, but 10 at least"
    )
    checkpoint_every: Natural = Field(default=0, description="steps between checkpoints; 0: as evaluate_every")
    keep: Positive = Field(default=2, description="newest checkpoints kept, beside the best")
    monitor: str = Field(default="", description="validation metric that decides best; default: the task's")
    patience: Natural = Field(default=0, description="stop after so many evaluations without a better one; 0: never")
    tensorboard: bool = Field(default=False, description="write tensorboard/ too")


@settings
class Group:
    match: str = Field(description="a pattern of parameter names, as in output.*")
    lr: Annotated[float, Field(ge=0)] | None = Field(default=None, description="rate of these; 0 freezes them")
    weight_decay: Annotated[float, Field(ge=0)] | None = Field(default=None, description="of these")
