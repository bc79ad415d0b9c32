"""The gate over a real kitchen and real servers: two teams of softmax tables that were written by hand, not trained.

The first works together, slowly: one fills the pots and starts them, the other plates and serves, and both dawdle. In
the second one agent does everything at full speed while its partner waits, and earns more.
"""

import asyncio
import json
from itertools import product

import numpy as np
import pytest
from safetensors.numpy import save

from potluck.play import EnvPool, PolicyClient
from potluck_audit.cli import main

from .blame.conftest import both_servers

GAME, HORIZON = "overcooked/asymmetric_advantages", 300
SURE, NEVER = 8.0, -30.0
COLUMNS = (
    "deliver", "drop_held/private/dish", "drop_held/private/onion", "pick_dish", "pick_onion", "place_in_pot/cooking",
    "place_in_pot/filling", "place_in_pot/ready", "plate_soup/cooking", "plate_soup/ready", "start_cooking/full",
    "wait",
)  # fmt: skip
FILL = {
    ("none", "filling"): "pick_onion", ("none", "cooking"): "pick_onion", ("none", "ready"): "pick_onion",
    ("none", "full"): "start_cooking/full", **{("onion", pot): "place_in_pot/filling" for pot in
                                             ("filling", "cooking", "ready", "full")},
}  # fmt: skip
SERVE = {
    ("none", "cooking"): "pick_dish", ("none", "ready"): "pick_dish", ("dish", "cooking"): "plate_soup/cooking",
    ("dish", "ready"): "plate_soup/ready", **{("soup", pot): "deliver" for pot in
                                             ("filling", "cooking", "ready", "full")},
}  # fmt: skip
ALONE = {**FILL, **SERVE}
"""One agent that does all of it."""


def table(does, dawdles):
    """The file of a table adapter: the item of `does` where it is offered, or waiting, with odds `dawdles`."""
    rows = list(product(("none", "onion", "dish", "soup"), ("filling", "full", "cooking", "ready")))
    logits = np.full((len(rows), len(COLUMNS)), NEVER)
    logits[:, COLUMNS.index("wait")] = 0.0
    for place, state in enumerate(rows):
        if state in does:
            logits[place, COLUMNS.index(does[state])] = SURE
            logits[place, COLUMNS.index("wait")] = SURE + np.log(dawdles) if dawdles else NEVER
    keys = [f"held={held} pot={pot} shared=none" for held, pot in rows]
    return save({"logits": logits}, {"rows": json.dumps(keys), "columns": json.dumps(COLUMNS)})


@pytest.fixture(scope="module")
def servers():
    with both_servers("tabular", "2") as addresses:
        yield addresses


@pytest.fixture
def run(tmp_path, servers, write_run, episode):
    """Makes a run whose checkpoints are the given teams of tables."""

    async def publish(teams):
        """Base and library digest, and each team's adapters."""
        async with EnvPool([servers[0]]) as envs, PolicyClient(servers[1]) as policy:
            base = (await policy.describe()).base_digest
            digests = [
                {f"agent_{seat}": (await policy.publish(f"agent_{seat}", '{"kind":"table"}', data, base))[0]
                 for seat, data in enumerate(team)}
                for team in teams
            ]  # fmt: skip
            return base, (await envs.games())[GAME].library_digest, digests

    def make(*teams):
        base, library, digests = asyncio.run(publish(teams))
        played = episode(
            set="train", round=1, episode_id="t", game=GAME, horizon=HORIZON, team_return=1.0, base_digest=base,
            reward_unit="soups", library_digest=library, temperature=1.0, label_scheme="",
        )  # fmt: skip
        made = write_run(tmp_path / "kitchen", [played])
        lines = [
            json.dumps({"round": 10 * number, "base_digest": base, "adapters": adapters, "schema_version": 1}) + "\n"
            for number, adapters in enumerate(digests)
        ]
        (made / "checkpoints.jsonl").write_text("".join(lines))
        return made

    return make


def gate(run, servers):
    with pytest.raises(SystemExit) as ended:
        main(["gate", str(run), "--envs", servers[0], "--policy", servers[1], "--checkpoints", "2", "--episodes", "8"])
    return ended.value.code, json.loads((run / "audit" / "verdict.json").read_text())


TOGETHER = (table(FILL, 6.0), table(SERVE, 6.0))
CARRIED = (table({}, 1.0), table(ALONE, 0.0))


def test_reward_that_rose_while_one_agent_took_over_ends_with_four(run, servers, capsys):
    status, verdict = gate(run(TOGETHER, CARRIED), servers)
    said = capsys.readouterr().out
    assert [one["verdict"] for one in verdict["checkpoints"]] == ["cooperative", "free-riding"], said
    assert status == 4, said


def test_the_same_teams_the_other_way_round_pass(run, servers, capsys):
    status, _ = gate(run(CARRIED, TOGETHER), servers)
    assert status == 0, capsys.readouterr().out
