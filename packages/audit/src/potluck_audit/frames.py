"""Records as data frames: `pyarrow.Table`s with a fixed schema, null for what is undefined and never NaN.

pyarrow is what the records are written with, so that nothing else must be installed; `table.to_pandas()` and
`polars.from_arrow(table)` turn a table into a frame of the library at hand.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from potluck_audit.metrics.metric import Metric
from potluck_audit.metrics.trends import Trend
from potluck_audit.records.run import parts, read_part

DECISIONS = pa.schema(
    [
        ("set", pa.string()), ("round", pa.int32()), ("episode_id", pa.string()), ("agent", pa.string()),
        ("decision", pa.int32()), ("step", pa.int32()), ("option", pa.string()), ("target", pa.string()),
        ("letter", pa.string()), ("probability", pa.float64()), ("options", pa.list_(pa.string())),
        ("targets", pa.list_(pa.string())), ("probabilities", pa.list_(pa.float64())), ("outcome", pa.string()),
        ("duration", pa.int32()), ("reward", pa.float64()), ("advantage", pa.float64()),
    ]
)  # fmt: skip
"""One row a decision. `probability` is the chosen item's; `options`, `targets`, `probabilities` the whole menu's."""

EPISODES = pa.schema(
    [
        ("set", pa.string()), ("round", pa.int32()), ("episode_id", pa.string()), ("member", pa.int32()),
        ("game", pa.string()), ("seed", pa.uint64()), ("sample_seed", pa.uint64()), ("horizon", pa.int32()),
        ("steps", pa.int32()), ("team_return", pa.float64()), ("agent_returns", pa.list_(pa.float64())),
        ("reward_unit", pa.string()), ("policies", pa.string()), ("attempts", pa.int32()),
        ("temperature", pa.float64()), ("backbone", pa.string()), ("library_digest", pa.string()),
    ]
)  # fmt: skip
"""One row an episode. `policies` is a JSON object of agent to adapter digest, builtin or baseline."""

METRICS = pa.schema(
    [
        ("name", pa.string()), ("set", pa.string()), ("agent", pa.string()), ("key", pa.string()),
        ("value", pa.float64()), ("low", pa.float64()), ("high", pa.float64()), ("episodes", pa.int64()),
        ("unit", pa.string()),
    ]
)  # fmt: skip
"""One row a figure: value with its interval and the episodes behind it."""

CREDIT = pa.schema(
    [("baseline", pa.string()) if f.name == "key" else (f.name, f.type) for f in METRICS if f.name != "name"]
)
"""One row an agent: Shapley credit against the named baseline."""

TRENDS = pa.schema([("first", pa.int32()), ("last", pa.int32()), *((f.name, f.type) for f in METRICS)])
"""One row a figure of consecutive training rounds, `first` to `last`."""

_RAW = ("schema_version", "index", *(n for n in DECISIONS.names if n not in ("option", "target", "probability")))
_LATER = frozenset({"round", "reward", "advantage"})
"""Columns that a part may lack."""


def decisions(run: Path, set_name: str | None = None, agent: str | None = None) -> pa.Table:
    """Decisions of training and evaluation alike."""
    tables = []
    for part in parts(run / "decisions"):
        for table in read_part(part, _RAW, _LATER):
            chosen = _where(table, set=set_name, agent=agent)
            if chosen.num_rows:
                tables.append(_decided(chosen))
    return pa.concat_tables(tables) if tables else DECISIONS.empty_table()


def episodes(run: Path, set_name: str | None = None, agent: str | None = None) -> pa.Table:
    """Episodes of training and evaluation alike; those that an agent played, with its policy as a last column."""
    tables = [
        _typed(_where(table, set=set_name), EPISODES)
        for part in parts(run / "episodes")
        for table in read_part(part, ("schema_version", *EPISODES.names))
    ]
    found = pa.concat_tables(tables) if tables else EPISODES.empty_table()
    if agent is None:
        return found
    policies = [json.loads(text).get(agent) for text in found["policies"].to_pylist()]
    found = found.append_column("policy", pa.array(policies, pa.string()))
    return found.filter(pc.is_valid(found["policy"]))


def metrics(rows: Iterable[Metric]) -> pa.Table:
    """Metrics as a table."""
    plain = [
        {"name": m.name, "set": m.set, "agent": m.agent, "key": m.key, **m.estimate._asdict(), "unit": m.unit}
        for m in rows
    ]
    return pa.Table.from_pylist(plain, schema=METRICS)


def trends(rows: Iterable[Trend]) -> pa.Table:
    """The course of training as a table."""
    parts = list(rows)
    table = metrics(t.metric for t in parts)
    ends = {"first": [t.first for t in parts], "last": [t.last for t in parts]}
    for name, values in reversed(ends.items()):
        table = table.add_column(0, name, pa.array(values, pa.int32()))
    return table.cast(TRENDS)


def credit(rows: Iterable[Metric]) -> pa.Table:
    """Only the credits."""
    table = metrics(m for m in rows if m.name == "credit").drop(["name"])
    return table.rename_columns(CREDIT.names)


def _where(table: pa.Table, **wanted: str | None) -> pa.Table:
    for column, value in wanted.items():
        if value is not None:
            table = table.filter(pc.equal(table[column], value))
    return table


def _decided(table: pa.Table) -> pa.Table:
    index = table["index"].to_numpy(zero_copy_only=False)
    for column, menu in (("option", "options"), ("target", "targets"), ("probability", "probabilities")):
        table = table.append_column(column, _picked(table[menu], index))
    return _typed(table, DECISIONS)


def _picked(menus: pa.ChunkedArray, index: np.ndarray) -> pa.Array:
    """The item at each row's index; null where the menu has no such item."""
    menu = menus.combine_chunks() if menus.num_chunks != 1 else menus.chunk(0)
    if pa.types.is_null(menu.type):
        return pa.nulls(len(menu))
    lengths = pc.fill_null(pc.list_value_length(menu), 0).to_numpy(zero_copy_only=False)
    at = np.nan_to_num(index, nan=-1).astype(np.int64)
    places = menu.offsets.to_numpy()[:-1] + at
    return menu.values.take(pa.array(places, mask=(at < 0) | (at >= lengths)))


def _typed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The schema's columns, in order: null where a column lacks or holds what is no number."""
    return pa.Table.from_arrays([_column(table, field) for field in schema], schema=schema)


def _column(table: pa.Table, field: pa.Field) -> pa.ChunkedArray:
    if field.name not in table.column_names:
        return pa.chunked_array([pa.nulls(table.num_rows, field.type)])
    column = table[field.name].cast(field.type)
    return pc.if_else(pc.is_finite(column), column, None) if pa.types.is_floating(field.type) else column


def names(table: pa.Table, column: str) -> Sequence[str]:
    """The column's values, each once, in order."""
    return [str(value) for value in pc.unique(table[column]).to_pylist()]
