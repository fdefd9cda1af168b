"""The numbers in the files of every run: their names, grouped by meaning, and what they mean."""

from __future__ import annotations

Meanings = dict[tuple[str, ...], str]

# metrics.jsonl
PROGRESS: Meanings = {("step", "epoch"): "steps done; examples seen / training examples"}
GRADIENT: Meanings = {  # of each phase, beside its loss; {} is the phase's setting
    ("train/lr",): "learning rate of this step: {} × the schedule's multiplier",
    ("train/gradient_norm",): "‖g‖ before clipping, of the last step; only with `train.clip`",
}
SKIPPED: Meanings = {
    ("train/skipped_steps",): "steps left out so far, where there are any (`train.nonfinite`)",
}
TIMING: Meanings = {
    ("seconds",): "of training, over all sittings",
    ("examples_per_second",): "examples since this sitting began / its seconds",
    ("share_of_peak",): "6 × multiply-adds of the network × examples per second / the device's peak FLOP/s; 0 where "
    "the peak is unknown or the system learns without gradients",
    ("memory_bytes",): "most memory in use so far: the GPU's, or this process's",
}
RESULT: Meanings = {
    ("recipe", "system", "seed"): "what was run",
    ("steps", "best_step", "ended"): "steps made, the step whose weights are used, and why the run ended",
    ("scores.train", ".valid", ".test"): "loss and metrics at the best weights, or the last where nothing is validated",
    ("warnings",): "that the run is no better than a guess that looks at no input, or that its loss did not fall",
    ("threshold",): "two classes: the least probability of the second one to be predicted, where it is not ½",
    ("remarks",): "sentences beside the scores: the signature of sacreBLEU",
    ("risk_examples",): "training examples that are scored: no more than a network learned from, but 1,000",
    ("risk.empirical",): "the loss on those training examples at the best weights",
    ("risk.structural",): "the empirical risk plus the system's penalty; without one the same number",
    ("risk.generalization",): "the loss on the test set",
    ("expected",): "the recipe's ranges; empty where a setting that decides them was changed",
    ("protocol.data", ".source", ".split", ".seed", ".sizes"): "fingerprint of the data; how it was split",
    ("protocol.python", ".languages"): "of some sets: the Python they are part of; from which to which",
    ("cost.seconds", ".examples", ".examples_per_second"): "as above; examples = steps × batch",
    ("cost.parameters",): "numbers that were learned",
    ("cost.memory_bytes", ".device", ".processes"): "as above; cpu, cuda or mps; processes of torchrun",
}
PASSAGES: Meanings = {("protocol.max_length",): "most tokens of a passage"}
ENVIRONMENTS: Meanings = {
    ("protocol.arguments", ".max_steps"): "the environment's arguments; its limit of steps",
    ("last.test",): "scores of the last weights, where they are not the best",
}
EVENTS: Meanings = {("protocol.holdout", ".protocol"): "what is held out, and which items are ranked"}
