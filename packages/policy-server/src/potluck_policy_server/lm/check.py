"""Does the packed forward agree with transformers' own? Asked whenever a backbone is loaded."""

from typing import Any

import torch

from potluck_policy_server.lm.packed import PackedDecoder, Row
from potluck_policy_server.lm.trie import Trie
from potluck_policy_server.lm.weights import FROZEN

_PREFIX, _SUFFIX = 9, 23


@torch.inference_mode()
def worst_difference(packed: PackedDecoder, model: Any) -> float:
    """Largest difference of next-token log-probabilities on a fixed text of arbitrary tokens."""
    size = model.config.vocab_size
    ids = [(37 * i * i + 11 * i + 5) % size for i in range(_PREFIX + _SUFFIX)]
    kv = packed.prefix(ids[:_PREFIX], FROZEN)
    trie = Trie((), (), (), (), (), ())
    hidden = packed.hidden([Row(FROZEN, kv, tuple(ids[_PREFIX:]), trie, (0,))]).states
    ours = (hidden @ model.get_output_embeddings().weight.T).float().log_softmax(-1)[0]
    reference = model(input_ids=torch.tensor([ids], device=packed.device), use_cache=False, logits_to_keep=1)
    theirs = reference.logits[0, -1].float().log_softmax(-1)
    likely = theirs > theirs.max() - 20
    return float((ours - theirs)[likely].abs().max())
