"""A decision's bits depend on nothing but the decision and its weights: not on its batch, not on what was computed
before. The controls: the fast mode differs, and so does a matrix product whose rows depend on each other."""

import random

import numpy as np
import pytest
import torch
from torch.nn import functional

from potluck.decoder import attention, matrix
from potluck.decoder.matrix import Matrix
from potluck_policy_server.backbones.base import LETTERS, WORDS
from potluck_policy_server.lm import check
from potluck_policy_server.lm.caches import Beginnings


def queries(kit, adapters, count=24, rules="you are a cook ."):
    return [
        kit.query(
            kit.prompt(seed, 2 + seed % 8, rules), [None, *adapters][seed % 4], 0.9, [LETTERS, WORDS][seed // 4 % 2]
        )
        for seed in range(count)
    ]


def bits(scores):
    return [(one.logprobs.tobytes(), one.label_mass) for one in scores]


@pytest.fixture
def asked(kit, folder, adapters):
    """A backbone on which nothing was computed before."""

    def ask(*batches, **options):
        backbone = kit.load(folder, **options)
        found = [score for batch in batches for score in kit.scores(backbone, batch)]
        return bits(found), backbone

    return ask


@pytest.mark.parametrize("merge", [0, 64 << 20], ids=["apart", "merged"])
def test_batch_and_history_change_no_bit(kit, adapters, asked, merge):
    batch = queries(kit, adapters)
    together, engine = asked(batch, merge_bytes=merge)
    alone, used = asked(*[[query] for query in batch], merge_bytes=merge)
    assert together == alone
    assert not engine._engine._options.alone  # the machine keeps rows apart; nothing was computed one by one
    assert used._engine.beginnings.stats.reused > 20
    again = bits(kit.scores(used, batch[::-1]))[::-1]
    assert again == together
    whole, unused = asked(batch, merge_bytes=merge, reuse_bytes=0)
    assert whole == together
    assert unused._engine.beginnings.stats.reused == 0


def test_a_plain_layout_and_single_passes_keep_the_promise_too(kit, adapters, asked, monkeypatch):
    batch = queries(kit, adapters, 12)
    unpacked = {"pack_bytes": 0, "merge_bytes": 0}
    assert asked(batch, **unpacked)[0] == asked(*[[query] for query in batch], **unpacked)[0]
    monkeypatch.setattr("potluck_policy_server.backbones.causal_lm.independent", lambda _: False)
    one_by_one, backbone = asked(batch)
    assert backbone._engine._options.alone
    assert one_by_one == asked(*[[query] for query in batch])[0]


def test_the_fast_mode_is_close_but_not_the_same(kit, adapters, asked):
    batch = queries(kit, adapters)
    exact, fast = asked(batch)[0], asked(batch, deterministic=False)[0]
    assert exact != fast
    for (a, _), (b, _) in zip(exact, fast, strict=True):
        np.testing.assert_allclose(np.frombuffer(a), np.frombuffer(b), atol=1e-5)


@pytest.mark.parametrize("fault", ["product", "attention"])
def test_rows_that_depend_on_each_other_are_found_at_load(backbone, monkeypatch, fault):
    packed = backbone._engine.model
    assert check.independent(packed)
    if fault == "product":
        honest = Matrix.product
        monkeypatch.setattr(Matrix, "product", lambda self, x, onto=None: honest(self, x, onto) + 1e-6 * x.shape[0])
    else:
        monkeypatch.setattr(attention, "_exact", _padding_is_seen)
    with torch.inference_mode():
        assert not check.independent(packed)


def _padding_is_seen(grid, k, v, mask, heads):
    decisions, slots, keys = mask.shape
    weights = torch.bmm(grid, k.transpose(1, 2)).view(decisions, heads.kv, slots, heads.repeat, keys)
    weights = (weights + mask[:, None, :, None].clamp(min=-8)).softmax(-1)
    return torch.bmm(weights.view(-1, slots * heads.repeat, keys), v)


def test_products_of_few_rows_round_like_those_of_many():
    torch.manual_seed(0)
    for size in (96, matrix.LARGE // 64):  # small ones as they are, large ones in oneDNN's layout
        weight, x, bias = torch.randn(size, 64), torch.randn(40, 64), torch.randn(size)
        base = torch.randn(40, size)
        for one in (Matrix(weight), Matrix(weight, pack=True), Matrix(weight, bias, pack=True)):
            for onto in (None, base):
                whole = one.product(x, onto)
                for n in range(1, 9):
                    rows = slice(3, 3 + n)
                    found = one.product(x[rows], None if onto is None else onto[rows])
                    assert torch.equal(found, whole[rows])
        added = base.repeat(1, 2)  # in place, into columns of a wider matrix
        for n in (1, 2, 3, 4, 40):
            Matrix(weight).add(x[:n], added[:n, size:])
            assert torch.equal(added[:n, size:], Matrix(weight).product(x, base)[:n])
            assert torch.equal(added[:, :size], base)
            added[:, size:] = base
        wanted = base + functional.linear(x, weight, bias)
        torch.testing.assert_close(Matrix(weight, bias, pack=True).product(x, base), wanted, rtol=0, atol=1e-4)


def test_bfloat16_products_are_those_of_the_same_numbers():
    torch.manual_seed(0)
    weight, bias, x = (torch.randn(size).bfloat16() for size in ((96, 64), (96,), (40, 64)))
    wanted = functional.linear(x.float(), weight.float(), bias.float())
    found = Matrix(weight, bias, pack=True).product(x)
    assert found.dtype is torch.bfloat16
    torch.testing.assert_close(found.float(), wanted, rtol=0.01, atol=0.01)


def kv(ids, mark):
    """Keys and values that say which token under which weights they belong to."""
    return torch.tensor([[[float(token), mark] for token in ids]] * 3)


def test_beginnings_are_found_and_bounded():
    cache = Beginnings(10 * 3 * 2 * 4, layers=3, width=2, dtype=torch.float32, device=torch.device("cpu"))
    assert cache.find("a", (1,), (7, 8, 9)) is None
    cache.keep("a", (1,), (7, 8, 9), kv((7, 8, 9), 1.0))
    assert cache.find("b", (1,), (7, 8, 9)) is None  # other weights
    assert cache.find("a", (2,), (7, 8, 9)) is None  # other rules
    found = cache.find("a", (1,), (7, 8, 9))
    assert found.ids == (1, 7, 8)  # the last token is always computed: its hidden state is wanted
    assert torch.equal(found.kv, kv((7, 8), 1.0))
    cache.keep("a", (1,), (7, 8, 5, 6), kv((7, 8, 5, 6), 1.0))
    assert torch.equal(cache.find("a", (1,), (7, 8, 5, 6, 4)).kv, kv((7, 8, 5, 6), 1.0))
    cache.keep("a", (1,), tuple(range(20, 26)), kv(range(20, 26), 1.0))  # tails that one decision met make room
    assert cache.find("a", (1,), (7, 8, 9)).ids == (1, 7, 8)
    assert cache.find("a", (1,), (7, 8, 5, 6)).ids == (1, 7, 8)
    cache.keep("a", (1,), tuple(range(30, 50)), kv(range(30, 50), 1.0))  # longer than the pool: not kept
    assert cache.find("a", (1,), tuple(range(30, 50))) is None
    for text in range(50):
        cache.keep("b", (1,), (text, 1, 2), kv((text, 1, 2), 2.0))
    assert torch.equal(cache.find("b", (1,), (49, 1, 2)).kv, kv((49, 1), 2.0))
    cache.forget("b")
    assert cache.find("b", (1,), (49, 1, 2)) is None


def test_a_text_of_more_than_half_the_pool_drives_out_what_it_must():
    cache = Beginnings(10 * 3 * 2 * 4, layers=3, width=2, dtype=torch.float32, device=torch.device("cpu"))
    for _ in range(2):  # met twice, so no tail goes by itself
        cache.keep("a", (1,), (1, 2, 3), kv((1, 2, 3), 1.0))
    cache.keep("b", (1,), tuple(range(10, 19)), kv(range(10, 19), 2.0))
    assert cache.find("a", (1,), (1, 2, 3)) is None
    assert torch.equal(cache.find("b", (1,), tuple(range(10, 20))).kv, kv(range(10, 19), 2.0))


def test_remembered_texts_are_those_of_a_plain_dictionary():
    """Random texts of few tokens, so that they part everywhere; what is found is the longest beginning ever kept, as
    long as nothing had to go, and its keys and values are those of the tokens."""
    draw = random.Random(0)
    cache = Beginnings(4000 * 3 * 2 * 4, layers=3, width=2, dtype=torch.float32, device=torch.device("cpu"))
    known = set()
    for _ in range(400):
        text = tuple(draw.randrange(3) for _ in range(draw.randrange(1, 9)))
        found = cache.find("a", (7,), text)
        longest = max((size for size in range(len(text)) if text[:size] in known), default=0)
        assert (() if found is None else found.ids[1:]) == text[:longest]
        if found is not None:
            assert torch.equal(found.kv, kv(text[:longest], 1.0))
        cache.keep("a", (7,), text, kv(text, 1.0))
        known |= {text[: size + 1] for size in range(len(text))}
    assert cache.stats.evictions == 0
    assert 0 < len(cache._free) == 4000 - len(known)


def test_the_trunk_is_shared_by_adapters_of_the_upper_layers(kit, folder, backbone, adapters):
    """The third adapter begins at the top layer: its rules cost the layers below nothing when another had them read."""
    fresh = kit.load(folder)
    other = fresh.read_adapter(kit.upload(fresh, kit.peft_files(folder, 9, ["v_proj"], [2])))
    rules = kit.prompt(1, 4).rules
    asked = [kit.query(kit.prompt(1, 4), one) for one in (adapters[2], other)]
    expected = [kit.scores(kit.load(folder, merge_bytes=0), [query])[0] for query in asked]
    ran = []
    layers = fresh._engine.model._layers
    fresh._engine.model._layers = lambda first, end, h, batch: ran.append((first, end)) or layers(first, end, h, batch)
    found = [kit.scores(fresh, [query])[0] for query in asked]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.logprobs, b.logprobs, atol=1e-5)
    assert ran == [(0, 2), (2, 2), (0, 2), (2, 2), (0, 2)]  # trunk, top and state; then top and state only
    assert rules
