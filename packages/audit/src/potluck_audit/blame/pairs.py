"""Contrast pairs: the same prompt with a better and a worse answer, in TRL's preference format.

An error gives (prompt, the better choice, the choice taken), a repair (prompt, the choice taken, the worse one). Rows
have TRL's columns `prompt`, `chosen` and `rejected`, and beside them whose decision it was and what the difference is
worth. Two forms of text:

text   the plain prompt of the words scheme, byte for byte what the policy server scores; the answers are words
chat   a system and a user message, and an assistant message with the letter: TRL applies the tokenizer's template

Only differences that are surely above zero become pairs: the mean gain exceeds `sureness` standard errors.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from potluck.common.v1 import common_pb2 as common_pb
from potluck_audit.blame.results import Choice, Gain, Located
from potluck_audit.blame.trace import Trace
from potluck_audit.results import write_file

Form = Literal["text", "chat"]
MOST_STEPS = 99
SURENESS = 2.0


@dataclass(frozen=True)
class Pair:
    """One row."""

    prompt: Any
    chosen: Any
    rejected: Any
    kind: str
    """`error` or `repair`."""
    agent: str
    policy: str
    """The agent's policy as records name it: an adapter digest or a builtin."""
    game: str
    set: str
    episode_id: str
    decision: int
    boundary: int
    step: int
    chosen_option: str
    rejected_option: str
    gain: float
    """In the probability of success."""
    gain_se: float | None
    return_gain: float
    prompt_message: str
    """The potluck.common.v1.Prompt as JSON, to be rendered anew for another backbone."""
    chosen_index: int
    rejected_index: int


def pairs_of(located: Located, trace: Trace, policies: dict[str, str], form: Form) -> list[Pair]:
    """The pairs of one episode."""
    found = []
    for error in (*located.repaired, *((located.error,) if located.error else ())):
        if error.better is not None and error.gain is not None:
            found.append(("error", error, error.better, error.taken, error.gain))
    for repair in located.repairs:
        if repair.worse is not None and repair.gain is not None:
            found.append(("repair", repair, repair.taken, repair.worse, repair.gain))
    return [
        _pair(kind, located, trace, where, better, worse, gain, policies[where.agent], form)
        for kind, where, better, worse, gain in found
        if sure(gain)
    ]


def sure(gain: Gain) -> bool:
    """Whether the difference is above zero by its standard error."""
    return gain.success > 0 and gain.success_se is not None and gain.success > SURENESS * gain.success_se


def _pair(
    kind: str, located: Located, trace: Trace, where: Any, better: Choice, worse: Choice, gain: Gain, policy: str,
    form: Form,
) -> Pair:  # fmt: skip
    from google.protobuf.json_format import MessageToJson

    prompt = trace.moments[where.boundary].of(where.agent).prompt
    places = {item.letter: place for place, item in enumerate(prompt.items)}
    chosen, rejected = prompt.items[places[better.letter]], prompt.items[places[worse.letter]]
    return Pair(
        prompt=text(prompt) if form == "text" else chat(prompt),
        chosen=f" {chosen.word}" if form == "text" else [{"role": "assistant", "content": chosen.letter}],
        rejected=f" {rejected.word}" if form == "text" else [{"role": "assistant", "content": rejected.letter}],
        kind=kind,
        agent=where.agent,
        policy=policy,
        game=located.game,
        set=located.set,
        episode_id=located.episode_id,
        decision=where.decision,
        boundary=where.boundary,
        step=where.step,
        chosen_option=f"{chosen.option} {chosen.target}".strip(),
        rejected_option=f"{rejected.option} {rejected.target}".strip(),
        gain=gain.success,
        gain_se=gain.success_se,
        return_gain=gain.returns,
        prompt_message=MessageToJson(prompt, preserving_proto_field_name=True, indent=None),
        chosen_index=places[better.letter],
        rejected_index=places[worse.letter],
    )


def text(prompt: common_pb.Prompt) -> str:
    """The words scheme."""
    last = " ; ".join(" ".join(entry.split()) for entry in prompt.memory) or "none"
    menu = " , ".join(f"{min(max(item.steps, 0), MOST_STEPS)} {item.word}" for item in prompt.items)
    return f"{prompt.rules.strip()}\nstate\n{prompt.observation.strip()}\nlast {last}\nmenu {menu}\nanswer"


def chat(prompt: common_pb.Prompt) -> list[dict[str, str]]:
    """The letters scheme as messages."""
    memory = "\n".join(f"- {' '.join(entry.split())}" for entry in prompt.memory) or "- none"
    menu = "\n".join(f"{item.letter}) {item.text}{_distance(item.steps)}" for item in prompt.items)
    body = (
        f"Present state:\n{prompt.observation.strip()}\nYour last options, oldest first:\n{memory}\n"
        f"Options:\n{menu}\nAnswer with the letter of the best option and nothing else."
    )
    return [{"role": "system", "content": prompt.rules.strip()}, {"role": "user", "content": body}]


def _distance(steps: int) -> str:
    if steps < 0:
        return ""
    return f" ({steps} step)" if steps == 1 else f" ({steps} steps)"


_MESSAGES = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))


def schema(form: Form) -> pa.Schema:
    """Columns of the Parquet file."""
    said = pa.string() if form == "text" else _MESSAGES
    texts = ("kind", "agent", "policy", "game", "set", "episode_id", "chosen_option", "rejected_option")
    return pa.schema(
        [("prompt", said), ("chosen", said), ("rejected", said)]
        + [(name, pa.string()) for name in texts]
        + [(name, pa.int32()) for name in ("decision", "boundary", "step", "chosen_index", "rejected_index")]
        + [(name, pa.float64()) for name in ("gain", "gain_se", "return_gain")]
        + [("prompt_message", pa.string())]
    )


def write_pairs(pairs: Sequence[Pair], folder: Path, form: Form) -> tuple[Path, Path]:
    """`pairs.jsonl` and `pairs.parquet`; both load with `datasets.load_dataset`, and with no pair they are empty."""
    names = schema(form).names
    rows = [{name: getattr(pair, name) for name in names} for pair in pairs]
    lines = "".join(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
    return write_file(folder / "pairs.jsonl", lines), write_table(rows, schema(form), folder / "pairs.parquet")


def write_table(rows: Iterable[dict[str, Any]], columns: pa.Schema, path: Path) -> Path:
    """Written aside and renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.tmp")
    pq.write_table(pa.Table.from_pylist(list(rows), schema=columns), aside)
    os.replace(aside, path)
    return path
