"""Masked softmax, score functions and every kernel of `attend`, against loops; forward and backward."""

from __future__ import annotations

import inspect
import math
from importlib import import_module

import pytest
import torch
from torch import Tensor

from canon.errors import CanonError
from canon.nn.attention import attend, multihead, weights
from canon.nn.attention.banded import banded
from canon.nn.attention.dense import pattern, product
from canon.nn.attention.scores import KINDS, Scores
from canon.nn.attention.softmax import length_mask, masked_softmax
from canon.nn.attention.sparse import windows
from canon.nn.ragged import Layout

attend_module = import_module("canon.nn.attention.attend")  # the package has the function under this name


def randn(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def assert_equal_with_gradients(actual: Tensor, wanted: Tensor, inputs: list[Tensor], atol: float = 1e-9) -> None:
    torch.testing.assert_close(actual, wanted, rtol=1e-5, atol=atol)
    upstream = torch.randn_like(actual)
    mine = torch.autograd.grad(actual, inputs, upstream)
    other = torch.autograd.grad(wanted, inputs, upstream)
    for one, two in zip(mine, other, strict=True):
        assert one.isfinite().all()
        torch.testing.assert_close(one, two, rtol=1e-5, atol=atol)


# Masked softmax


def test_softmax_by_lengths_equals_a_loop() -> None:
    torch.manual_seed(0)
    scores, lengths = randn(3, 2, 4, 5), torch.tensor([5, 0, 2])
    result = masked_softmax(scores, lengths=lengths)
    for b, length in enumerate(lengths.tolist()):
        assert torch.equal(result[b, ..., length:], torch.zeros(2, 4, 5 - length, dtype=torch.float64))
        torch.testing.assert_close(result[b, ..., :length], scores[b, ..., :length].softmax(-1))
    assert torch.autograd.gradcheck(lambda s: masked_softmax(s, lengths=lengths), scores)


def test_softmax_by_length_of_each_query_and_by_mask_agree() -> None:
    scores, lengths_BQ = randn(2, 3, 4), torch.tensor([[1, 4, 0], [2, 0, 3]])
    mask = length_mask(lengths_BQ, 4)
    assert mask.tolist()[0] == [[True, False, False, False], [True] * 4, [False] * 4]
    assert torch.equal(masked_softmax(scores, lengths=lengths_BQ), masked_softmax(scores, mask))
    both = masked_softmax(scores, mask, lengths=torch.tensor([3, 0]))
    assert torch.equal(both, masked_softmax(scores, mask & length_mask(torch.tensor([3, 0]), 4)[:, None]))


@pytest.mark.parametrize("hidden", [math.nan, math.inf, -math.inf])
def test_softmax_of_hidden_rows_is_zero_forward_and_backward(hidden: float) -> None:
    """Also where what is hidden is no number."""
    scores = torch.full((2, 3), hidden, requires_grad=True)
    seen = torch.tensor([[False] * 3] * 2)
    result = masked_softmax(scores, seen)
    assert torch.equal(result, torch.zeros(2, 3))
    assert torch.equal(torch.autograd.grad(result.sum(), scores)[0], torch.zeros(2, 3))


def test_softmax_without_a_mask_is_torchs() -> None:
    scores = torch.randn(2, 3)
    assert torch.equal(masked_softmax(scores), scores.softmax(-1))


# Scores


def by_hand(kind: str, scores: Scores, q: Tensor, k: Tensor) -> Tensor:
    """One number, by the formula of the paper."""
    if kind == "additive":
        return scores.vector @ torch.tanh(scores.query.weight @ q + scores.key.weight @ k)
    if kind == "concat":
        return scores.vector @ torch.tanh(scores.joint.weight @ torch.cat([q, k]))
    if kind == "general":
        return q @ (scores.key.weight @ k)
    return q @ k / (math.sqrt(len(q)) if kind == "scaled-dot" else 1)


@pytest.mark.parametrize("kind", KINDS)
def test_scores_equal_their_formula(kind: str) -> None:
    torch.manual_seed(0)
    query_dim, key_dim = (4, 4) if "dot" in kind else (4, 3)
    scores = Scores(kind, query_dim, key_dim, hidden=5).double()  # type: ignore[arg-type]
    query, keys = randn(2, 3, query_dim), randn(2, 6, key_dim)
    actual = scores(query, keys)
    rows = [[[by_hand(kind, scores, query[b, i], keys[b, j]) for j in range(6)] for i in range(3)] for b in range(2)]
    wanted = torch.stack([torch.stack([torch.stack(row) for row in table]) for table in rows])
    assert_equal_with_gradients(actual, wanted, [query, keys, *scores.parameters()])
    # Prepared keys, one query at a time, as a decoder asks.
    prepared = scores.prepare(keys)
    steps = torch.cat([scores.compare(query[:, i : i + 1], prepared) for i in range(3)], 1)
    torch.testing.assert_close(steps, actual)


def test_scores_refuse_what_does_not_fit() -> None:
    with pytest.raises(CanonError, match=r"dot score needs queries and keys of one size, got 4 and 3"):
        Scores("dot", 4, 3)
    with pytest.raises(CanonError, match='No score function "bilinear"'):
        Scores("bilinear", 4, 3)  # type: ignore[arg-type]


# Attention


def visible(i: int, j: int, causal: bool, window: int) -> bool:
    if causal and j > i:
        return False
    return not window or abs(i - j) < window


def loop(
    query: Tensor, key: Tensor, value: Tensor, seen: list[list[bool]], bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """One head: q [Q, d], k and v [K, d]; each query on its own. Returns what is attended to, and the weights."""
    rows, shares = [], []
    for i in range(len(query)):
        places = [j for j in range(len(key)) if seen[i][j]]
        share = torch.zeros(len(key), dtype=query.dtype)
        if not places:
            rows.append(torch.zeros_like(query[i]))
            shares.append(share)
            continue
        scores = torch.stack([query[i] @ key[j] / math.sqrt(query.shape[1]) for j in places])
        if bias is not None:
            scores = scores + bias[i, places]
        exponentials = scores.exp()
        weight = exponentials / exponentials.sum()
        rows.append(sum(w * value[j] for w, j in zip(weight, places, strict=True)))  # type: ignore[arg-type]
        shares.append(share.index_copy(0, torch.tensor(places), weight))
    return torch.stack(rows), torch.stack(shares)


def ragged_loop(
    query: Tensor, key: Tensor, value: Tensor, lengths: list[int], key_lengths: list[int], causal: bool, window: int
) -> Tensor:
    """[N, H, d], sequence by sequence, head by head."""
    out = []
    for q, k, v in zip(query.split(lengths), key.split(key_lengths), value.split(key_lengths), strict=True):
        seen = [[visible(i, j, causal, window) for j in range(len(k))] for i in range(len(q))]
        if len(q):
            heads = [loop(q[:, h], k[:, h], v[:, h], seen)[0] for h in range(q.shape[1])]
            out.append(torch.stack(heads, 1))
    return torch.cat(out)


RULES = [(False, 0), (True, 0), (True, 1), (True, 3), (False, 3), (False, 1), (True, 99), (False, 99)]
LENGTHS = [[4, 7, 1, 5], [6, 6], [0, 8, 3], [9]]


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize(("causal", "window"), RULES)
def test_ragged_self_attention(lengths: list[int], causal: bool, window: int) -> None:
    """Unequal lengths, an empty sequence, every rule of sight: dense, causal and banded kernels after one entry."""
    torch.manual_seed(0)
    layout = Layout(torch.tensor(lengths))
    query, key, value = (randn(layout.total, 2, 4) for _ in range(3))
    attended = attend(query, key, value, layout=layout, causal=causal, window=window)
    wanted = ragged_loop(query, key, value, lengths, lengths, causal, window)
    assert_equal_with_gradients(attended, wanted, [query, key, value])


@pytest.mark.parametrize("key_lengths", [[2, 5, 3], [4, 4, 4], [0, 6, 1], [0, 0, 0]], ids=str)
def test_ragged_cross_attention(key_lengths: list[int]) -> None:
    """Keys of another layout; a sequence without any key gives zeros and no gradient."""
    torch.manual_seed(0)
    lengths = [3, 4, 1]
    layout, keys = Layout(torch.tensor(lengths)), Layout(torch.tensor(key_lengths))
    query, key, value = randn(8, 2, 4), randn(keys.total, 2, 4), randn(keys.total, 2, 4)
    attended = attend(query, key, value, layout=layout, key_layout=keys)
    wanted = ragged_loop(query, key, value, lengths, key_lengths, False, 0)
    if sum(key_lengths):
        assert_equal_with_gradients(attended, wanted, [query, key, value])
    else:
        assert torch.equal(attended, torch.zeros_like(attended))


@pytest.mark.parametrize(("causal", "window"), RULES)
@pytest.mark.parametrize(("queries", "keys"), [(6, 6), (1, 6), (3, 6)])
@pytest.mark.parametrize("biased", [False, True])
def test_grid_with_any_mask(causal: bool, window: int, queries: int, keys: int, biased: bool) -> None:
    """A mask of keys and a mask of pairs, rows that see nothing, fewer queries than keys."""
    torch.manual_seed(1)
    query, key, value = randn(2, 3, queries, 4), randn(2, 3, keys, 4), randn(2, 3, keys, 4)
    bias = randn(1, 3, queries, keys) if biased else None
    of_keys = torch.tensor([[True, False, True, True, False, True], [False] * 6])
    of_pairs = torch.rand(2, 1, queries, keys) > 0.5
    of_pairs[0, 0, -1] = False
    for mask in (None, of_keys, of_pairs):
        attended = attend(query, key, value, mask=mask, causal=causal, window=window, bias=bias)
        whole = torch.ones(2, 1, queries, keys, dtype=torch.bool) if mask is None else mask
        whole = whole[:, None, None] if whole.dim() == 2 else whole
        whole = whole.expand(2, 3, queries, keys)
        shares = torch.zeros(2, 3, queries, keys, dtype=torch.float64)
        inputs = [query, key, value] if bias is None else [query, key, value, bias]
        wanted = torch.zeros(2, 3, queries, 4) + 0 * sum(x.sum() for x in inputs)  # what sees nothing has gradient 0
        for b in range(2):
            for h in range(3):
                seen = [
                    [bool(whole[b, h, i, j]) and visible(i + keys - queries, j, causal, window) for j in range(keys)]
                    for i in range(queries)
                ]
                out, share = loop(query[b, h], key[b, h], value[b, h], seen, None if bias is None else bias[0, h])
                place = torch.zeros(2, 3, 1, 1, dtype=torch.float64)
                place[b, h] = 1
                wanted, shares = wanted + place * out, shares + place * share
        assert_equal_with_gradients(attended, wanted, inputs)
        reported = weights(query, key, mask=mask, causal=causal, window=window, bias=bias)
        torch.testing.assert_close(reported, shares)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("length", "window"), [(1, 1), (7, 2), (8, 4), (9, 4), (31, 5), (12, 11)])
def test_banded_equals_dense_with_a_mask(length: int, window: int, causal: bool) -> None:
    torch.manual_seed(0)
    query, key, value = (randn(2, 3, length, 4) for _ in range(3))
    actual = banded(query, key, value, window, causal)
    wanted = product(query, key, value, mask=pattern(length, length, causal, window, torch.device("cpu")))
    assert_equal_with_gradients(actual, wanted, [query, key, value])


def test_banded_holds_nothing_of_the_length_squared() -> None:
    """The largest tensor that is made, forward and backward, doubles when the length does."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Largest(TorchDispatchMode):
        most = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            out = func(*args, **(kwargs or {}))
            for tensor in out if isinstance(out, tuple | list) else [out]:
                if isinstance(tensor, Tensor):
                    self.most = max(self.most, tensor.untyped_storage().nbytes())
            return out

    def largest(length: int, causal: bool) -> int:
        query, key, value = (torch.randn(1, 2, length, 8, requires_grad=True) for _ in range(3))
        with Largest() as watch:
            attend(query, key, value, causal=causal, window=16).sum().backward()
        return watch.most

    for causal in (False, True):
        small, large = largest(512, causal), largest(4096, causal)
        assert large < 8.5 * small and large < 4096 * 4096


def test_weights_of_a_layout_are_zero_at_padding() -> None:
    torch.manual_seed(0)
    layout, keys = Layout(torch.tensor([2, 4])), Layout(torch.tensor([3, 1]))
    query, key = randn(6, 2, 4), randn(4, 2, 4)
    reported = weights(query, key, layout=layout, key_layout=keys)
    assert reported.shape == (2, 2, 4, 3)
    assert (reported[0, :, 2:] == 0).all() and (reported[1, :, :, 1:] == 0).all()
    torch.testing.assert_close(reported.sum(-1)[:, 0], torch.tensor([[1.0, 1, 0, 0], [1, 1, 1, 1]]).double())


def test_dropout_keeps_the_mean() -> None:
    torch.manual_seed(0)
    query, key, value = (torch.randn(1, 1, 6, 4) for _ in range(3))
    wanted = attend(query, key, value)
    many = [attend(query.expand(200, -1, -1, -1), key, value, dropout=0.5) for _ in range(20)]
    assert (torch.cat(many).mean(0) - wanted[0]).abs().max() < 0.1
    assert many[0].std() > 0.1


# The packed kernel of CUDA, by its published contract


def flash_by_contract(  # type: ignore[no-untyped-def]
    query,
    key,
    value,
    cum_seq_q,
    cum_seq_k,
    max_q,
    max_k,
    dropout_p,
    is_causal,
    return_debug_mask,
    *,
    window_size_left=-1,
    window_size_right=-1,
):
    """aten::_flash_attention_forward: windows are how far one sees, −1 for ever; the first of its results is read."""
    right = 0 if is_causal else window_size_right
    out = []
    for b in range(len(cum_seq_q) - 1):
        q, k, v = (x[c[b] : c[b + 1]] for x, c in ((query, cum_seq_q), (key, cum_seq_k), (value, cum_seq_k)))
        assert len(q) <= max_q and len(k) <= max_k
        if not len(q):
            continue
        shift = len(k) - len(q)
        seen = [
            [
                (window_size_left < 0 or i + shift - j <= window_size_left) and (right < 0 or j - i - shift <= right)
                for j in range(len(k))
            ]
            for i in range(len(q))
        ]
        out.append(torch.stack([loop(q[:, h], k[:, h], v[:, h], seen)[0] for h in range(q.shape[1])], 1))
    return torch.cat(out), None


def test_the_packed_kernel_is_called_as_torch_names_it() -> None:
    names = [argument.name for argument in torch.ops.aten._flash_attention_forward.default._schema.arguments]
    assert names[:10] == [*inspect.signature(flash_by_contract).parameters][:10]
    assert {"window_size_left", "window_size_right"} <= set(names)


@pytest.mark.parametrize(("causal", "window"), RULES)
def test_packed_equals_padded(causal: bool, window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = Layout(torch.tensor([4, 7, 1, 5]))
    torch.manual_seed(0)
    query, key, value = (randn(17, 2, 4) for _ in range(3))
    wanted = attend(query, key, value, layout=layout, causal=causal, window=window)
    monkeypatch.setattr(attend_module, "is_packed", lambda *_: True)
    monkeypatch.setattr(attend_module, "_FLASH", flash_by_contract)
    attended = attend(query, key, value, layout=layout, causal=causal, window=window)
    assert_equal_with_gradients(attended, wanted, [query, key, value])


def test_packed_multi_head_equals_padded(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    layout, keys = Layout(torch.tensor([4, 2])), Layout(torch.tensor([3, 5]))
    own = multihead.SelfAttention(8, 2).double()
    cross = multihead.CrossAttention(8, 2).double()
    x_ND, memory_MD = randn(6, 8), randn(8, 8)
    wanted = own(x_ND, layout, causal=True), cross(x_ND, layout, memory_MD, keys)
    monkeypatch.setattr(attend_module, "is_packed", lambda *_: True)
    monkeypatch.setattr(attend_module, "_FLASH", flash_by_contract)
    actual = own(x_ND, layout, causal=True), cross(x_ND, layout, memory_MD, keys)
    for one, two in zip(actual, wanted, strict=True):
        torch.testing.assert_close(one, two)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="the packed kernel is CUDA's")
@pytest.mark.parametrize(("causal", "window"), RULES)
def test_packed_on_cuda(causal: bool, window: int) -> None:
    """The kernel itself in bfloat16 against the padded path in float32."""
    torch.manual_seed(0)
    layout = Layout(torch.tensor([40, 7, 129, 64]), "cuda")
    halves = [torch.randn(240, 4, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    assert attend_module.is_packed(halves[0], layout, layout)
    attended = attend(*halves, layout=layout, causal=causal, window=window)
    floats = [half.detach().float().requires_grad_() for half in halves]
    wanted = attend(*floats, layout=layout, causal=causal, window=window)
    torch.testing.assert_close(attended.float(), wanted, rtol=0.02, atol=0.02)
    upstream = torch.randn_like(wanted)
    mine = torch.autograd.grad(attended, halves, upstream.bfloat16())
    other = torch.autograd.grad(wanted, floats, upstream)
    for one, two in zip(mine, other, strict=True):
        torch.testing.assert_close(one.float(), two, rtol=0.05, atol=0.05)


# Patterns of a stack


def test_windows_of_layers() -> None:
    assert windows("none", 3, 0) == [0, 0, 0]
    assert windows("banded", 3, 4) == [4, 4, 4]
    assert windows("alternating", 5, 4) == [0, 4, 0, 4, 0]
    with pytest.raises(CanonError, match=r"system\.window must be a positive whole number for system\.sparse"):
        windows("banded", 2, 0)
