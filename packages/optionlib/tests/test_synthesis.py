"""The vectorised synthesiser against the definition, read out loop by loop over raw records."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from potluck_optionlib import synthesis
from potluck_optionlib.burnin import Burnin
from potluck_optionlib.mining import mine

Raw = tuple[str, str, Mapping[str, str], bool]
NAMES = ("w", "x", "y", "z")
OUTCOMES = ("success", "effect_fail", "timeout", "explicit:NoPath", "explicit:NothingHeld", "raised:KeyError")


def by_definition(records: Sequence[Raw], solo_only: frozenset[str], min_support: int) -> Iterator[tuple]:
    """Every conjunction is counted record by record."""
    options = sorted({option for option, *_ in records})
    for option, reason in sorted({(o, end) for o, end, *_ in records if end.startswith("explicit:")}):
        count = sum((o, end) == (option, reason) for o, end, *_ in records)
        if count >= min_support:
            yield option, "explicit", {"explicit": reason.removeprefix("explicit:")}, count
    for option in options:
        mine_ = [r for r in records if r[0] == option and (r[3] or option not in solo_only)]
        literals = sorted({item for _, end, f, _ in mine_ if end in OUTCOMES[:3] for item in f.items()})
        adopted: list[set] = []
        for size in (1, 2):
            for chosen in combinations(literals, size):
                if len({name for name, _ in chosen}) < size or any(one <= set(chosen) for one in adopted):
                    continue
                under = [end for _, end, f, _ in mine_ if all(f.get(name) == value for name, value in chosen)]
                wins, fails = under.count("success"), under.count("effect_fail") + under.count("timeout")
                if fails >= min_support and wins == 0:
                    adopted.append(set(chosen))
                    yield option, "inferred", dict(chosen), fails


def mined(burnin: Burnin, min_support: int) -> list[tuple]:
    return [(g.option, g.channel.value, g.when, g.support) for g in mine([burnin], min_support).guards]


features = st.fixed_dictionaries({}, optional={name: st.sampled_from("abc") for name in NAMES})
raws = st.lists(
    st.tuples(st.sampled_from(("go", "take")), st.sampled_from(OUTCOMES), features, st.booleans()),
    min_size=1,
    max_size=60,
)
bent = st.lists(
    st.tuples(st.just("go"), st.sampled_from(OUTCOMES[1:3]), features, st.booleans()), min_size=1, max_size=60
)


@settings(max_examples=150, deadline=None)
@given(raws | bent, st.sampled_from([frozenset(), frozenset({"go"})]), st.integers(1, 6), st.integers(1, 9))
def test_mining_is_the_definition(recorded, records, solo_only, min_support, block) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(synthesis, "_BLOCK", block)
        found = mined(recorded(*records, solo_only=tuple(solo_only)), min_support)
    assert found == list(by_definition(records, solo_only, min_support))


def test_the_comparison_can_fail(recorded) -> None:
    records = [("go", "effect_fail", {"x": "a"}, True)] * 4
    assert mined(recorded(*records), 5) == list(by_definition(records, frozenset(), 5))
    assert mined(recorded(*records), 4) != list(by_definition(records, frozenset(), 5))


def test_no_read_set_no_conjunction() -> None:
    assert synthesis.conjunctions([()], [100], [0], 5) == []
    assert synthesis.conjunctions([], [], [], 5) == []
