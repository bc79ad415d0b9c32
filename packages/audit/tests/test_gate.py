"""`potluck-audit gate` and the service's long jobs, over real servers: verdicts, exit statuses, cancel and resume."""

import asyncio
import contextlib
import json

import pytest

from potluck.audit.v1 import audit_service_pb2 as pb
from potluck.play import EnvPool, PolicyClient
from potluck.policy.v1 import policy_service_pb2 as policy_pb
from potluck.rpc.errors import PotluckError, Reason, from_status, typed_errors
from potluck_audit.cli import main
from potluck_audit.counterfactual import playing
from potluck_audit.counterfactual.playing import NoReturn
from potluck_audit.errors import CorruptRecords, InvalidRequest, NewerSchema, UnknownRun
from potluck_audit.verdict.checkpoints import pick, read_checkpoints
from potluck_audit.verdict.gate import GateRequest, run_gate

from .pantry import AGENTS, BASE, DIGESTS, GAME, IDLE, TIRELESS, BrokeEnv, PantryEnv, PantryPolicy, StrikingEnv
from .test_service import house, recorded

LAZY = dict.fromkeys(AGENTS, DIGESTS["agent_1"])
TEAM = dict(DIGESTS)
LONER = {"agent_0": TIRELESS, "agent_1": IDLE}


@pytest.fixture
def trained(tmp_path, write_run, episode):
    """A run of the pantry with the given checkpoints."""

    def make(*teams, base=BASE):
        played = episode(
            set="train", round=4, episode_id="t", game=GAME, horizon=6, team_return=1.0, base_digest=BASE,
            reward_unit="jars", temperature=1.0, label_scheme="",
        )  # fmt: skip
        run = write_run(tmp_path / "demo", [played])
        lines = [
            json.dumps({"round": 5 * n, "base_digest": base, "adapters": team, "schema_version": 1}) + "\n"
            for n, team in enumerate(teams)
        ]
        (run / "checkpoints.jsonl").write_text("".join(lines))
        return run

    return make


def quiet(*stage):
    """Nobody is told."""


async def gate(here, run, **changes):
    settings = {"envs": tuple(here.services.envs), "policy": here.services.policy, "checkpoints": 2} | changes
    found, _ = await run_gate(GateRequest(run=run, **settings), quiet)
    return found


async def command(run, *flags):
    """The exit status of the real command, in a thread of its own."""

    def call():
        with pytest.raises(SystemExit) as ended:
            main(["gate", str(run), *flags])
        return ended.value.code

    return await asyncio.to_thread(call)


async def test_a_team_that_learned_to_work_together(trained, capsys):
    run = trained(LAZY, TEAM)
    async with house() as here:
        services = ["--envs", here.services.envs[0], "--policy", here.services.policy]
        status = await command(run, *services, "--checkpoints", "2", "--require", "cooperative")
    out = capsys.readouterr().out
    assert status == 0, out
    assert "coupled: no sign of decoupling" in out
    assert json.loads((run / "audit" / "verdict.json").read_text())["checkpoints"][-1]["verdict"] == "cooperative"
    assert "uniform" in out, "teams that learned nothing stand beside"
    assert "frozen" in out


async def test_reward_up_and_cooperation_down_ends_with_a_status_of_its_own(trained, capsys):
    """The negative control: one agent learned to do everything, the other to do nothing."""
    run = trained(LAZY, LONER)
    async with house(PantryEnv(pay=(0.0, 2.0, 4.0))) as here:
        services = ["--envs", here.services.envs[0], "--policy", here.services.policy]
        status = await command(run, *services, "--checkpoints", "2", "--episodes", "40")
    out = capsys.readouterr().out
    assert status == 4, out
    assert "decoupled: since round 0 the return rose by" in out
    assert "carried by one" in out


async def test_the_last_verdict_can_be_required(trained, capsys):
    run = trained(LONER, LONER)
    async with house() as here:
        services = ["--envs", here.services.envs[0], "--policy", here.services.policy]
        assert await command(run, *services, "--require", "parallel") == 6
        assert await command(run, *services) == 0
    assert "parallel was required" in capsys.readouterr().err


async def test_what_cannot_be_told_has_a_status_of_its_own(trained, capsys):
    run = trained(dict.fromkeys(AGENTS, IDLE), dict.fromkeys(AGENTS, IDLE))
    async with house() as here:
        services = ["--envs", here.services.envs[0], "--policy", here.services.policy]
        assert await command(run, *services) == 5
    assert "undecidable: no checkpoint earns anything" in capsys.readouterr().out


async def test_what_was_played_needs_no_server_and_is_not_played_again(trained):
    run = trained(LAZY, TEAM)
    async with house() as here:
        first = await gate(here, run)
        played = len(here.env.started)
        again = await gate(here, run)
        assert len(here.env.started) == played
    found, _ = await run_gate(GateRequest(run=run, checkpoints=2), quiet)
    assert found == first == again
    with pytest.raises(InvalidRequest, match="have not been played yet") as caught:
        await run_gate(GateRequest(run=run, checkpoints=2, episodes=13), quiet)
    assert caught.value.metadata["field"] == "envs"


async def test_a_spoiled_line_up_stops_the_gate(trained):
    run = trained(LAZY, TEAM)
    async with house() as here:
        await gate(here, run)
        spoiled = next((run / "audit" / "coalitions").glob("*.json"))
        spoiled.write_bytes(spoiled.read_bytes()[:-20])
        with pytest.raises(PotluckError, match=spoiled.name):
            await gate(here, run)


async def test_rewards_that_are_no_numbers_are_refused(trained):
    run = trained(LAZY, TEAM)
    async with house(BrokeEnv()) as here:
        with pytest.raises(NoReturn, match="nan as the return"):
            await gate(here, run)
    assert not list((run / "audit").rglob("*.json"))


async def test_a_checkpoint_of_another_base_is_refused(trained):
    run = trained(LAZY, TEAM, base="e" * 64)
    async with house() as here:
        with pytest.raises(PotluckError, match="differ in their frozen base"):
            await gate(here, run)


async def test_servers_of_another_library_or_base_are_refused(trained):
    class OtherLibrary(PantryEnv):
        async def ListGames(self, request, context):
            reply = await super().ListGames(request, context)
            reply.games[0].library_digest = "f" * 64
            return reply

    class OtherBase(PantryPolicy):
        async def Describe(self, request, context):
            return policy_pb.DescribeResponse(base_digest="e" * 64, max_batch=64)

    run = trained(LAZY, TEAM)
    async with house(OtherLibrary()) as here:
        with pytest.raises(PotluckError, match="made with option library cccccccccccc") as caught:
            await gate(here, run)
        assert caught.value.reason == "REPLAY_DIVERGED"
    async with house(policy=OtherBase()) as here:
        with pytest.raises(PotluckError, match="the policy server has eeeeeeeeeeee") as caught:
            await gate(here, run)
        assert caught.value.reason == "WRONG_BASE"
    assert not (run / "audit" / "coalitions").exists()


async def test_an_audit_says_the_verdict_of_the_evaluated_team(tmp_path, write_run):
    async with house() as here:
        run = write_run(tmp_path / "demo", await recorded(here))
        await here.audit(run, services=here.services)
    notes = json.loads((run / "audit" / "results.json").read_text())["notes"]
    assert any(
        note.startswith("Verdict on eval/trained (with noop partners): cooperative, for synergy") for note in notes
    )


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (None, UnknownRun),
        ("", UnknownRun),
        ('{"round": 0', UnknownRun),
        ('{"round": 0}\n', CorruptRecords),
        ("[]\n", CorruptRecords),
        ('{"round": 0, "base_digest": "", "adapters": {}, "schema_version": 99}\n', NewerSchema),
    ],
)
def test_runs_without_checkpoints(tmp_path, text, error):
    if text is not None:
        (tmp_path / "checkpoints.jsonl").write_text(text)
    with pytest.raises(error):
        read_checkpoints(tmp_path)


def test_checkpoints_are_spread_from_the_first_to_the_last(trained):
    saved = read_checkpoints(trained(*[TEAM] * 11))
    assert [one.round for one in pick(saved, count=3)] == [0, 25, 50]
    assert [one.round for one in pick(saved, [10, 5])] == [5, 10]
    assert len(pick(saved, count=99)) == 11
    with pytest.raises(InvalidRequest, match="no checkpoint of round 7"):
        pick(saved, [7])
    with pytest.raises(InvalidRequest, match="show no change"):
        pick(saved, count=1)


async def follow(here, audit_id):
    """Until the end; raises what it ended with."""
    stages = [s async for s in here.stub.WatchAudit(pb.WatchAuditRequest(audit_id=audit_id))]
    if stages[-1].HasField("error"):
        raise from_status(stages[-1].error)
    return stages


async def test_a_credit_job_is_cancelled_and_goes_on_where_it_was(tmp_path, write_run, monkeypatch):
    monkeypatch.setattr(playing, "MAX_LIVE", 8)  # one coalition at a time
    async with house() as first:
        run = write_run(tmp_path / "demo", await recorded(first))
    async with house(StrikingEnv(after=2 + 8)) as here, contextlib.AsyncExitStack():
        request = pb.StartCreditRequest(
            request_id="r", credit=pb.AttributeCreditRequest(run=str(run), set="eval/trained", services=here.services)
        )
        with typed_errors():
            job = (await here.stub.StartCredit(request)).audit_id
            async with asyncio.timeout(60):
                while not list((run / "audit" / "coalitions").glob("*.json")):
                    await asyncio.sleep(0.05)
            kept = {f.name for f in (run / "audit" / "coalitions").iterdir()}
            assert (await here.stub.CancelAudit(pb.CancelAuditRequest(audit_id=job))).cancelled
        with pytest.raises(PotluckError) as caught:
            await follow(here, job)
        assert caught.value.reason == "CANCELLED"
        with pytest.raises(PotluckError) as caught, typed_errors():
            await here.stub.GetAudit(pb.GetAuditRequest(audit_id=job))
        assert caught.value.reason == "CANCELLED"
        assert {f.name for f in (run / "audit" / "coalitions").iterdir()} == kept, "nothing half-written"

        here.env.go_on.set()
        here.env.started.clear()
        with typed_errors():
            assert (await here.stub.ResumeAudit(pb.ResumeAuditRequest(audit_id=job))).audit_id == job
            stages = await follow(here, job)
            done = await here.stub.GetAudit(pb.GetAuditRequest(audit_id=job))
            assert not (await here.stub.CancelAudit(pb.CancelAuditRequest(audit_id=job))).cancelled
    again = [name for name in here.env.started if "agent_0+agent_1" not in name]
    assert len(again) == 2 * 8, "of three coalitions one was kept"
    assert any("min left" in s.stage or "s left" in s.stage for s in stages), "an estimate of the time"
    assert {m.agent for m in done.metrics if m.name == "credit"} == set(AGENTS)
    kept = json.loads((run / "audit" / "credit.json").read_text())["baselines"][0]
    assert kept["method"] == "exact"
    values = {m["agent"]: m["value"] for m in kept["metrics"] if m["name"] == "coalition_value"}
    assert set(values) == {"", "agent_0", "agent_1", "agent_0+agent_1"}
    assert (values[""], values["agent_0+agent_1"]) == (kept["empty_value"], kept["team_value"])


async def test_a_gate_job_over_the_wire(trained):
    run = trained(LAZY, TEAM)
    async with house() as here:
        with typed_errors():
            request = pb.StartGateRequest(request_id="g", run=str(run), services=here.services, checkpoints=2)
            job = (await here.stub.StartGate(request)).audit_id
            await follow(here, job)
            done = await here.stub.GetAudit(pb.GetAuditRequest(audit_id=job))
    assert done.decoupling.outcome == "coupled"
    assert done.decoupling.checkpoints[1].verdict == "cooperative"
    assert {m.set for m in done.metrics} == {"checkpoint/0", "checkpoint/5", "checkpoint/reference"}


async def test_the_service_answers_with_what_credit_rests_on(tmp_path, write_run):
    async with house() as here:
        run = write_run(tmp_path / "demo", await recorded(here))
        request = pb.AttributeCreditRequest(run=str(run), set="eval/trained", services=here.services)
        with typed_errors():
            exact = await here.stub.AttributeCredit(request)
            played = len(here.env.started)
            assert await here.stub.AttributeCredit(request) == exact
            assert len(here.env.started) == played, "kept coalitions are not played again"
            request.budget = 3
            with pytest.raises(PotluckError, match="too few to sample"), typed_errors():
                await here.stub.AttributeCredit(request)
    assert (exact.method, exact.coalitions, exact.orders) == ("exact", 4, 0)
    pair = exact.interactions[0]
    assert pair.agent == "agent_0+agent_1"
    assert pair.value > 0, "two at once earn 2 more"
    assert [e.value for e in exact.errors] == [0.0, 0.0]


async def test_changed_records_are_not_served_from_what_was_kept(tmp_path, write_run):
    """The kept coalitions rest on verified records: other records are verified anew, and these diverge."""
    async with house() as here:
        episodes = await recorded(here)
        run = write_run(tmp_path / "demo", episodes)
        request = pb.AttributeCreditRequest(run=str(run), set="eval/trained", services=here.services)
        with typed_errors():
            await here.stub.AttributeCredit(request)
        import dataclasses

        write_run(run, [dataclasses.replace(episodes[-1], digest="f" * 64), *episodes[:-1]])
        with pytest.raises(PotluckError) as caught, typed_errors():
            await here.stub.AttributeCredit(request)
    assert caught.value.reason == "REPLAY_DIVERGED"
    assert "says that its trajectory is" in caught.value.message


async def test_a_game_that_cannot_be_executed_again_gets_no_credit(tmp_path, write_run):
    class OnceEnv(PantryEnv):
        async def Replay(self, request, context):
            raise PotluckError(Reason.UNSUPPORTED, "this game cannot be replayed", "play another")

    async with house() as here:
        run = write_run(tmp_path / "demo", await recorded(here))
    async with house(OnceEnv()) as here:
        request = pb.AttributeCreditRequest(run=str(run), set="eval/trained", services=here.services)
        with pytest.raises(PotluckError, match="cannot be executed again from a recording") as caught, typed_errors():
            await here.stub.AttributeCredit(request)
    assert caught.value.reason == "UNSUPPORTED"
    assert not (run / "audit" / "coalitions").exists()


def test_runs_of_two_libraries_are_not_compared(tmp_path, write_run, episode, capsys):
    runs = []
    for name, library in (("one", "c" * 64), ("other", "f" * 64)):
        run = write_run(tmp_path / name, [episode(set="train", round=0, library_digest=library)])
        line = {"round": 0, "base_digest": BASE, "adapters": TEAM, "schema_version": 1}
        (run / "checkpoints.jsonl").write_text(json.dumps(line) + "\n")
        runs.append(str(run))
    with pytest.raises(SystemExit) as ended:
        main(["swap", *runs, "--envs", "127.0.0.1:9", "--policy", "127.0.0.1:9"])
    assert ended.value.code == 1
    assert "one and other differ in their option library (cccccccccccc… and ffffffffffff…)" in capsys.readouterr().err


async def test_swaps_of_two_teams(trained):
    from potluck_audit.counterfactual.swaps import Team, play_swaps, swap_rows
    from potluck_audit.intervals import Intervals
    from potluck_audit.records import load_run
    from potluck_audit.verdict.evaluation import run_setting

    run = load_run(trained(TEAM))
    teams = [Team("good", TEAM), Team("lazy", LAZY)]
    async with house() as here, EnvPool(list(here.services.envs)) as envs, PolicyClient(here.services.policy) as policy:
        players = playing.Players(envs, policy, run.path)
        found = await play_swaps(teams, run_setting(run, 8), players, quiet)
        played = len(here.env.started)
        rows = {(m.name, m.agent, m.key): m.estimate.value for m in swap_rows(found, Intervals(resamples=200))}
    # at most four teams, two seats of each beside two baselines, and two rotated teams
    assert played <= 8 * (4 + 8 + 2)
    assert rows["pairing", "agent_0", "good"] == rows["pairing", "agent_1", "good"]
    assert rows["pairing", "agent_0", "good with lazy"] == rows["pairing", "agent_1", "lazy with good"]
    own = (rows["pairing", "agent_0", "good"] + rows["pairing", "agent_0", "lazy"]) / 2
    assert rows["self_play", "", ""] == pytest.approx(own)
    assert rows["cross_play_gap", "", ""] == pytest.approx((own - rows["cross_play", "", ""]) / own)
    assert ("partner", "agent_1", "good with uniform") in rows


async def test_a_gap_over_nothing_is_undefined(trained):
    from potluck_audit.counterfactual.swaps import Team, play_swaps, swap_rows
    from potluck_audit.intervals import Intervals
    from potluck_audit.records import load_run
    from potluck_audit.verdict.evaluation import run_setting

    run = load_run(trained(TEAM))
    idle = dict.fromkeys(AGENTS, IDLE)
    async with house() as here, EnvPool(list(here.services.envs)) as envs, PolicyClient(here.services.policy) as policy:
        players = playing.Players(envs, policy, run.path)
        for teams in ([Team("one", idle), Team("other", idle)], [Team("one", TEAM)]):
            found = await play_swaps(teams, run_setting(run, 4), players, quiet, ())
            rows = {m.name: m.estimate.value for m in swap_rows(found, Intervals(resamples=200))}
            assert rows["cross_play_gap"] is None
        with pytest.raises(InvalidRequest, match="the same name"):
            await play_swaps([Team("one", TEAM), Team("one", idle)], run_setting(run, 4), players, quiet)
