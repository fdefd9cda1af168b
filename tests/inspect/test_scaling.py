"""What training costs on many devices: against closed forms, and against what a real step keeps."""

from __future__ import annotations

import json

import pytest
import torch
from torch import Tensor

from canon import recipe as recipes
from canon import registry
from canon.errors import CanonError
from canon.inspect.scaling import kept_by, scaling
from canon.inspect.summary import task_of


def test_gpt2_xl_by_hand() -> None:
    """1.5 B parameters on 8 and on 64 devices: sums, memory, traffic and time of the paper calculation."""
    changes = {"train.batch": 512, "train.micro_batch": 4, "system.dropout": 0.0, "system.attention_dropout": 0.0}
    recipe = recipes.load("gpt2:xl", changes=changes)
    layers, dim, vocabulary, places = 48, 1600, 50257, 1024
    block = 12 * dim**2 + 13 * dim
    parameters = layers * block + (vocabulary + places) * dim + 2 * dim
    for devices, bandwidth in ((8, 300e9), (64, 40e9)):
        costs = scaling(recipe, devices)
        example, turns = costs.example, 512 // devices // 4
        assert example.parameters == parameters == 1_557_611_200
        assert (example.weights, example.largest_part) == (4 * parameters, 4 * block)
        assert example.root == 4 * (parameters - layers * block) and example.tokens == places
        # Two moments of AdamW, and a step for each of 12 tensors in a block and 4 others.
        assert example.optimizer == 8 * parameters + 4 * (12 * layers + 4)
        # Products with every weight but the places, and attention: 2 · T of them for each feature of a token.
        products = places * (parameters - places * dim - layers * 9 * dim - 2 * dim) - layers * 4 * dim * places
        assert example.operations == pytest.approx(6 * (products + layers * 2 * places**2 * dim), rel=1e-3)
        # A token in a block: 8 D of residual sums (float32), 4 of norms, 6 of queries, keys and values, 2 of what is
        # attended to, 16 of the feed-forward network.
        assert example.kept == pytest.approx(36 * layers * dim * places, rel=0.03)
        ddp, fsdp = costs.costs
        assert ddp.memory == 8 * parameters + example.optimizer + example.copies + 4 * example.kept
        assert ddp.traffic == pytest.approx(2 * (devices - 1) / devices * 4 * parameters)
        assert fsdp.weights * devices == pytest.approx(4 * parameters, rel=1e-6)
        parts = 4 * layers * block
        assert fsdp.traffic == pytest.approx(
            (devices - 1) / devices * turns * (2 * parts + 4 * parameters + example.root)
        )
        computing = 512 / devices * example.operations / 400e12
        assert ddp.computing == fsdp.computing == pytest.approx(computing)
        assert ddp.step == pytest.approx(computing + max(0, ddp.traffic / bandwidth - 2 / 3 * computing / turns))
        assert fsdp.step == pytest.approx(max(computing, fsdp.traffic / bandwidth))


@pytest.mark.parametrize("name", ["gpt2:tiny", "bert:tiny", "mlp:tiny", "lenet:tiny"])
def test_the_dry_run_keeps_what_a_real_one_does(name: str) -> None:
    """In float32 on this machine, where attention is torch's flash kernel too."""
    system, preset = registry.find(name)
    off = {} if name in ("mlp:tiny", "lenet:tiny") else {"dropout": 0.0, "attention_dropout": 0.0, "vocab_size": 99}
    config = system.configure(preset, off)
    task = task_of(system, config, 24 if off else 0)
    with torch.device("meta"):
        shapes = system.load()[1](config)
    copies, kept = kept_by(shapes, task, torch.float32)
    network = system.load()[1](config).train()
    own = {parameter.untyped_storage()._cdata for parameter in network.parameters()}
    storages = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in own:
            storages[storage._cdata] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        task.trial(network, *task.example())
    real = sum(storage.nbytes() for storage in storages.values())
    assert copies == 0 and kept == pytest.approx(real, rel=0.02)


def test_half_precision_keeps_less() -> None:
    changes = {"train.batch": 8, "system.dropout": 0.0}
    half, full = (
        scaling(recipes.load("gpt2:tiny", changes={**changes, "train.precision": precision}), 2).example
        for precision in ("bfloat16", "float32")
    )
    assert 0.4 * full.kept < half.kept < 0.8 * full.kept
    assert full.copies == 0 < half.copies < full.weights / 2


def test_on_the_command_line(canon) -> None:
    flags = ("--set", "train.batch=64", "--set", "train.parallel=fsdp")
    plain = json.loads(canon("describe", "gpt2:tiny", "--devices", "4", "--json", *flags).out)["scaling"]
    assert (plain["devices"], plain["batch"], plain["micro_batch"]) == (4, 64, 16)
    assert [cost["parallel"] for cost in plain["costs"]] == ["ddp", "fsdp"]
    one = json.loads(canon("describe", "gpt2:tiny", "--devices", "1", "--json").out)["scaling"]["costs"]
    assert one[0]["traffic"] == one[1]["traffic"] == 0
    shown = canon("describe", "gpt2:tiny", "--devices", "4", *flags).out
    assert "training on 4 devices: 64 examples of " in shown and "tokens/s" in shown
    assert canon("describe", "adaboost", "--devices", "2").err == (
        "canon: adaboost learns without gradients, and on one device.\n"
    )
    for number in ("-1", "0"):
        assert "--devices must be a positive whole number" in canon("describe", "mlp", "--devices", number).err
    assert "--rate and --bandwidth must be positive" in canon("describe", "mlp", "--devices", "2", "--rate", "0").err


def test_a_batch_of_everything_is_refused() -> None:
    with pytest.raises(CanonError, match=r"^train.batch = 0 is all examples"):
        scaling(recipes.load("mlp", changes={"train.batch": 0}), 2)
