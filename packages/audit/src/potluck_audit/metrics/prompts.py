"""The very prompts of recorded decisions, so that any policy can be asked about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from potluck.common.v1 import common_pb2 as common_pb
from potluck_audit.errors import CorruptRecords, Unsupported

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_ITEM = {
    "words": "word",
    "options": "option",
    "targets": "target",
    "item_texts": "text",
    "item_steps": "steps",
    "action_keys": "action_key",
    "item_greedy": "greedy",
}
_COLUMNS = (
    "set", "episode_id", "agent", "decision", "prompt_hash", "probabilities", "rules_hash", "observation_hash",
    "memory", "state_key", *_ITEM,
)  # fmt: skip


class RecordedPrompt(NamedTuple):
    """What an agent was asked, and the distribution with which it answered."""

    episode_id: str
    agent: str
    decision: int
    prompt: common_pb.Prompt
    probabilities: tuple[float, ...]
    prompt_hash: str = ""
    """sha256 of the prompt as the policy server rendered it; empty where it was not recorded."""

    @property
    def options(self) -> frozenset[str]:
        """Option types that were offered."""
        return frozenset(item.option for item in self.prompt.items)


def recorded_prompts(run: Path, set_name: str, most: int = 0) -> list[RecordedPrompt]:
    """All prompts of a set in order, or `most` of them drawn at random (always the same).

    A run without its prompts or their texts is refused."""
    rows = [row for part in _parts(run / "decisions") for row in _rows(part, set_name)]
    if most and len(rows) > most:
        rows = [rows[place] for place in sorted(np.random.default_rng(0).choice(len(rows), most, replace=False))]
    wanted = {row[name] for row in rows for name in ("rules_hash", "observation_hash")}
    texts = _texts(run, wanted)
    if missing := wanted - set(texts):
        raise Unsupported(
            f"{len(missing)} texts of the prompts of {set_name} are not in {run.name}/texts",
            "copy the run's texts folder beside its decisions",
        )
    return [_prompt(row, texts) for row in rows]


def _parts(folder: Path) -> list[Path]:
    return sorted(folder.glob("[!.]*.parquet"))


def _rows(part: Path, set_name: str) -> Iterator[dict[str, Any]]:
    if part.name.startswith("round-") != (set_name == "train"):
        return
    try:
        names = set(pq.read_schema(part).names)
        if missing := set(_COLUMNS) - names:
            raise Unsupported(
                f"{part.name} holds no prompts: it lacks {', '.join(sorted(missing))}",
                "evaluate the team again with this version",
            )
        yield from pq.read_table(part, columns=list(_COLUMNS), filters=[("set", "==", set_name)]).to_pylist()
    except (pa.ArrowException, OSError) as broken:
        raise CorruptRecords(part, type(broken).__name__) from broken


def _texts(run: Path, wanted: set[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in _parts(run / "texts"):
        if len(found) == len(wanted):
            break
        try:
            table = pq.read_table(part, columns=["hash", "text"], filters=[("hash", "in", wanted)])
        except (pa.ArrowException, OSError) as broken:
            raise CorruptRecords(part, type(broken).__name__) from broken
        found.update(zip(table["hash"].to_pylist(), table["text"].to_pylist(), strict=True))
    return found


def _prompt(row: Mapping[str, Any], texts: Mapping[str, str]) -> RecordedPrompt:
    columns: Sequence[Sequence[Any]] = [row[name] for name in _ITEM]
    items = [
        common_pb.Item(letter=letter, **dict(zip(_ITEM.values(), values, strict=True)))
        for letter, *values in zip(LETTERS, *columns, strict=False)
    ]
    prompt = common_pb.Prompt(
        rules=texts[row["rules_hash"]],
        observation=texts[row["observation_hash"]],
        memory=row["memory"],
        items=items,
        state_key=row["state_key"],
    )
    return RecordedPrompt(
        row["episode_id"], row["agent"], row["decision"], prompt, tuple(row["probabilities"]), row["prompt_hash"] or ""
    )
