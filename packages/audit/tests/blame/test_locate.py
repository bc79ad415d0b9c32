"""First decisive errors over real env and policy servers: found, refused, or undecided with the reason."""

import asyncio
import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from potluck.audit.v1 import audit_service_pb2 as audit_pb
from potluck.audit.v1.audit_service_pb2_grpc import AuditServiceStub
from potluck.env.v1 import env_service_pb2 as env_pb
from potluck.play import EnvPool
from potluck.rpc.channel import connect
from potluck.rpc.errors import PotluckError, Reason, typed_errors
from potluck.rpc.server import serve
from potluck_audit.blame import CannotFork, LocateSettings, NotAFailure, Undecided, case_of, investigation, locate
from potluck_audit.blame.trace import walk
from potluck_audit.cli import main
from potluck_audit.errors import Diverged, Unsupported
from potluck_audit.service import start_server

from ..pantry import PantryEnv, add_EnvServiceServicer_to_server
from .conftest import SCRIPTED, SOUPS

QUICK = LocateSettings(SOUPS, continuations=8, most=16, checkpoints=5)


def found(at_table, case, settings=QUICK):
    return at_table(lambda envs, policy: locate(case, envs, policy, settings))


def test_a_walk_gives_every_menu_and_the_recorded_choice(success):
    case, trace = success
    assert len(trace.moments) == len(case.recording.choices)
    recorded = [(c.boundary, one.agent, one.letter) for c in case.recording.choices for one in c.choices]
    walked = [(m.boundary, d.agent, d.letter) for m in trace.moments for d in m.decisions]
    assert sorted(walked) == sorted(recorded)
    assert sum(reward for _, reward in trace.rewards) == case.team_return >= SOUPS


def test_injected_errors_are_found_with_agent_step_and_a_better_choice(at_table, faults):
    assert len(faults) == 2
    for fault in faults:
        located = found(at_table, fault.case)
        assert located.undecided is None, located.why
        error = located.error
        assert (error.agent, error.boundary, error.decision) == (fault.agent, fault.boundary, fault.decision)
        assert (error.taken.option, error.taken.target) == (fault.injected.option, fault.injected.target)
        assert error.before.p - error.after.p > 0.5
        assert error.gain.success > 0.5
        assert error.better != error.taken
        assert located.spent.branches > 0
        assert located.spent.decisions > located.spent.branches
        json.dumps(located.error.certainty)


def test_an_episode_that_did_not_fail_is_refused(at_table, success):
    with pytest.raises(NotAFailure, match="is no failure"):
        found(at_table, success[0])


def test_an_episode_that_executes_to_another_digest_is_refused(at_table, faults):
    """Three ways in which a record can lie: its digest, a choice, and its return."""
    case = faults[0].case
    forged = env_pb.Recording.FromString(case.recording.SerializeToString())
    forged.digest = hashlib.sha256(b"another").hexdigest()
    edited = env_pb.Recording.FromString(case.recording.SerializeToString())
    edited.choices[0].choices[0].letter = "Z"
    lies = [replace(case, recording=forged), replace(case, recording=edited), replace(case, team_return=0.5)]
    for lie in lies:
        with pytest.raises(Diverged, match="does not execute again as recorded"):
            found(at_table, lie)


def test_a_team_that_cannot_reach_the_threshold_is_undecided(at_table, faults):
    located = found(at_table, faults[0].case, replace(QUICK, threshold=9.0))
    assert (located.error, located.undecided) == (None, Undecided.FROM_THE_START)
    assert "0 of 16 plays from the start" in located.why


def test_a_budget_that_does_not_suffice_is_undecided(at_table, faults):
    located = found(at_table, faults[0].case, replace(QUICK, budget=10))
    assert (located.error, located.undecided) == (None, Undecided.BUDGET)
    assert located.spent.branches <= 10


def test_a_reference_policy_may_play_on(at_table, faults):
    """The uniform policy does not cook two soups in time: under it no prefix is promising."""
    located = found(at_table, faults[0].case, replace(QUICK, continuation="uniform"))
    assert (located.continuation, located.undecided) == ("uniform", Undecided.FROM_THE_START)
    with pytest.raises(PotluckError, match="played by the env server"):
        found(at_table, faults[0].case, replace(QUICK, continuation="greedy"))


class UnforkableEnv(PantryEnv):
    """Plays but cannot begin in the middle."""

    async def Play(self, request_iterator, context):
        async for request in request_iterator:
            updates = []
            for command in request.commands:
                update = env_pb.Update(episode_id=command.episode_id, request_id=command.request_id)
                error = PotluckError(Reason.UNSUPPORTED, "this game keeps no state to go back to", "play it whole")
                update.refused.status.CopyFrom(error.status())
                updates.append(update)
            yield env_pb.PlayResponse(updates=updates)


def test_a_game_that_cannot_fork_is_refused(faults):
    async def go():
        server = await serve(
            lambda s: add_EnvServiceServicer_to_server(UnforkableEnv(), s), services=[], bind="127.0.0.1:0"
        )
        try:
            async with EnvPool([server.address]) as envs:
                await locate(faults[0].case, envs, None, QUICK)
        finally:
            await server.stop()

    with pytest.raises(CannotFork, match="cannot be forked"):
        asyncio.run(go())


# ---- run folders, the command and the service


@pytest.fixture
def run(tmp_path, faults, success, episode, write_run):
    """A run folder whose evaluation holds the failures and the success."""

    def row(case, member):
        recording = case.recording
        return episode(
            None,
            set="eval/trained", episode_id=case.episode_id, member=member, game=recording.game, seed=recording.seed,
            sample_seed=case.sample_seed, horizon=recording.horizon, steps=recording.steps,
            team_return=case.team_return, policies=SCRIPTED, digest=recording.digest, label_scheme="words",
            recording=recording.SerializeToString(), library_digest=recording.library_digest,
        )  # fmt: skip

    cases = [fault.case for fault in faults] + [success[0]]
    return write_run(tmp_path / "demo", [row(case, member) for member, case in enumerate(cases)])


def snapshot(run):
    files = [p for p in sorted(run.rglob("*")) if p.is_file() and "audit" not in p.parts]
    return {str(p): p.read_bytes() for p in files}


def command(*args):
    with pytest.raises(SystemExit) as ended:
        main([str(arg) for arg in args])
    return ended.value.code


def test_the_command_writes_its_findings_and_leaves_the_records_alone(run, servers, faults, capsys):
    before = snapshot(run)
    few = ("--continuations", 8, "--most", 16, "--limit", 1, "--threshold", SOUPS)
    status = command("blame", run, "--envs", servers[0], "--policy", servers[1], *few)
    said = capsys.readouterr().out
    assert status == 0, said
    assert snapshot(run) == before
    fault = min(faults, key=lambda f: (f.case.recording.seed, faults.index(f)))
    assert f"{fault.agent} at step {fault.step}" in said
    data = json.loads((run / "audit" / "blame" / "blame.json").read_text())
    assert data["schema_version"] == 1
    [located] = data["located"]
    assert (located["error"]["agent"], located["error"]["step"]) == (fault.agent, fault.step)
    [row] = pq.read_table(run / "audit" / "blame" / "errors.parquet").to_pylist()
    assert (row["agent"], row["boundary"], row["undecided"]) == (fault.agent, fault.boundary, None)
    curve = pq.read_table(run / "audit" / "blame" / "curve.parquet").to_pylist()
    assert [p["boundary"] for p in curve] == sorted(p["boundary"] for p in curve)
    assert all(0 <= p["low"] <= p["success"] <= p["high"] <= 1 for p in curve)
    assert any("2 episodes failed; the first 1 by seed" in note for note in data["notes"])


def test_a_set_without_failures_says_so(run, servers, capsys):
    assert command("blame", run, "--envs", servers[0], "--policy", servers[1], "--threshold", 0) == 0
    assert "nothing failed" in capsys.readouterr().out


def test_the_service_locates_an_error(run, servers, faults, success):
    fault = faults[0]

    async def ask(episode_id, envs=servers[0], **more):
        server = await start_server("127.0.0.1:0")
        channel = connect(server.address)
        request = audit_pb.LocateErrorRequest(run=str(run), episode_id=episode_id, continuations=8, **more)
        if envs:
            request.services.envs.append(envs)
        request.services.policy = servers[1]
        try:
            with typed_errors("audit server"):
                return await AuditServiceStub(channel).LocateError(request, timeout=240)
        finally:
            await channel.close()
            await server.stop()

    reply = asyncio.run(ask(fault.case.episode_id, threshold=SOUPS))
    assert (reply.agent, reply.decision, reply.step) == (fault.agent, fault.decision, fault.step)
    assert (reply.undecided, reply.taken.option) == ("", fault.injected.option)
    assert reply.success_gain > 0.5
    assert reply.HasField("gain_error")
    for wrong, told in (
        ({"episode_id": success[0].episode_id, "threshold": SOUPS}, "is no failure"),
        ({"episode_id": "nobody"}, "has no evaluation episode"),
        ({"episode_id": ""}, "it is empty"),
        ({"episode_id": fault.case.episode_id, "envs": ""}, "an error is found by playing"),
    ):
        with pytest.raises(PotluckError, match=told):
            asyncio.run(ask(**wrong))


def test_a_job_is_watched_cancelled_and_goes_on(run, servers, faults, monkeypatch):
    """Of two failures the first is found when the job is cancelled; resumed it looks into the second alone."""
    asked, second_begun = [], asyncio.Event()

    async def counted(case, *args):
        asked.append(case.episode_id)
        if len(asked) == 2:
            second_begun.set()
            await asyncio.Event().wait()
        return await locate(case, *args)

    monkeypatch.setattr(investigation, "locate", counted)

    async def go():
        server = await start_server("127.0.0.1:0")
        channel = connect(server.address)
        stub = AuditServiceStub(channel)
        request = audit_pb.StartBlameRequest(request_id="one")
        request.locate.run, request.locate.threshold, request.locate.continuations = str(run), SOUPS, 8
        request.locate.services.envs.append(servers[0])
        request.locate.services.policy = servers[1]
        watch = audit_pb.WatchAuditRequest
        try:
            with typed_errors("audit server"):
                name = (await stub.StartBlame(request)).audit_id
                assert (await stub.StartBlame(request)).audit_id == name
                await asyncio.wait_for(second_begun.wait(), 240)
                assert (await stub.CancelAudit(audit_pb.CancelAuditRequest(audit_id=name))).cancelled
                told = [stage async for stage in stub.WatchAudit(watch(audit_id=name))]
                assert (told[-1].stage, "was cancelled" in told[-1].error.message) == ("failed", True), told[-1].error
                await stub.ResumeAudit(audit_pb.ResumeAuditRequest(audit_id=name))
                told = [stage async for stage in stub.WatchAudit(watch(audit_id=name))]
                assert (told[-1].stage, told[-1].ended) == ("done", True), told[-1].error
                return await stub.GetAudit(audit_pb.GetAuditRequest(audit_id=name))
        finally:
            await channel.close()
            await server.stop()

    reply = asyncio.run(go())
    by_episode = {fault.case.episode_id: fault for fault in faults}
    assert {one.episode_id for one in reply.located} == set(by_episode)
    for one in reply.located:
        assert (one.agent, one.step) == (by_episode[one.episode_id].agent, by_episode[one.episode_id].step)
    first, second = (one.episode_id for one in reply.located)
    assert (asked.count(first), asked.count(second)) == (1, 2)
    data = json.loads(Path(reply.results).read_text())
    assert [one["episode_id"] for one in data["located"]] == [first, second]


def test_records_without_a_recording_or_a_return_are_refused(episode):
    with pytest.raises(Unsupported, match="has no recording here"):
        case_of(episode(None, recording=b""))
    with pytest.raises(PotluckError, match="has no return"):
        case_of(episode(None, team_return=None))


def test_a_row_that_tells_another_digest_than_its_recording_is_refused(episode):
    recording = env_pb.Recording(game="g", digest="a").SerializeToString()
    assert case_of(episode(None, recording=recording, digest="a")).game == "g"
    with pytest.raises(Diverged, match="tell different digests"):
        case_of(episode(None, recording=recording, digest="b"))


def test_walking_twice_is_the_same_walk(at_table, success):
    again = at_table(lambda envs, policy: walk(success[0], envs))
    assert again.order == success[1].order
    assert (again.rewards, again.steps) == (success[1].rewards, success[1].steps)
    assert [m.taken for m in again.moments] == [m.taken for m in success[1].moments]
