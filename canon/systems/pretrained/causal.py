"""Left-to-right Transformers: what the GPTs share beside their training, reading a prompt and going on by tokens.

Nothing of the past is computed twice: keys and values are kept in a cache that is made once. The contract is that of
canon.nn.decoding's language models (`read`, `step`) and of canon.nn.graphs (`fixed_step`: the same on memory that does
not change its place). Texts of one batch may be of unequal length: they end at the same place of the cache, and begin
where `start` says. Where a text grows past the positions that the network has, its newer half is read again, from
position 0 on, and the older half is forgotten.
Shapes: B texts, T tokens of a prompt, N tokens of all prompts end to end, D features, H heads of d, L layers, C places
of the cache, R of them in reach, V tokens of the vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

from canon.kernels.cpu.threads import own_threads
from canon.nn.attention.block import EncoderBlock
from canon.nn.attention.compiled import CompiledStack, compiles
from canon.nn.attention.steps import EncoderStep, Fixed, hidden_bias
from canon.nn.decoding import LanguageModel
from canon.nn.frozen import once
from canon.nn.graphs import RecordsSteps
from canon.nn.ragged import Layout
from canon.nn.states import COMPILED, State
from canon.systems.pretrained.base import Pretrained


class CausalTransformer(Pretrained, LanguageModel, RecordsSteps):
    framing = "gpt"
    causal = True

    def pool(self, hidden_ND: Tensor, layout: Layout) -> Tensor:
        """That of its last token, which has seen all."""
        return hidden_ND.index_select(0, layout.ends)

    @property
    def _steps(self) -> list[EncoderStep]:
        blocks: list[EncoderBlock] = list(self.layers.blocks)  # type: ignore[arg-type]
        return [once(EncoderStep, block) for block in blocks]

    @torch.no_grad()
    def read(self, token_BT: Tensor, room: int, start_B: Tensor | None = None) -> State:
        """The state after prompts, with room for so many more tokens; row b's prompt is token_BT[b, start_B[b]:].

        | entry | shape | meaning |
        | --- | --- | --- |
        | cache | [B, L, 2, H, C, d] | keys and values so far |
        | tokens | [B, C] | the tokens themselves, to read again where positions run out |
        | start | [B] | the first place that belongs to a text; absent where all begin at 0 |
        | position | [] | places in use |

        Where steps are compiled, the first entry has the form that the kernel reads (canon/nn/attention/compiled.py).
        `fixed_step` has two more: places [C], which are 0, 1, 2 …, and bias [B, 1, 1, C], −∞ before a text's start.
        """
        batch, length = token_BT.shape
        capacity = max(min(length + room, self.limit), length)
        if compiles(self):
            state = once(_compiled, self).init_state(batch, capacity, start_B=start_B)
            state["tokens"] = torch.zeros(batch, capacity, dtype=torch.int64)
        else:
            state = self._room(batch, capacity)
            if start_B is not None:
                state["start"] = start_B.clone()
        self.fill(token_BT, state)
        return {**state, "position": torch.tensor(length)}

    def _room(self, batch: int, capacity: int) -> State:
        weight, (heads, width) = self.embedding.token.weight, self._steps[0].shape
        return {
            "cache": weight.new_zeros(batch, len(self.layers.blocks), 2, heads, capacity, width),
            "tokens": torch.zeros(batch, capacity, dtype=torch.int64, device=weight.device),
        }

    def make_room(self, batch: int, capacity: int) -> State:
        """What `fixed_step` reads and writes, for up to `capacity` tokens; its memory stays where it is."""
        state = self._room(batch, capacity)
        state["start"] = torch.zeros(batch, dtype=torch.int64, device=state["cache"].device)
        state["places"] = torch.arange(capacity, device=state["cache"].device)
        state["bias"] = state["cache"].new_zeros(batch, 1, 1, capacity)
        return state

    @torch.no_grad()
    def fill(self, token_BT: Tensor, state: State) -> None:
        """Reads prompts into the first T places of a state, in its own memory."""
        batch, length = token_BT.shape
        state["tokens"][:, :length] = token_BT
        start_B = state.get(_start(state))
        if start_B is not None and "bias" in state:
            hidden_BC = state["places"] < start_B[:, None]
            state["bias"].zero_().masked_fill_(hidden_BC[:, None, None], -torch.inf)
        if not length:
            return
        place_BT = torch.arange(length, device=token_BT.device).expand(batch, -1)
        if start_B is None:
            layout = Layout(torch.full((batch,), length), token_BT.device)
            token_N, place_N = token_BT.flatten(), place_BT.flatten()
        else:
            is_text_BT = place_BT >= start_B[:, None]
            layout = Layout((length - start_B).cpu(), token_BT.device)
            token_N, place_N = token_BT[is_text_BT], place_BT[is_text_BT]
        x_ND = self.embedding(token_N, layout)
        if COMPILED in state:
            with own_threads():
                once(_compiled, self).states(x_ND, layout, True, cache=state["cache"], slot_B=start_B)
            return
        for cache_B2HCd, block in zip(state["cache"].unbind(1), self._steps, strict=True):
            x_ND, kept_N2Hd = block.read(x_ND, layout)
            cache_B2HCd[layout.rows, :, :, place_N] = kept_N2Hd

    @torch.no_grad()
    def step(self, token_B: Tensor, state: State) -> tuple[Tensor, State]:
        """Logits [B, V] of what follows `token_B`, and the state after it; cache and tokens are written in place."""
        if int(state["position"]) == state["tokens"].shape[1]:
            state = self.slide(state)
        cache, position, start_B = state["cache"], int(state["position"]), state.get(_start(state))
        state["tokens"][:, position] = token_B
        after = {**state, "position": state["position"] + 1}
        weight = self.embedding.position.weight
        places = weight[position] if start_B is None else weight[position - start_B]
        x_BD = self.embedding.norm(self.embedding.token(token_B, places))
        if COMPILED in state:
            return once(_compiled, self).step(x_BD, state), after
        bias = None
        if start_B is not None:
            hidden_BR = torch.arange(position + 1, device=token_B.device) < start_B[:, None]
            bias = torch.zeros_like(hidden_BR, dtype=cache.dtype).masked_fill_(hidden_BR, -torch.inf)[:, None, None]
        slots = cache.select(4, position).unbind(1)
        filled = cache.narrow(4, 0, position + 1).flatten(1, 2).unbind(1)  # keys, values, keys, values, …
        for i, block in enumerate(self._steps):
            x_BD = block(x_BD, slots[i], filled[2 * i], filled[2 * i + 1], bias)
        return self._logits(x_BD), after

    def slide(self, state: State) -> State:
        """The newer half of all texts, read again from the first place on, in the same memory."""
        tokens_BC, position = state["tokens"], int(state["position"])
        assert tokens_BC.shape[1] >= self.limit, "read with room for fewer tokens than were generated"
        kept = self.limit // 2
        if (start := _start(state)) in state:
            state[start].sub_(position - kept).clamp_(min=0)
        self.fill(tokens_BC[:, position - kept : position].clone(), state)
        return {**state, "position": torch.tensor(kept)}

    @torch.no_grad()
    def fixed_step(
        self, token_B: Tensor, place_1: Tensor, state: State, reach: int, run: Fixed | None = None
    ) -> Tensor:
        """Logits [B, V] of what follows `token_B` at `place`, one of the first `reach`; nothing waits for the host.

        The state is one of `make_room`. `run`: what a block's tensors go through, `steps.fixed` or the like.
        """
        state["tokens"].index_copy_(1, place_1, token_B[:, None])
        bias, places_R = state["bias"][..., :reach], state["places"][:reach]
        blocks = self._steps
        windows = {block.window for block in blocks}
        biases = {window: hidden_bias(bias, places_R, place_1, window) for window in windows}
        places_BD = self.embedding.position(place_1 - state["start"])
        x_BD = self.embedding.norm(self.embedding.token(token_B, places_BD))
        for cache_B2HCd, block in zip(state["cache"].unbind(1), blocks, strict=True):
            x_BD = block.fixed(x_BD, cache_B2HCd, place_1, biases[block.window], run)
        return self._logits(x_BD)

    def _logits(self, x_BD: Tensor) -> Tensor:
        return self.logits(self.layers.norm(x_BD))


def _start(state: State) -> str:
    """The entry that says where each text begins."""
    return COMPILED if COMPILED in state else "start"


def _compiled(network: CausalTransformer) -> CompiledStack:
    return CompiledStack(network.layers, network.embedding.token.weight)
