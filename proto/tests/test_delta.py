"""What LoRA adds to stacked linear layers, each B by itself or all in one block diagonal, against the formula."""

import pytest
import torch

from potluck.decoder.weights import FROZEN, Group, Pair, add_delta, delta

SIZES, WIDTH, RANK = (24, 8, 16), 12, 4


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize("adapted", [(0, 1, 2), (0, 2), (1,)])
@pytest.mark.parametrize("rows", [1, 3, 9])
def test_each_pair_adds_to_its_own_layer_and_rows(apart, adapted, rows):
    torch.manual_seed(0)
    starts = [sum(SIZES[:number]) for number in range(len(SIZES))]
    pairs = {starts[n]: Pair(torch.randn(RANK, WIDTH), torch.randn(SIZES[n], RANK)) for n in adapted}
    made = delta(torch.zeros(sum(SIZES), WIDTH), pairs, apart=apart)
    assert len(made.updates) == (len(adapted) if apart else 1)
    x, y = torch.randn(rows + 2, WIDTH), torch.randn(rows + 2, sum(SIZES))
    wanted, group = y.clone(), Group(FROZEN, 1, 1 + rows)
    for start, pair in pairs.items():
        wanted[1 : 1 + rows, start : start + len(pair.b)] += x[1 : 1 + rows] @ pair.a.T @ pair.b.T
    low = add_delta(y, x, group, made)
    torch.testing.assert_close(y, wanted)
    assert torch.equal(y[[0, -1]], wanted[[0, -1]])
    torch.testing.assert_close(low, x[1 : 1 + rows] @ torch.cat([pair.a for pair in pairs.values()]).T)
