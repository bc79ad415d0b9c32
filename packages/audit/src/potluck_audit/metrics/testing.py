"""Rows of tests that stand side by side: `p_value`, and `p_value_holm` corrected over all of them.

The key names what was tested. A p-value has no interval.
"""

from __future__ import annotations

from collections.abc import Mapping

from potluck_audit.intervals import Estimate
from potluck_audit.metrics.metric import Metric
from potluck_audit.statistics import holm


def p_value_rows(set_name: str, p_values: Mapping[str, float | None], units: int) -> list[Metric]:
    """Both rows of every test; a test that could not be made is undefined in both."""
    corrected = holm(p_values)
    rows = []
    for name, p in p_values.items():
        rows.append(Metric("p_value", set_name, Estimate(p, None, None, units), key=name, unit="p"))
        rows.append(Metric("p_value_holm", set_name, Estimate(corrected[name], None, None, units), key=name, unit="p"))
    return rows
