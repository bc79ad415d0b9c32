"""The audit's verdict on real play: real kitchens behind a real env server, scripted and random chefs behind a real
policy server. One agent that does everything is told from a team that works together."""

import re
import shutil
import subprocess
import sys
from contextlib import ExitStack

import pytest

from potluck.play import EnvPool, PolicyClient
from potluck_audit.counterfactual.playing import Players
from potluck_audit.counterfactual.setting import Draw, Setting
from potluck_audit.intervals import Intervals
from potluck_audit.verdict.checkpoints import SavedTeam
from potluck_audit.verdict.decoupling import decoupling
from potluck_audit.verdict.evaluation import play_checkpoints
from potluck_audit.verdict.verdict import Verdict

EPISODES = 6


@pytest.fixture(scope="module")
def servers():
    """Addresses of an env server and of a policy server without weights."""
    commands = (("potluck-envs", "serve", "--workers", "1"), ("potluck-policy", "serve", "--backbone", "uniform"))
    with ExitStack() as stack:
        addresses = []
        for name, *rest in commands:
            program = shutil.which(name, path=f"{sys.prefix}/bin") or shutil.which(name)
            assert program, f"{name} is not installed"
            child = subprocess.Popen([program, *rest], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            stack.callback(child.wait)
            stack.callback(child.terminate)
            ready = child.stdout.readline()
            addresses.append(re.fullmatch(r"ready \S+ on (\S+)\n", ready)[1])
        yield tuple(addresses)


async def judged(servers, tmp_path, layout, *teams, horizon=200):
    """The gate's findings over teams that stand for checkpoints."""
    async with EnvPool([servers[0]]) as envs, PolicyClient(servers[1]) as policy:
        game = (await envs.games())[f"overcooked/{layout}"]
        setting = Setting(
            game=game.name,
            horizon=horizon,
            draws=tuple(Draw(seed, seed) for seed in range(EPISODES)),
            library_digest=game.library_digest,
            unit=game.reward_unit,
        )
        saved = [SavedTeam(n, "", dict(zip(game.agents, team, strict=True))) for n, team in enumerate(teams)]
        players = Players(envs, policy, tmp_path)
        plays, _ = await play_checkpoints(setting, saved, tmp_path, players, lambda *stage: None, references=())
    return decoupling(plays, Intervals(resamples=500))


async def test_a_team_in_which_one_does_everything(servers, tmp_path):
    """The negative control: the partner stands still, or runs about at random and helps by chance."""
    found = await judged(servers, tmp_path, "cramped_room", ("greedy", "noop"), ("greedy", "uniform"))
    idle, busy = found.checkpoints
    assert idle.verdict in (Verdict.FREE_RIDING, Verdict.CARRIED), idle.reason
    assert busy.verdict is Verdict.CARRIED, busy.reason
    assert idle.find("return").estimate.value > 0


async def test_a_team_whose_kitchen_lets_nobody_serve_alone(servers, tmp_path):
    found = await judged(servers, tmp_path, "forced_coordination", ("greedy", "greedy"), horizon=150)
    (team,) = found.checkpoints
    assert team.verdict is Verdict.COOPERATIVE, team.reason
    assert team.find("synergy_share").estimate.value == 1.0
    assert team.find("made_together").estimate.value == 1.0
    assert team.find("constructive_handoffs").estimate.value >= 4, "of every soup: three onions and a dish"


async def test_two_that_work_side_by_side(servers, tmp_path):
    found = await judged(servers, tmp_path, "asymmetric_advantages", ("greedy", "greedy"))
    assert found.checkpoints[0].verdict is Verdict.PARALLEL, found.checkpoints[0].reason
