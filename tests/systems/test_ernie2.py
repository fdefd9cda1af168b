"""ERNIE 2.0: every task's loss falls below that of guessing, and a step of one task leaves no parameter without one."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from canon.data.batching.draws import EVALUATION, Draws
from canon.data.batching.passages import Passages
from canon.data.encodings.passages import PassageSchema
from canon.data.targets import HiddenTokens
from canon.data.text.framing import Specials
from canon.data.text.tokenizers import Tokenizer
from canon.nn.ragged import Layout
from canon.systems.pretrained.bert import Bert
from canon.systems.pretrained.bert import Config as BertConfig
from canon.systems.pretrained.ernie2 import Config, Ernie2
from canon.tasks.base import Turn
from canon.tasks.pretraining import Pretraining
from tests.objectives.choices import choice
from tests.objectives.makers import passages_of
from tests.systems.pretrained_checks import logits_of
from tests.tasks.arrays import arrays

TOKENIZER = Tokenizer.train([" ".join(f"w{number:02d}" for number in range(70))], "word", mask=True)
SPECIALS: Specials = TOKENIZER.specials
SCHEMA = PassageSchema(HiddenTokens(), typical=(20,), tokenizers={"text": TOKENIZER})
TASKS = {"masked": math.log(70), "relation": math.log(2), "order": math.log(9), "distance": math.log(3)}


def corpus(documents: int = 200) -> Passages:
    """Documents of eight topics, which have six words each, in sentences that begin with their number."""
    chance = np.random.default_rng(0)
    first = TOKENIZER.encode(["w00"])[0][0]
    made = []
    for _ in range(documents):
        words = first + 20 + 6 * chance.integers(8) + np.arange(6)
        made.append([[first + number, *chance.choice(words, 3).tolist()] for number in range(16)])
    return passages_of(made, 20, SPECIALS, TOKENIZER.size)


def network(**more) -> Ernie2:
    torch.manual_seed(0)
    sizes = {"dim": 32, "num_layers": 1, "num_heads": 2, "hidden": 64, "dropout": 0.0, "attention_dropout": 0.0}
    return Ernie2(Config(vocab_size=TOKENIZER.size, max_positions=32, **{**sizes, **more}))


def batch_of(task: Pretraining, column: Passages, indices: np.ndarray, draws: Draws) -> dict[str, torch.Tensor]:
    rows = np.arange(len(indices))
    return {name: torch.from_numpy(a) for name, a in task.compose({"input": column}, indices, rows, draws).items()}


@pytest.mark.parametrize("name", TASKS)
def test_the_loss_of_every_task_falls(name: str) -> None:
    """Each task alone, below 0.7 of guessing; of six seeds the worst is at 0.45. (All together, some lag after.)"""
    column, net = corpus(), network(tasks=(name,))
    task = Pretraining(
        choice("continual", "pretraining", tasks=(name,)), Config(vocab_size=TOKENIZER.size, max_positions=32), SCHEMA
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=0.005)
    rate = torch.optim.lr_scheduler.LinearLR(optimizer, 1, 0, 200)
    for step in range(200):
        indices = np.random.default_rng(step).integers(0, len(column), 64)
        batch = batch_of(task, column, indices, Draws(1, step))
        optimizer.zero_grad()
        (task.loss(net, batch, "all", Turn()) / task.count(batch)).backward()
        optimizer.step()
        rate.step()
    net.eval()
    with torch.no_grad():
        outputs = task.run(net, batch_of(task, column, np.arange(len(column)), EVALUATION), Turn())
    scores = task.score(arrays(outputs), {"input": column})
    assert scores.get(f"{name}_loss", scores["loss"]) < 0.7 * TASKS[name]


def test_a_batch_of_every_task_reaches_every_weight() -> None:
    column, net = corpus(), network()
    task = Pretraining(choice("continual", "pretraining"), Config(vocab_size=TOKENIZER.size, max_positions=32), SCHEMA)
    batch = batch_of(task, column, np.arange(32), Draws(1, 0))
    turn = Turn()
    task.loss(net, batch, "all", turn).backward()
    assert all(p.grad is not None for name, p in net.named_parameters() if "segment" not in name)
    for step in range(12):
        task.loss(net, batch_of(task, column, np.arange(32), Draws(1, step)), "all", turn)
    assert set(turn.observed) == {"token_loss", "relation_loss", "order_loss", "distance_loss"}


def test_without_its_tasks_it_is_bert() -> None:
    """The same weights, the task's embedding added to the positions': hidden states of BERT."""
    net = network().eval()
    sizes = {"dim": 32, "num_layers": 1, "num_heads": 2, "hidden": 64}
    bert = Bert(BertConfig(vocab_size=TOKENIZER.size, max_positions=32, next_sentence=False, **sizes)).eval()
    weights = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    weights["embedding.position.weight"] += weights.pop("embedding.task.weight")[0]
    bert.load_state_dict({name: tensor for name, tensor in weights.items() if not name.startswith("heads")})
    token_N, layout = torch.arange(10, 40), Layout(torch.tensor([12, 18]))
    segment_N = torch.tensor([0] * 6 + [1] * 6 + [0] * 18)
    for one, other in zip(net.encode(token_N, layout, segment_N), bert.encode(token_N, layout, segment_N), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(
        logits_of(net, token_N, layout, segment_N=segment_N), logits_of(bert, token_N, layout, segment_N=segment_N)
    )


def test_tasks_have_embeddings_and_heads_of_their_own() -> None:
    net = network(tasks=("masked", "distance")).eval()
    assert set(net.heads) == {"distance"} and net.embedding.task.weight.shape == (2, 32)
    token_N, layout = torch.arange(10, 40), Layout(torch.tensor([12, 18]))
    values = [net(token_N, layout, task_B=torch.tensor(task))["distance"] for task in ([0, 0], [1, 0], [1, 1])]
    assert not torch.allclose(values[0][0], values[1][0])
    torch.testing.assert_close(values[0][1], values[1][1])
    torch.testing.assert_close(values[0], net(token_N, layout)["distance"])
    with pytest.raises(ValueError, match="tasks"):
        Config(tasks=())
