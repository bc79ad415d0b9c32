"""Refuses feature sets that guards cannot be mined from: a value that is no string, or a name that some rows lack.

Nothing is guessed or filled in: a burn-in with such rows is refused as a whole, with the option, the feature and how
many of its rows are affected, because the contract that gave them is wrong. Executions that raised have no features.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict

import pyarrow as pa

from potluck_optionlib.burnin.errors import FeatureError
from potluck_optionlib.burnin.records import RAISED, Column, combine

_SHOWN = 5


def check_features(table: pa.Table) -> None:
    """Raises FeatureError where a feature is missing or no string in some rows."""
    values, _, counts = combine([Column.of(table, name) for name in ("option", "features", "outcome")])
    sets: dict[str, Counter[str]] = defaultdict(Counter)
    for (option, text, outcome), count in zip(values, counts.tolist(), strict=True):
        if not outcome.startswith(RAISED):
            sets[option][text] += count
    faults = [fault for option in sorted(sets) for fault in _faults(option, sets[option])]
    if faults:
        more = f" (and {len(faults) - _SHOWN} more)" if len(faults) > _SHOWN else ""
        raise FeatureError(
            f"burn-in records: {'; '.join(faults[:_SHOWN])}{more}. Every feature that an option reads must be a string "
            "in every state: mend the game's features and run the burn-in again into another folder."
        )


def _faults(option: str, sets: Counter[str]) -> list[str]:
    rows = sum(sets.values())
    parsed = {text: json.loads(text) for text in sets}
    odd = {text: count for text, count in sets.items() if not isinstance(parsed[text], dict)}
    if odd:
        sample = next(iter(odd))[:40]
        return [f"option {option!r}: features are no set of names and values ({sample}) in {sum(odd.values())} rows"]
    names = sorted({name for features in parsed.values() for name in features})
    faults = []
    for name in names:
        missing = sum(count for text, count in sets.items() if name not in parsed[text])
        if missing:
            faults.append(f"option {option!r}: feature {name!r} is missing in {missing} of {rows} rows")
        wrong = {t: n for t, n in sets.items() if name in parsed[t] and not isinstance(parsed[t][name], str)}
        if wrong:
            sample = json.dumps(parsed[next(iter(wrong))][name])
            count = sum(wrong.values())
            faults.append(f"option {option!r}: feature {name!r} is not a string ({sample}) in {count} of {rows} rows")
    return faults
