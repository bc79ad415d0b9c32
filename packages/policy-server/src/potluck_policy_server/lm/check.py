"""What a packed forward is asked whenever a backbone is loaded: does it agree with transformers' own, and do its rows
depend on each other?"""

import dataclasses
from typing import Any

import torch
from torch import Tensor

from potluck.decoder.trie import NO_LABELS
from potluck.decoder.weights import FROZEN
from potluck_policy_server.lm.packed import PackedDecoder, Row

_PREFIX, _SUFFIX = 9, 23


@torch.inference_mode()
def worst_difference(packed: PackedDecoder, model: Any) -> float:
    """Largest difference of next-token log-probabilities on a fixed text of arbitrary tokens."""
    ids = _text(packed, _PREFIX + _SUFFIX)
    kv = packed.prefix(ids[:_PREFIX], FROZEN)
    hidden = packed.hidden([Row(FROZEN, (kv,), ids[_PREFIX:], NO_LABELS, (0,))]).states
    ours = (hidden @ model.get_output_embeddings().weight.T).float().log_softmax(-1)[0]
    reference = model(input_ids=torch.tensor([ids], device=packed.device), use_cache=False, logits_to_keep=1)
    theirs = reference.logits[0, -1].float().log_softmax(-1)
    likely = theirs > theirs.max() - 20
    return float((ours - theirs)[likely].abs().max())


@torch.inference_mode()
def independent(packed: PackedDecoder) -> bool:
    """True where rows have the same bits alone, in a batch of other lengths, and after a beginning that was computed
    in another batch. Asked of the first two layers, since all have the same shapes."""
    few = PackedDecoder(dataclasses.replace(packed.decoder, layers=packed.decoder.layers[:2]), packed.exact)
    ids = _text(packed, 5 + 100)
    rules, texts = ids[:5], [ids[5 : 5 + size] for size in (100, 37, 3, 1)]
    kv = few.prefix(rules, FROZEN)
    rows = [Row(FROZEN, (kv,), text, NO_LABELS, (0,)) for text in texts]
    together = few.hidden(rows)
    whole = together.kv[:, 0, len(rules) :]
    for index, row in enumerate(rows):
        if not _same(few.hidden([row]).states[0], together.states[index]):
            return False
        known = 2 * len(row.suffix) // 3
        begun = row._replace(begin=whole[:, :known].clone())
        if known and not _same(few.hidden([begun, *rows[1:]]).states[0], together.states[index]):
            return False
    return True


def _text(packed: PackedDecoder, size: int) -> tuple[int, ...]:
    """Arbitrary tokens, the same everywhere."""
    vocabulary = packed.decoder.embed.shape[0]
    return tuple((37 * i * i + 11 * i + 5) % vocabulary for i in range(size))


def _same(a: Tensor, b: Tensor) -> bool:
    return bool(torch.equal(a, b))
