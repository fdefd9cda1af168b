"""Hard prompts: a frozen network and a prompt of words, as given (zero-shot) or searched by gradients (AutoPrompt).

Shin et al. 2020, AutoPrompt (arXiv:2010.15980), section 2.2: triggers begin as the mask. A step takes one of them at
random and the gradient g of the loss at its embedding over `batches` batches; the candidates are the k tokens with the
largest −e·g (equation 2), without special tokens, label words and the token itself; the best of them on fresh batches
replaces the token if it is better → `HardPrompt.step`. The run keeps the triggers that are best on the validation set.
Section 2.3, label words: a multinomial logistic regression of the class on the slot's features is applied to the output
rows of all tokens, and the likeliest tokens of each class are its words → `search_words`.
Calibration (Zhao et al. 2021, arXiv:2102.09690): q(y given x) ∝ p(y given x) / p₀(y), p₀ the mean over inputs without
content ("", "N/A" and the mask), or over unlabelled texts ("prior") → `calibrate`.
Without {trigger} in the template there is nothing to learn: the run scores the prompt as it is.
Deviations: candidates are compared by the loss, the authors' code compares accuracies on some sets.
Shapes: B examples, C classes, V tokens, D features, K triggers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from canon.config import settings
from canon.contracts import Borrows, Context, Learner
from canon.data.batching.draws import Draws
from canon.data.batching.framed import FramedTexts
from canon.data.batching.loader import Batch, Examples, Loader, shares
from canon.data.encodings.prompted import PromptedSchema
from canon.data.encodings.prompted_rows import plan_of
from canon.data.formats.rows import TextRows
from canon.data.schema import num_examples
from canon.data.text.label_words import slots_of
from canon.data.text.templates import PromptTemplate
from canon.errors import CanonError
from canon.nn.ragged import layout_of
from canon.systems.prompts.prompt import PromptConfig, Prompted
from canon.systems.prompts.verbalisers import WordVerbaliser
from canon.systems.settings import Natural, Positive

_AT_ONCE = 128  # examples
_PLACE = 0  # the stream of random numbers that says which trigger is searched
_DECAY = 1e-4  # of the logistic regression
_FITS = 100  # iterations of it
_BACKBONE = "backbone."
CONTENT_FREE = ("", "N/A")


@settings
class Config(PromptConfig):
    calibration: Literal["none", "content-free", "prior"] = Field(
        default="none", description="what label words' probabilities are divided by"
    )
    candidates: Positive = Field(default=100, description="tokens that are tried for a trigger at each step")
    batches: Positive = Field(default=1, description="batches for a gradient, and as many to compare candidates on")
    search_words: Natural = Field(default=0, description="label words to search for each class; 0: those of data.words")


class HardPrompt(Learner, Borrows):
    unit = (1.0, "examples")

    def __init__(self, config: Config, context: Context) -> None:
        super().__init__(config, context)
        if config.soft:
            raise CanonError("data.template has {soft}, which only the system prompt trains: use that system.")
        self.network = Prompted(config).eval()
        self.network.requires_grad_(False)
        self.network.to(context.world.device)
        self.borrows = bool(config.sha256)
        self.device = context.world.device
        self.log_prior_C = torch.zeros(config.num_classes, device=self.device)
        self.found_CW = torch.zeros(config.num_classes, config.search_words, dtype=torch.int64)
        self._sums = {"loss": 0.0, "accepted": 0.0, "steps": 0.0}
        self._is_training = False

    @property
    def borrower(self) -> Any:
        return self.network

    @property
    def num_parameters(self) -> int:
        return self.config.triggers

    # ---- learning

    def begin(self, data: Any, batch: int, steps: int) -> None:
        columns, world, seed = data.splits["train"], self.context.world, self.context.seed
        self._examples = Examples(columns, data.schema, self.device)
        order = data.schema.order(columns, batch, 0, seed, torch.device("cpu"))
        self._loader = Loader(self._examples, order, 0, world.rank, world.size, seed)
        self._schema: PromptedSchema = data.schema
        self._is_training = True
        self._banned_V = self._banned()
        if self.config.search_words:
            self._search_words(columns)
        self._unlabelled = data.more.get("unlabelled", {"input": columns["input"]})
        self.calibrate()

    def _banned(self) -> Tensor:
        """Tokens that a trigger must not become."""
        size = self.config.vocab_size
        banned_V = torch.ones(len(self.network.backbone.embedding.token.weight), dtype=torch.bool)
        banned_V[:size] = False
        banned_V[torch.from_numpy(self._schema.tokenizers["text"].specials.all)] = True
        words = [token for of in self.config.words for word in of for token in word]
        banned_V[torch.tensor(words, dtype=torch.int64)] = True
        return banned_V.to(self.device)

    def step(self, number: int) -> bool:
        if not self.config.triggers:
            return False
        trigger_K, embedding_VD = self.network.trigger_K, self.network.backbone.embedding.token.weight
        place = int(Draws(self.context.seed, number).integers(self.config.triggers, _PLACE, 0))
        gradient_D = self._gradient(place)
        gain_V = -(embedding_VD.to(gradient_D.dtype) @ gradient_D)
        gain_V = gain_V.masked_fill(self._banned_V, -torch.inf)
        gain_V[trigger_K[place]] = -torch.inf
        able = int((~gain_V.isneginf()).sum())
        tried = gain_V.topk(min(self.config.candidates, able)).indices
        now = int(trigger_K[place])
        batches = [self._share() for _ in range(self.config.batches)]
        losses = [0.0] * (len(tried) + 1)
        for index, token in enumerate([now, *tried.tolist()]):
            trigger_K[place] = token
            with torch.no_grad():
                losses[index] = sum(float(self._loss(batch)) * weight for batch, weight in batches)
        losses = self.context.world.total(losses)
        count = self.context.world.total([sum(len(batch["target"]) * weight for batch, weight in batches)])[0]
        best = min(range(len(losses)), key=losses.__getitem__)
        trigger_K[place] = now if best == 0 else int(tried[best - 1])
        self._sums["loss"] += losses[best] / count
        self._sums["accepted"] += best > 0
        self._sums["steps"] += 1
        if best:
            self.calibrate()
        return True

    def _gradient(self, place: int) -> Tensor:
        """The gradient of the mean loss over the next batches, at the embedding of one trigger."""
        count = 0.0
        vectors_KD = self.network.backbone.embedding.token.weight[self.network.trigger_K].detach().requires_grad_()
        for _ in range(self.config.batches):
            batch, weight = self._share()
            (self._loss(batch, vectors_KD) * weight).backward()
            count += len(batch["target"]) * weight
        assert vectors_KD.grad is not None
        *total, count = self.context.world.total([*vectors_KD.grad[place].double().tolist(), count])
        return torch.tensor(total, dtype=torch.float64, device=self.device) / count

    def _share(self) -> tuple[Batch, float]:
        """This process's part of the next batch; a weight of 0 where it has none."""
        world = self.context.world
        piece = self._loader.next()[0]
        start, stop = shares(piece.share[2], world.size)[world.rank]
        return piece.batch, float(start < stop)

    def _loss(self, batch: Batch, vectors_KD: Tensor | None = None) -> Tensor:
        return F.cross_entropy(self.scores(batch, vectors_KD), batch["target"], reduction="sum")

    def scores(self, batch: Batch, vectors_KD: Tensor | None = None) -> Tensor:
        """[B, C] before calibration. vectors_KD: what replaces the triggers."""
        layout, network = layout_of(batch), self.network
        assert network.words is not None
        hidden_BSD = network.at_slots(batch["input"], layout, batch["places"], vectors_KD)
        scores_XC = network.words(hidden_BSD, network.backbone)
        return scores_XC.unflatten(0, (len(batch["part_lengths"]), -1)).mean(1)

    # ---- calibration and label words

    @torch.no_grad()
    def calibrate(self) -> None:
        """Computes p₀ for the current prompt."""
        calibration = self.config.calibration
        if calibration == "none":
            return
        if calibration == "content-free":
            columns: Mapping[str, Any] = {"input": self._content_free()}
        else:
            columns = self._unlabelled
        scores = torch.cat([self.scores(batch) for batch in self._batches(columns)])
        self.log_prior_C = scores.double().softmax(1).mean(0).log().to(scores.dtype)

    def _content_free(self) -> FramedTexts:
        schema = self._schema
        tokenizer = schema.tokenizers["text"]
        mask = tokenizer.specials.mask
        texts = [*CONTENT_FREE, *([tokenizer.vocabulary[mask]] if mask >= 0 else [])]
        parts = plan_of(PromptTemplate(schema.template), tokenizer).parts
        if not any(isinstance(part, tuple) and part and isinstance(part[0], int) for part in parts):
            texts = texts[1:]  # the empty text would leave no token to continue from
        pair = texts if len(schema.texts) > 1 and schema.columns[1:] else None
        rows = TextRows("inputs without content", lambda row: f"text {row + 1}", texts, pair)
        return schema.writer(schema.demonstrations()).encode(rows)[0]

    def _batches(self, columns: Mapping[str, Any]) -> Any:
        examples = Examples(columns, self.context.schema, self.device)
        return examples.in_order(_AT_ONCE)

    @torch.no_grad()
    def _search_words(self, columns: Mapping[str, Any]) -> None:
        """The likeliest tokens of each class by a logistic regression on the slot's features."""
        if self.network.slots.total != 1:
            raise CanonError("system.search_words finds label words of one token: write {mask:1} in data.template.")
        backbone = self.network.backbone
        features, labels = [], []
        for batch in self._batches(columns):
            layout = layout_of(batch)
            hidden_BSD = self.network.at_slots(batch["input"], layout, batch["places"])
            named = backbone.naming(hidden_BSD[:, 0])[0]
            features.append(named.unflatten(0, (len(batch["part_lengths"]), -1)).mean(1).double())
            labels.append(batch["target"])
        output_VD = backbone.naming(hidden_BSD[:1, 0])[1].double()
        weight_CD, bias_C = logistic_regression(torch.cat(features), torch.cat(labels), self.config.num_classes)
        log_p_CV = (output_VD @ weight_CD.T + bias_C).log_softmax(1).T
        log_p_CV = log_p_CV.masked_fill(self._banned_V & ~self._is_word(), -torch.inf)
        own_CV = log_p_CV.argmax(0) == torch.arange(len(log_p_CV), device=self.device)[:, None]
        self.found_CW = log_p_CV.masked_fill(~own_CV, -torch.inf).topk(self.config.search_words).indices.cpu()
        self._use_found()

    def _is_word(self) -> Tensor:
        """Label words may be searched again."""
        is_word_V = torch.zeros_like(self._banned_V)
        words = [token for of in self.config.words for word in of for token in word]
        is_word_V[torch.tensor(words, dtype=torch.int64, device=self.device)] = True
        return is_word_V

    def _use_found(self) -> None:
        words = tuple(tuple((token,) for token in tokens) for tokens in self.found_CW.tolist())
        slots = slots_of([word for tokens in words for word in tokens], self.network.filling, self.config.masks)
        self.network.words = WordVerbaliser(words, slots, self.config.average).to(self.device)

    # ---- what a run keeps

    def logs(self) -> dict[str, float]:
        steps = max(self._sums["steps"], 1)
        logs = {"loss": self._sums["loss"] / steps, "accepted": self._sums["accepted"] / steps}
        self._sums = dict.fromkeys(self._sums, 0.0)
        return logs

    def tensors(self) -> dict[str, dict[str, Tensor]]:
        kept = self.network.state_dict()
        if self.borrows:
            kept = {name: tensor for name, tensor in kept.items() if not name.startswith(_BACKBONE)}
        return {"model": {**kept, "log_prior_C": self.log_prior_C, "found_CW": self.found_CW}}

    def state(self) -> dict[str, Any]:
        return {"position": self._loader.position, "sums": self._sums}

    def restore(self, tensors: Mapping[str, Mapping[str, Any]], state: dict[str, Any]) -> None:
        model = {name: torch.as_tensor(each) for name, each in tensors["model"].items()}
        self.log_prior_C = model.pop("log_prior_C").to(self.device, self.log_prior_C.dtype)
        self.found_CW = model.pop("found_CW")
        self.network.load_state_dict(model, strict=not self.borrows)
        if self.config.search_words:
            self._use_found()
        if "position" in state and self._is_training:
            self._loader.position, self._sums = state["position"], dict(state["sums"])

    @torch.no_grad()
    def outputs(self, columns: Mapping[str, Any]) -> dict[str, np.ndarray]:
        logits, losses = [], []
        for batch in self._batches(columns):
            self.context.pause()
            logits_BC = self.scores(batch).log_softmax(1) - self.log_prior_C
            logits.append(logits_BC.float().cpu())
            if "target" in batch:
                losses.append(F.cross_entropy(logits_BC, batch["target"], reduction="none").float().cpu())
        outputs = {"logits": torch.cat(logits).numpy()}
        if losses:
            outputs |= {"loss": torch.cat(losses).numpy(), "count": np.ones(num_examples(columns), np.float32)}
        return outputs


def logistic_regression(x_ND: Tensor, label_N: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Weights [C, D] and biases [C] that minimise the mean cross-entropy with a little decay, by L-BFGS."""
    weight_CD = x_ND.new_zeros(classes, x_ND.shape[1], requires_grad=True)
    bias_C = x_ND.new_zeros(classes, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight_CD, bias_C], max_iter=_FITS, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        with torch.enable_grad():
            loss = F.cross_entropy(x_ND @ weight_CD.T + bias_C, label_N) + _DECAY * weight_CD.square().sum()
            loss.backward()
        return loss

    optimizer.step(closure)
    return weight_CD.detach(), bias_C.detach()
