"""Rows of the run folder's tables from finished episodes, and back to prompts."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from potluck.common.v1.common_pb2 import Item, Prompt
from potluck.env.v1.env_service_pb2 import Baseline, GameInfo, Progress
from potluck.play import DecisionRecord, EpisodeResult, EpisodeSpec
from potluck.policy.v1.policy_service_pb2 import BuiltinPolicy
from potluck_trainer.algorithms.base import Floats
from potluck_trainer.records.schema import SCHEMA_VERSION

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Context:
    """What all episodes of a part share."""

    run: str
    set: str
    round: int
    game: GameInfo
    backbone: str
    label_scheme: str
    temperature: float


@dataclass
class Part:
    """Rows of one part, by table."""

    name: str
    episodes: list[Row] = field(default_factory=list)
    decisions: list[Row] = field(default_factory=list)
    texts: list[Row] = field(default_factory=list)

    def tables(self) -> dict[str, list[Row]]:
        return {"texts": self.texts, "decisions": self.decisions, "episodes": self.episodes}


class Texts:
    """Hands out hashes and collects each new text once."""

    def __init__(self, known: set[str]) -> None:
        self._known = known

    def hash(self, kind: str, text: str, part: Part) -> str:
        digest = hashlib.sha256(text.encode()).hexdigest()
        if digest not in self._known:
            self._known.add(digest)
            part.texts.append({"schema_version": SCHEMA_VERSION, "hash": digest, "kind": kind, "text": text})
        return digest


def policy_name(spec: EpisodeSpec, agent: str) -> str:
    """An adapter's digest, or the name of a builtin or baseline."""
    if agent in spec.baselines:
        baseline = spec.baselines[agent]
        return baseline if isinstance(baseline, str) else Baseline.Name(baseline).removeprefix("BASELINE_").lower()
    policy = spec.policies[agent]
    return policy.adapter or BuiltinPolicy.Name(policy.builtin).removeprefix("BUILTIN_POLICY_").lower()


def add_episode(
    part: Part,
    texts: Texts,
    context: Context,
    member: int,
    result: EpisodeResult,
    advantages: Mapping[str, Floats] | None = None,
) -> None:
    """Adds an episode and its decisions to a part."""
    spec, finished = result.spec, result.finished
    common = {
        "schema_version": SCHEMA_VERSION,
        "run": context.run,
        "set": context.set,
        "round": context.round,
        "episode_id": spec.episode_id,
        "game": finished.recording.game or spec.game,
        "library_digest": finished.recording.library_digest or context.game.library_digest,
        "seed": finished.recording.seed,
        "base_digest": result.base_digest,
        "trace_id": result.trace_id,
    }
    progress = Progress(steps=result.steps, options=result.options)
    part.episodes.append(
        common
        | {
            "member": member,
            "dynamics": context.game.dynamics,
            "reward_unit": context.game.reward_unit,
            "sample_seed": spec.sample_seed,
            "horizon": finished.recording.horizon,
            "steps": finished.steps,
            "team_return": finished.team_return,
            "agent_returns": list(finished.agent_returns),
            "truncated": finished.truncated,
            "policies": json.dumps({agent: policy_name(spec, agent) for agent in context.game.agents}),
            "digest": result.digest,
            "recording": finished.recording.SerializeToString(deterministic=True),
            "step_records": progress.SerializeToString(deterministic=True),
            "attempts": result.attempts,
            "temperature": context.temperature,
            "label_scheme": context.label_scheme,
            "backbone": context.backbone,
        }
    )
    for record in result.decisions:
        advantage = None if advantages is None else float(advantages[record.agent][record.decision])
        part.decisions.append(common | _decision(record, texts, part) | {"advantage": advantage})


def _decision(record: DecisionRecord, texts: Texts, part: Part) -> Row:
    prompt = record.prompt
    items = prompt.items if record.spoken is None else [record.item]
    return {
        "agent": record.agent,
        "decision": record.decision,
        "boundary": record.boundary,
        "step": record.step,
        "prompt_hash": record.prompt_digest,
        "menu_digest": record.menu_digest,
        "options": [item.option for item in items],
        "targets": [item.target for item in items],
        "words": [item.word for item in items],
        "letter": record.letter,
        "index": record.index,
        "logprob": record.logprob if record.spoken is None else None,
        "probabilities": list(record.probabilities),
        "label_mass": None if math.isnan(record.label_mass) else record.label_mass,
        "adapter_digest": record.adapter_digest,
        "state_key": prompt.state_key,
        "action_keys": [item.action_key for item in items],
        "outcome": record.outcome or None,
        "duration": record.duration if record.outcome else None,
        "reward": record.reward if record.outcome else None,
        "cut": record.cut,
        "rules_hash": texts.hash("rules", prompt.rules, part),
        "observation_hash": texts.hash("observation", prompt.observation, part),
        "memory": list(prompt.memory),
        "item_texts": [item.text for item in items],
        "item_steps": [item.steps for item in items],
        "item_greedy": [item.greedy for item in items],
        "text": None if record.spoken is None else record.spoken.text,
    }


LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def prompt_of(row: Mapping[str, Any], texts: Mapping[str, str]) -> Prompt:
    """The very prompt of a recorded decision, for re-scoring."""
    columns: Sequence[str] = ("words", "options", "targets", "item_texts", "item_steps", "action_keys", "item_greedy")
    items = [
        Item(
            letter=LETTERS[place],
            word=word,
            option=option,
            target=target,
            text=text,
            steps=steps,
            action_key=action_key,
            greedy=greedy,
        )
        for place, (word, option, target, text, steps, action_key, greedy) in enumerate(
            zip(*(row[name] for name in columns), strict=True)
        )
    ]
    return Prompt(
        rules=texts[row["rules_hash"]],
        observation=texts[row["observation_hash"]],
        memory=row["memory"],
        items=items,
        state_key=row["state_key"],
    )
