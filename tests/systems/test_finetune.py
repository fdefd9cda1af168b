"""Fine-tuning: heads by hand on BERT's states, rates by depth, frozen parts, weights of runs and folders, the verbs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import canon as library
from canon import recipe as recipes
from canon import registry
from canon.contracts import ParameterPace
from canon.data.encodings.framed import FramedSchema
from canon.data.targets import TARGETS
from canon.data.text.tokenizers import Tokenizer
from canon.errors import CanonError
from canon.interop.backbones import find
from canon.interop.huggingface import write_folder
from canon.nn.ragged import Layout
from canon.recipe import OptimizerChoice
from canon.systems.pretrained.finetune import Config, FineTune, build_backbone
from canon.tasks.base import Turn
from canon.tasks.table import FINE_TUNING
from canon.training.phases import Phase
from canon.training.run import Run
from canon.training.trainer import train
from tests.objectives.choices import choice
from tests.parity.huggingface import transformers_module
from tests.systems.pretrained_checks import logits_of
from tests.tasks.arrays import arrays

SIZES = {"dim": 12, "num_layers": 3, "num_heads": 3, "hidden": 20, "max_positions": 40}
STILL = {**SIZES, "dropout": 0.0, "attention_dropout": 0.0}
TOKEN_N = torch.tensor([2, 5, 6, 3, 2, 7, 3, 8, 9, 3])
SEGMENT_N = torch.tensor([0, 0, 0, 0, 0, 0, 0, 1, 1, 1])


def network(backbone: str = "bert", **changes: Any) -> FineTune:
    torch.manual_seed(0)
    sizes = {"backbone": backbone, "settings": STILL, "vocab_size": 11, "dropout": 0.0}
    return FineTune(Config(**{**sizes, **changes}))


def layout() -> Layout:
    return Layout(torch.tensor([4, 6]))


def states(made: FineTune) -> list[Tensor]:
    return made.backbone.encode(TOKEN_N, layout(), SEGMENT_N)


def linear(made: FineTune, x: Tensor) -> Tensor:
    return x @ made.head.weight.T + made.head.bias


# Heads


def test_heads_by_hand() -> None:
    """W tanh(W_p h_CLS) or W mean(h) of whole texts, W h at words' places, [S; E] h at all tokens, on BERT's last h."""
    made = network(num_classes=4, kind="class")
    hidden = states(made)[-1]
    pooled = torch.tanh(hidden[[0, 4]] @ made.backbone.pooler.weight.T + made.backbone.pooler.bias)
    torch.testing.assert_close(made(TOKEN_N, layout(), SEGMENT_N).outputs, linear(made, pooled))
    for kind, outputs in (("number", 1), ("choice", 1)):
        assert network(kind=kind)(TOKEN_N, layout(), SEGMENT_N).outputs.shape == (2, outputs)
    mean = network(kind="class", pooling="mean")
    assert mean.backbone.pooler is None
    means = torch.stack([own.mean(0) for own in states(mean)[-1].split([4, 6])])
    torch.testing.assert_close(mean(TOKEN_N, layout(), SEGMENT_N).outputs, linear(mean, means))
    tags = network(kind="tags", num_classes=4)
    places = torch.tensor([1, 2, 5, 7])
    torch.testing.assert_close(
        tags(TOKEN_N, layout(), SEGMENT_N, places).outputs, linear(tags, states(tags)[-1][places])
    )
    spans = network(kind="span")
    torch.testing.assert_close(spans(TOKEN_N, layout(), SEGMENT_N).outputs, linear(spans, states(spans)[-1]))
    assert spans(TOKEN_N, layout(), SEGMENT_N).outputs.shape == (10, 2)


def test_layers_side_by_side_a_mix_and_an_lstm() -> None:
    """Concatenation, γ Σ softmax(w)_j h_j, and torch's own LSTM on each sequence; whole texts by the mean of tokens."""
    made = network(kind="tags", layers=(-2, 0, -1))
    hidden = states(made)
    joined = torch.cat([hidden[-2], hidden[0], hidden[-1]], 1)
    torch.testing.assert_close(made(TOKEN_N, layout(), SEGMENT_N, torch.arange(10)).outputs, linear(made, joined))
    mixed = network(kind="tags", mix=True)
    with torch.no_grad():
        mixed.mix.weights.copy_(torch.tensor([0.0, 1.0, 2.0, -1.0]))
        mixed.mix.scale.fill_(3.0)
    shares = torch.tensor([0.0, 1.0, 2.0, -1.0]).softmax(0)
    wanted = 3 * sum(share * state for share, state in zip(shares, states(mixed), strict=True))
    torch.testing.assert_close(mixed(TOKEN_N, layout(), SEGMENT_N, torch.arange(10)).outputs, linear(mixed, wanted))
    recurrent = network(kind="class", lstm=5)
    theirs = nn.LSTM(12, 5, bidirectional=True, batch_first=True)
    theirs.load_state_dict(recurrent.lstm.network.state_dict())
    hidden = states(recurrent)[-1]
    means = torch.stack([theirs(own[None])[0][0].mean(0) for own in hidden.split([4, 6])])
    torch.testing.assert_close(recurrent(TOKEN_N, layout(), SEGMENT_N).outputs, linear(recurrent, means))


@pytest.mark.parametrize("backbone", ["bert", "roberta", "gpt", "gpt2", "unilm", "t5", "xlnet"])
@pytest.mark.parametrize("kind", ["class", "tags", "span"])
def test_every_parameter_of_every_backbone_learns(backbone: str, kind: str) -> None:
    """What only pre-training uses is not there; all that is left gets a gradient."""
    sizes = {key: value for key, value in STILL.items() if key != "max_positions" or backbone not in ("t5", "xlnet")}
    made = network(backbone, kind=kind, settings=sizes)
    places = torch.tensor([1, 5]) if kind == "tags" else None
    segments = torch.zeros_like(SEGMENT_N) if backbone == "roberta" else SEGMENT_N
    made(TOKEN_N, layout(), segments, places).outputs.square().sum().backward()
    for name, parameter in made.named_parameters():
        assert parameter.grad is not None, name
    names = {name.split(".")[1] for name, _ in made.named_parameters() if name.startswith("backbone.")}
    assert not names & {"decoder", "next", "softmax", "head"}
    assert ("pooler" in names) == (kind == "class" and backbone in ("bert", "unilm"))


def test_layers_that_are_not_there() -> None:
    with pytest.raises(CanonError, match=r"system\.layers: the backbone has layers 0 \(its embeddings\) to 3"):
        network(layers=(4,))
    with pytest.raises(CanonError, match=r"leaves out the last layer, which then cannot learn: set system\.frozen"):
        network(layers=(1, 2))
    assert network(layers=(1, 2), frozen=True).head.in_features == 24
    with pytest.raises(CanonError, match=r"system\.backbone: mlp cannot be fine-tuned"):
        network("mlp", settings={}, vocab_size=4)


# The auxiliary objective


def auxiliary_batch(kind: str) -> dict[str, Tensor]:
    """Two sequences of 4 and 6 tokens: of two examples, or of one where there are choices or windows."""
    host = lambda *values: torch.tensor(values)  # noqa: E731
    batch = {"input": TOKEN_N, "segment": SEGMENT_N, "input_lengths": host(4, 6), "part_lengths": host(1, 1)}
    if kind == "class":
        return {**batch, "target": host(1, 0)}
    if kind == "choice":
        return {**batch, "part_lengths": host(2), "target": host(1)}
    if kind == "tags":
        words = {"places": host(0, 1, 5), "marks": host(0, 1, 0), "place_lengths": host(2, 1)}
        return {**batch, **words, "width_lengths": host(2).sum(), "target": host(1, 0, 1), "target_lengths": host(2, 1)}
    pieces = {"places": host(1, 2, 5, 6), "marks": host(0, 1, 0, 1), "place_lengths": host(2, 2)}
    return {**batch, **pieces, "part_lengths": host(2), "target": torch.tensor([[1, 2], [1, 1]])}


@pytest.mark.parametrize("kind", ["class", "choice", "tags", "span"])
def test_the_auxiliary_objective_by_hand(kind: str) -> None:
    """L₂ + λ L₁ of GPT-1 (equation 5) and its gradients, from the backbone's own logits by torch's cross-entropy: the
    mean over each sequence's next tokens, and over sequences by their targets. Scores tell the same numbers."""
    made = network("gpt", kind=kind, auxiliary=0.5)
    plain = network("gpt", kind=kind)
    schema = FramedSchema(TARGETS[kind](("a", "b")), framing="gpt", limit=64)
    chosen = (choice("finetune", "fine-tuning", auxiliary=share) for share in (0.5, 0.0))
    task, other = (FINE_TUNING[TARGETS[kind]](own, Config(kind=kind), schema) for own in chosen)  # type: ignore[arg-type]
    batch = auxiliary_batch(kind)
    logits = logits_of(plain.backbone, TOKEN_N, layout())
    means = [F.cross_entropy(logits[:3], TOKEN_N[1:4]), F.cross_entropy(logits[4:9], TOKEN_N[5:10])]
    weights = {"class": (1, 1), "choice": (0.5, 0.5), "tags": (2, 1), "span": (1, 1)}[kind]
    assert sum(weights) == task.count(batch)
    language = torch.stack([weight * mean for weight, mean in zip(weights, means, strict=True)]).sum()
    wanted = other.loss(plain, batch, "all", Turn()) + 0.5 * language
    turn = Turn()
    actual = task.loss(made, batch, "all", turn)
    torch.testing.assert_close(actual, wanted)
    actual.backward()
    wanted.backward()
    for (name, mine), theirs in zip(made.named_parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, msg=lambda reported, name=name: f"{name}: {reported}")
    total, count = turn.observed["language_loss"]
    language, wanted = language.detach(), wanted.detach()
    assert float(total) / count == pytest.approx(float(language) / sum(weights), rel=1e-5)
    with torch.no_grad():
        outputs = task.run(made, batch, Turn())
    task.measure = lambda outputs, columns: {}  # type: ignore[method-assign]
    scores = task.score(arrays(outputs), {})
    assert scores["loss"] == pytest.approx(float(wanted) / sum(weights), rel=1e-5)
    assert scores["language_loss"] == pytest.approx(float(language) / sum(weights), rel=1e-5)
    assert task.names()[:2] == ("loss", "language_loss") and other.names()[1] != "language_loss"


def test_the_auxiliary_objective_in_micro_batches(canon: Callable[..., Any]) -> None:
    """Texts of unequal length by threes or all at once: the same numbers are logged. λ = 0 logs none."""
    reviews()
    own = ["--set", "system.name=finetune:tiny", "--set", "system.backbone=gpt", "--set", "optimizer.lr=0.01"]
    for run, more in (("whole", ["train.micro_batch=0"]), ("parts", ["train.micro_batch=3"])):
        changes = [
            word for change in (*more, "objective.auxiliary=0.5", "train.log_every=1") for word in ("--set", change)
        ]
        done = canon("train", "finetune", "--data", "reviews.csv", "--out", run, *own, *SHORT, *changes)
        assert done.code == 0, done.err
    whole, parts = ([row for row in Run.open(run).metrics() if "train/loss" in row] for run in ("whole", "parts"))
    assert len(whole) == 6 and whole[-1]["train/language_loss"] < whole[0]["train/language_loss"]
    for one, two in zip(whole, parts, strict=True):
        for name in ("train/loss", "train/language_loss"):
            assert one[name] == pytest.approx(two[name], rel=1e-5)
    scores = Run.open("whole").result["scores"]["test"]  # type: ignore[index]
    assert json.loads(canon("evaluate", "whole", "--json").out) == pytest.approx(scores) and "language_loss" in scores
    assert json.loads(canon("predict", "whole", "a good film", "--json").out)[0]["prediction"]
    done = canon("train", "finetune", "--data", "reviews.csv", "--out", "none", *own, *SHORT)
    assert done.code == 0 and not any("train/language_loss" in row for row in Run.open("none").metrics())


def test_who_has_no_auxiliary_objective() -> None:
    with pytest.raises(CanonError, match="networks that read from left to right, as gpt does and bert does not"):
        network(auxiliary=0.5)
    with pytest.raises(CanonError, match=r"teaches the backbone, which system\.frozen keeps as it is"):
        network("gpt2", auxiliary=0.5, frozen=True)


# Rates


def test_rates_fall_with_depth_and_only_matrices_decay() -> None:
    """λ^(L+1) for embeddings, λ^(L−i) for block i of L, 1 above; biases and norms do not decay."""
    made = network(layer_decay=0.5, kind="class")
    paces = made.paces()
    assert paces["head.weight"] == ParameterPace(1.0, True) and paces["head.bias"] == ParameterPace(1.0, False)
    assert paces["backbone.pooler.weight"] == ParameterPace(1.0, True)
    assert paces["backbone.embedding.token.weight"] == ParameterPace(0.5**4, True)
    assert paces["backbone.embedding.norm.weight"] == ParameterPace(0.5**4, False)
    for block in range(3):
        assert paces[f"backbone.layers.blocks.{block}.feed_forward.inner.weight"] == ParameterPace(
            0.5 ** (3 - block), True
        )
    assert set(paces) == {name for name, _ in made.named_parameters()}


def test_the_optimiser_has_these_rates() -> None:
    """Every parameter in a group with lr · its share, beside optimizer.groups; first the whole rate, the logged one."""
    made = network(layer_decay=0.5, kind="class")
    choice = recipes.load("pretrained/finetune").optimizer
    groups = (recipes.Group(match="head.*", lr=0.25, weight_decay=0.75),)
    choice = OptimizerChoice(choice.name, choice.settings, choice.schedule, groups)
    parameters = list(made.named_parameters())
    phase = Phase("all", choice, parameters, made.paces())
    named = {id(parameter): name for name, parameter in parameters}
    values = {}
    for group in phase.optimizer.param_groups:
        for parameter in group["params"]:
            values[named[id(parameter)]] = group["lr"], group["weight_decay"]
    assert len(values) == len(parameters)
    for name, (share, decays, _) in made.paces().items():
        head = name.startswith("head.")
        rate = 0.25 if head else choice.settings.lr
        assert values[name][0] == pytest.approx(rate * share)
        assert values[name][1] == (0.75 if head else choice.settings.weight_decay if decays else 0.0), name
    assert phase.names == [named[id(parameter)] for parameter in phase.parameters]
    assert phase.optimizer.param_groups[0]["lr"] in (0.25, choice.settings.lr)


# Weights


def tokenizer() -> Tokenizer:
    words = "the cat sat on a mat good bad film fine dull nice 我 在 北 京 where is it ?"
    return Tokenizer.train([words] * 2, "wordpiece", 120, mask=True)


def folder(system: str = "bert", name: str = "net", **changes: Any) -> Path:
    """A folder of Hugging Face's with random weights."""
    own = tokenizer()
    record = registry.find(system)[0]
    config = record.configure("", {**STILL, "vocab_size": own.size, **changes})
    torch.manual_seed(1)
    made = record.load()[1](config)
    shutil.rmtree(name, ignore_errors=True)
    write_folder(name, system, vars(config), made.state_dict(), own)
    find.cache_clear()
    return Path(name)


def reviews(rows: int = 40) -> Path:
    generator = np.random.default_rng(0)
    lines = ["text,label"]
    for row in range(rows):
        word = ("good", "fine", "nice")[row % 3] if row % 2 else ("bad", "dull")[row % 4 // 2]
        filler = generator.choice(["the cat", "a mat", "film", "sat on"], 3)
        lines.append(f"{filler[0]} {filler[1]} {word} {filler[2]},{'positive' if row % 2 else 'negative'}")
    Path("reviews.csv").write_text("\n".join(lines) + "\n")
    return Path("reviews.csv")


SHORT = ["--set", "train.steps=6", "--set", "train.batch=8", "--set", "train.device=cpu", "--quiet"]


def test_weights_of_a_folder_bit_for_bit(canon: Callable[..., Any]) -> None:
    """The frozen backbone is the folder's; the run says which system that is, keeps its tokenizer, and needs the folder
    no more."""
    path = folder()
    _, theirs = find(str(path))
    done = canon(
        "train",
        "finetune",
        "--set",
        f"from={path}",
        "--data",
        reviews(),
        "--out",
        "run",
        *SHORT,
        "--set",
        "system.frozen=true",
    )
    assert done.code == 0, done.err
    run = Run.open("run")
    assert run.recipe.config.backbone == "bert" and run.recipe.config.settings["num_layers"] == 3
    assert run.recipe.train.init == "net" and run.recipe.config.kind == "class"
    weights = load_file(run.best() / "model.safetensors")
    for name, tensor in weights.items():
        if name.startswith("backbone."):  # frozen
            assert torch.equal(tensor, theirs.tensors[name.removeprefix("backbone.")]), name
    log = (run.path / "log.txt").read_text()
    assert 'The text is the column "text", the label is the column "label"' in log and "The task: a class." in log
    assert "newly initialised: head.weight, head.bias." in log and "left out: head.dense.weight" in log
    assert run.schema.tokenizers["text"].to_json() == theirs.tokenizer.to_json()  # type: ignore[union-attr]
    shutil.rmtree(path)
    find.cache_clear()
    assert library.load("run").evaluate()["accuracy"] >= 0.0
    assert canon("train", "run", "--resume", "--set", "train.steps=8", "--quiet").code == 0


def test_training_equals_transformers(canon: Callable[..., Any]) -> None:
    """Six steps of the trainer on all rows at once, and the same by transformers' network with torch's AdamW, clipping
    and linear schedule: exported, both have the same weights."""
    transformers = transformers_module()
    path, steps, lr = folder(), 6, 1e-3
    settings = [
        *("--set", f"from={path}", "--data", reviews(), "--set", "data.valid=0", "--set", "data.test=0"),
        *("--set", "system.dropout=0", "--set", "train.batch=40", "--set", f"train.steps={steps}", "--quiet"),
        *("--set", "train.device=cpu", "--set", "optimizer.schedule.warmup=2", "--set", "train.clip=0.5"),
    ]
    for name, rate in (("still", 1e-30), ("moved", lr)):
        done = canon("train", "finetune", *settings, "--out", name, "--set", f"optimizer.lr={rate}")
        assert done.code == 0, done.err
        done = canon("convert", name, f"{name}-folder", "--to", "huggingface")
        assert done.code == 0, done.err
    made, wanted = (
        transformers.AutoModelForSequenceClassification.from_pretrained(f"{name}-folder").train()
        for name in ("still", "moved")
    )
    for module in made.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    rows = [line.rsplit(",", 1) for line in reviews().read_text().splitlines()[1:]]
    given = transformers.AutoTokenizer.from_pretrained("still-folder")(
        [text for text, _ in rows], padding=True, return_tensors="pt"
    )
    labels = torch.tensor([made.config.label2id[label] for _, label in rows])
    first = {name: parameter.detach().clone() for name, parameter in made.named_parameters()}
    decaying = [parameter for parameter in made.parameters() if parameter.dim() > 1]
    others = [parameter for parameter in made.parameters() if parameter.dim() == 1]
    groups = [{"params": decaying, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=lr)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / 2, (steps - step - 1) / (steps - 2))
    )
    for _ in range(steps):
        optimizer.zero_grad()
        made(**given, labels=labels).loss.backward()
        nn.utils.clip_grad_norm_(made.parameters(), 0.5)
        optimizer.step()
        schedule.step()
    moved = 0.0
    for (name, mine), theirs in zip(made.named_parameters(), wanted.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=2e-5, msg=lambda text, name=name: f"{name}: {text}")
        moved = max(moved, float((theirs.detach() - first[name]).abs().max()))
    assert moved > 1e-3


def test_a_fine_tuned_run_goes_on(canon: Callable[..., Any]) -> None:
    """`from` a run of fine-tuning takes its backbone for another task."""
    path = folder()
    assert canon("train", "finetune", "--set", f"from={path}", "--data", reviews(), "--out", "one", *SHORT).code == 0
    Path("tags.conll").write_text("the DET\ncat NOUN\n\na DET\nmat NOUN\n\nthe DET\nfilm NOUN\n")
    done = canon(
        "train",
        "finetune",
        "--set",
        "from=one",
        "--data",
        "tags.conll",
        "--out",
        "two",
        *SHORT,
        "--set",
        "data.test=0.4",
        "--set",
        "data.valid=0.0",
        "--set",
        "optimizer.lr=1e-12",
    )
    assert done.code == 0, done.err
    first, second = (load_file(Run.open(name).best() / "model.safetensors") for name in ("one", "two"))
    key = "backbone.layers.blocks.1.attention.qkv.weight"
    torch.testing.assert_close(first[key], second[key])
    assert "backbone.pooler.weight" in first and "backbone.pooler.weight" not in second


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (["system.frozen=true"], "system.frozen keeps a pre-trained network as it is: give one, --set from=RUN_OR_"),
        (["from=nowhere"], "from: there is no run, file or folder nowhere; accepted: a run, a folder of sentence-"),
        (
            ["from=net", "system.backbone=gpt2"],
            "system.backbone is gpt2 (from --set), but net is of bert: leave it out.",
        ),
        (["from=net", "system.settings={num_layers = 4}"], "from: net lacks layers.blocks.3.attention."),
        (
            ["from=net", "system.settings={hidden = 24}"],
            "from: net has layers.blocks.0.feed_forward.inner.weight [20, 12] where",
        ),
        (
            ["from=net", "data.tokenizer=bpe"],
            "net needs the tokenizer that it was trained with: leave data.tokenizer out",
        ),
    ],
)
def test_what_does_not_fit_is_one_sentence(settings: list[str], sentence: str, canon: Callable[..., Any]) -> None:
    folder()
    more = [word for setting in settings for word in ("--set", setting)]
    done = canon("train", "finetune", "--data", reviews(), "--out", "run", *SHORT, *more)
    assert done.code == 2 and done.err.startswith(f"canon: {sentence}"), done.err
    assert not Path("run").exists()


def test_a_tokenizer_that_does_not_match_the_weights(canon: Callable[..., Any]) -> None:
    """Of a folder both sizes and both files are named; of a run, the file that was changed."""
    path = folder()
    other = Tokenizer.train([" ".join(f"w{number}" for number in range(300))], "word", mask=True)
    (path / "tokenizer.json").write_text(other.to_json())
    find.cache_clear()
    done = canon("train", "finetune", "--set", "from=net", "--data", reviews(), "--out", "run", *SHORT)
    assert done.code == 2 and f"has {other.size:,} tokens" in done.err and f"{tokenizer().size:,}" in done.err
    assert "tokenizer.json" in done.err and "model.safetensors" in done.err
    folder()
    assert canon("train", "finetune", "--set", "from=net", "--data", reviews(), "--out", "run", *SHORT).code == 0
    Path("run/vocab/text.json").write_text(other.to_json())
    find.cache_clear()
    done = canon("train", "finetune", "--set", "from=run", "--data", reviews(), "--out", "again", *SHORT)
    assert done.code == 2 and "run/vocab/text.json is not as it was written" in done.err


def test_changed_weights_of_a_run_are_refused(canon: Callable[..., Any]) -> None:
    folder()
    assert canon("train", "finetune", "--set", "from=net", "--data", reviews(), "--out", "run", *SHORT).code == 0
    file = Run.open("run").best() / "model.safetensors"
    tensors = load_file(file)
    del tensors["backbone.layers.blocks.2.attention.output.bias"]
    save_file(tensors, file)
    find.cache_clear()
    done = canon("train", "finetune", "--set", "from=run", "--data", reviews(), "--out", "again", *SHORT)
    assert done.code == 2 and "model.safetensors has" in done.err and "were written" in done.err


def test_weights_of_elmos_published_files(canon: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The frozen states of a text's words are those of the files' network asked for these words; the vocabulary is the
    data's, and the run needs the files no more."""
    from canon.interop import elmo
    from tests.interop.test_elmo import OPTIONS, original_arrays

    Path("elmo").mkdir()
    Path("elmo/my_options.json").write_text(json.dumps(OPTIONS))
    Path("elmo/my_weights.hdf5").write_bytes(b"")
    monkeypatch.setattr(elmo, "_read_hdf5", lambda path: original_arrays())
    find.cache_clear()
    theirs = elmo.read("elmo")
    features = ["--set", "system.frozen=true", "--set", "system.mix=true"]
    done = canon("train", "finetune", "--set", "from=elmo", "--data", reviews(), "--out", "run", *SHORT, *features)
    assert done.code == 0, done.err
    shutil.rmtree("elmo")
    find.cache_clear()
    model = library.load("run")
    vocabulary = model.schema.tokenizers["text"]
    assert vocabulary.kind == "word" and model.run.recipe.config.backbone == "elmo"
    words = ["a", "nice", "film"]
    ids = torch.tensor([2, *vocabulary.encode([" ".join(words)])[0].tolist(), 3])
    with torch.no_grad():
        ours = model.network.eval().backbone.encode(ids, Layout(torch.tensor([5])))
        wanted = theirs.encode_words([words])[0]
    torch.testing.assert_close(torch.stack(ours)[:, 1:-1], wanted)
    assert "loss" in model.evaluate() and canon("predict", "run", "a nice film").code == 0


# Learning


def test_a_toy_task_is_learned_to_the_last_example() -> None:
    """From random weights, with the tokenizer made of the data: all of train and of the held-out part."""
    settings = {
        "system.name": "finetune:tiny",
        "train.steps": 150,
        "train.batch": 16,
        "train.device": "cpu",
        "optimizer.lr": 0.01,
        "optimizer.schedule": {"name": "linear", "warmup": 0.1},
        "train.seed": 3,
    }
    train("pretrained/finetune", str(reviews(120)), "run", changes=settings, quiet=True)
    scores = Run.open("run").result["scores"]  # type: ignore[index]
    assert scores["train"]["accuracy"] == scores["test"]["accuracy"] == 1.0


def squad_file() -> None:
    words = ["cat", "mat", "film"]
    articles = []
    for number in range(24):
        context = f"the {words[number % 3]} sat on a {words[(number + 1) % 3]} where it is good , nice and fine ."
        answer = words[number % 3]
        qas = [{"id": str(number), "question": "where is it ?", "answers": [{"text": answer, "answer_start": 4}]}]
        articles.append({"title": str(number), "paragraphs": [{"context": context, "qas": qas}]})
    Path("squad.json").write_text(json.dumps({"data": articles}))


def tag_file() -> None:
    kinds = {"the": "DET", "a": "DET", "cat": "NOUN", "mat": "NOUN", "sat": "VERB", "on": "ADP", "good": "ADJ"}
    generator = np.random.default_rng(1)
    sentences = [generator.choice(list(kinds), generator.integers(2, 6)) for _ in range(40)]
    Path("tags.conll").write_text("\n\n".join("\n".join(f"{w} {kinds[w]}" for w in s) for s in sentences) + "\n")


def choice_file() -> None:
    rows = [
        {"question": "what is it ?", "choices": [f"a {a} mat", f"the {b} cat"], "answer": int(b in ("good", "nice"))}
        for a, b in [("good", "bad"), ("dull", "nice"), ("nice", "dull"), ("bad", "good")] * 10
    ]
    Path("choices.jsonl").write_text("\n".join(json.dumps(row) for row in rows) + "\n")


def number_file() -> None:
    lines = ["sentence1,sentence2,score"]
    lines += [f"{a},{b},{5.0 if a == b else 0.5}" for a in ("cat", "mat", "film") for b in ("cat", "mat", "film")] * 5
    Path("pairs.csv").write_text("\n".join(lines) + "\n")


KINDS: dict[str, tuple[Callable[[], object], str, str, str]] = {
    "class": (lambda: reviews(), "reviews.csv", "a good film", "accuracy"),
    "number": (number_file, "pairs.csv", "cat\tmat", "spearman"),
    "tags": (tag_file, "tags.conll", "the cat sat", "tag_accuracy"),
    "span": (squad_file, "squad.json", "where is it ?\tthe cat sat on a mat .", "f1"),
    "choice": (choice_file, "choices.jsonl", "what is it ?\ta good mat\tthe bad cat", "accuracy"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_trains_evaluates_predicts_and_resumes(kind: str, canon: Callable[..., Any]) -> None:
    """The verbs on a run of each kind: loss falls, evaluate gives the result's scores, predict gives a record."""
    make, data, text, metric = KINDS[kind]
    make()
    settings = ["--set", "system.name=finetune:tiny", "--set", "train.steps=40", "--set", "train.batch=8"]
    settings += ["--set", "train.device=cpu", "--set", "optimizer.lr=0.01", "--set", "data.test=0.2", "--quiet"]
    done = canon("train", "finetune", "--data", data, "--out", "run", *settings, "--set", "train.log_every=5")
    assert done.code == 0, done.err
    run = Run.open("run")
    losses = [row["train/loss"] for row in run.metrics() if "train/loss" in row]
    assert losses[-1] < losses[0]
    assert run.result is not None and metric in run.result["scores"]["test"]
    log = (run.path / "log.txt").read_text()
    assert log.count("The task: ") == 1 and ("A guess by" in log) == (kind in ("class", "number", "tags"))
    evaluated = canon("evaluate", "run", "--json")
    assert json.loads(evaluated.out) == pytest.approx(run.result["scores"]["test"])
    other = json.loads(canon("evaluate", "run", "--data", data, "--json").out)
    assert set(other) == set(run.result["scores"]["test"])
    record = json.loads(canon("predict", "run", text, "--json").out)[0]
    assert record["source"] == text[:60] and "prediction" in record
    if kind == "span":
        assert record["prediction"] in "the cat sat on a mat ." and record["top"][0]["probability"] > 0
    if kind == "tags":
        assert record["words"] == ["the", "cat", "sat"] and len(record["tags"]) == 3
    rows = {"class": 40, "number": 45, "tags": 40, "span": 24, "choice": 40}[kind]
    assert len(json.loads(canon("predict", "run", data, "--json").out)) == rows


def test_batches_by_tokens(canon: Callable[..., Any]) -> None:
    """train.tokens: texts of similar length together, so many tokens a step."""
    path = folder()
    done = canon(
        "train",
        "finetune",
        "--set",
        f"from={path}",
        "--data",
        reviews(),
        "--out",
        "run",
        "--set",
        "train.tokens=64",
        "--set",
        "train.epochs=1",
        "--set",
        "train.device=cpu",
        "--quiet",
    )
    assert done.code == 0, done.err
    assert Run.open("run").result["steps"] > 2  # type: ignore[index]


def test_several_seeds_have_a_mean_and_a_deviation(canon: Callable[..., Any]) -> None:
    path = folder()
    command = ["compare", "finetune", "--data", reviews(), "--set", f"from={path}", "--seeds", "2"]
    command += ["--budget", "steps=4", "--set", "train.device=cpu", "--out", "compared"]
    done = canon(*command)
    assert done.code == 0, done.err
    assert "accuracy" in done.out and Path("compared/finetune/seed-1/result.json").is_file()
    assert canon(*command).code == 0  # the same again takes the runs as they are


def test_two_networks_are_compared_on_the_same_examples(canon: Callable[..., Any]) -> None:
    """Of other systems and tokenizers, and random: the same split, so that their scores may stand side by side."""
    for system in ("bert", "gpt2"):
        path = folder(system, f"net-{system}")
        more = ["--data", reviews(), "--set", f"from={path}", "--out", f"run-{system}", *SHORT]
        assert canon("train", "finetune", *more).code == 0
    random = ["--data", reviews(), "--set", "system.backbone=bert:tiny", "--out", "run-random", *SHORT]
    assert canon("train", "finetune", *random).code == 0
    done = canon("compare", "run-bert", "run-gpt2", "run-random", "--out", "compared")
    assert done.code == 0, done.err


def test_building_needs_no_weights() -> None:
    """On the meta device, as reading the data does to learn framing and limit."""
    with torch.device("meta"):
        made: Any = build_backbone(Config(backbone="bert:tiny", vocab_size=20))
    assert made.framing == "bert" and made.limit > 0 and all(p.is_meta for p in made.parameters())


def test_warm_up_as_a_share_of_all_steps() -> None:
    """0.1 of 200 steps is 20 steps: the same rates."""
    from canon.optim.schedules import Schedule, multiplier

    share, steps = Schedule(name="linear", warmup=0.1), Schedule(name="linear", warmup=20)
    assert [multiplier(share, step, 200) for step in range(1, 201)] == [
        multiplier(steps, step, 200) for step in range(1, 201)
    ]
