"""Columns of the run folder's tables, schema version 1.

    decisions/<part>.parquet   one row per decision: everything needed to re-score it
    episodes/<part>.parquet    one row per episode: everything needed to replay it
    texts/<part>.parquet       rules and observations, each text once per run, by sha256

A part is one training round (`round-000012`) or one evaluation set (`eval-trained`). Changes within a version only
add columns; readers go by name and must refuse a newer `schema_version`. Absent is null, never NaN or 0.
"""

from __future__ import annotations

import pyarrow as pa

SCHEMA_VERSION = 1

TRAIN_SET = "train"
"""The `set` of training episodes; evaluation sets are "eval/<name>"."""

_STRINGS = pa.list_(pa.string())

EPISODES = pa.schema(
    [
        ("schema_version", pa.int32()),
        ("run", pa.string()),
        ("set", pa.string()),
        ("round", pa.int32()),
        ("episode_id", pa.string()),
        ("member", pa.int32()),
        ("game", pa.string()),
        ("library_digest", pa.string()),
        ("dynamics", pa.string()),
        ("seed", pa.uint64()),
        ("sample_seed", pa.uint64()),
        ("horizon", pa.int32()),
        ("steps", pa.int32()),
        ("team_return", pa.float64()),
        ("agent_returns", pa.list_(pa.float64())),
        ("truncated", pa.bool_()),
        ("policies", pa.string()),
        ("digest", pa.string()),
        ("recording", pa.binary()),
        ("step_records", pa.binary()),
        ("attempts", pa.int32()),
        ("trace_id", pa.string()),
        ("reward_unit", pa.string()),
        ("temperature", pa.float64()),  # 0 where the most probable item was taken
        ("label_scheme", pa.string()),
        ("backbone", pa.string()),
        ("base_digest", pa.string()),
    ]
)

DECISIONS = pa.schema(
    [
        ("schema_version", pa.int32()),
        ("run", pa.string()),
        ("set", pa.string()),
        ("round", pa.int32()),
        ("episode_id", pa.string()),
        ("agent", pa.string()),
        ("decision", pa.int32()),
        ("boundary", pa.int32()),
        ("step", pa.int32()),
        ("game", pa.string()),
        ("library_digest", pa.string()),
        ("seed", pa.uint64()),
        ("prompt_hash", pa.string()),
        ("menu_digest", pa.string()),
        ("options", _STRINGS),
        ("targets", _STRINGS),
        ("words", _STRINGS),
        ("letter", pa.string()),
        ("index", pa.int32()),
        ("logprob", pa.float64()),
        ("probabilities", pa.list_(pa.float64())),
        ("label_mass", pa.float64()),
        ("adapter_digest", pa.string()),
        ("base_digest", pa.string()),
        ("state_key", pa.string()),
        ("action_keys", _STRINGS),
        ("outcome", pa.string()),
        ("duration", pa.int32()),
        ("reward", pa.float64()),
        ("cut", pa.int32()),
        ("advantage", pa.float64()),
        ("trace_id", pa.string()),
        ("rules_hash", pa.string()),
        ("observation_hash", pa.string()),
        ("memory", _STRINGS),
        ("item_texts", _STRINGS),
        ("item_steps", pa.list_(pa.int32())),
        ("item_greedy", pa.list_(pa.float64())),
        ("text", pa.string()),
    ]
)

TEXTS = pa.schema([("schema_version", pa.int32()), ("hash", pa.string()), ("kind", pa.string()), ("text", pa.string())])

TABLES = {"decisions": DECISIONS, "episodes": EPISODES, "texts": TEXTS}

DESCRIPTIONS = {
    "run": "name of the run folder",
    "set": '"train" or "eval/<name>"',
    "round": "training round; in evaluation sets the round of the adapters that played",
    "episode_id": "unique in the run",
    "member": "number of the episode within its round or set",
    "library_digest": "sha256 of the option library it was played with",
    "dynamics": "the engine's rule set",
    "seed": "all randomness of the episode",
    "sample_seed": "randomness of the policies' samples",
    "steps": "primitive steps played",
    "team_return": "undiscounted, in `reward_unit`",
    "agent_returns": "in seat order",
    "truncated": "true at the horizon",
    "policies": "JSON: agent -> adapter digest, builtin or baseline name",
    "digest": "sha256 of the trajectory",
    "recording": "serialized potluck.env.v1.Recording; re-executes to `digest`",
    "step_records": "serialized potluck.env.v1.Progress: every step in evaluation sets, rewarded ones in training",
    "attempts": "1, or more when an earlier attempt was lost",
    "trace_id": "W3C trace id, empty without tracing",
    "decision": "counts this agent's decisions in the episode",
    "boundary": "decision boundary of the episode (where a fork can begin)",
    "step": "primitive steps played before the decision",
    "prompt_hash": "sha256 of the prompt as the policy server rendered it",
    "rules_hash": "key into `texts`",
    "observation_hash": "key into `texts`",
    "memory": "last options of the agent as it was told",
    "options": "option types in letter order; likewise targets, words, action_keys, item_*",
    "letter": "the choice; `index` is its place in the menu",
    "logprob": "log-probability under the menu policy that sampled it",
    "probabilities": "the whole menu distribution",
    "label_mass": "full-vocabulary mass on the offered labels; null where there is no vocabulary, or one item only",
    "adapter_digest": "weights that decided; empty for a builtin",
    "outcome": "how the option ended; null if the episode ended first",
    "duration": "steps that the option took",
    "reward": "team reward during the option",
    "cut": "feasible items that did not fit into the menu",
    "advantage": "what the learner used; null in evaluation sets and in rounds without an update",
    "text": "the answer under the JSON interface, else null; `options` and `targets` then hold what it came to",
}
