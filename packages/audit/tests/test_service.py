"""The audit server over real gRPC, with a small real game and policies behind it."""

import asyncio
import contextlib
import json
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest

from potluck.audit.v1 import audit_service_pb2 as pb
from potluck.audit.v1.audit_service_pb2_grpc import AuditServiceStub
from potluck.env.v1 import env_service_pb2 as env_pb
from potluck.play import EnvPool, EpisodeSpec, PlayOptions, PolicyClient, adapter, play
from potluck.rpc.channel import connect
from potluck.rpc.errors import PotluckError, from_status, typed_errors
from potluck_audit.records import Episode
from potluck_audit.service import start_server

from .pantry import (
    AGENTS,
    BASE,
    DIGESTS,
    GAME,
    ForgetfulEnv,
    PantryEnv,
    PantryPolicy,
    SlowEnv,
    SpendthriftEnv,
    serve_env,
    serve_policy,
)

SEEDS = range(10000, 10008)


@dataclass
class House:
    """All services."""

    stub: AuditServiceStub
    env: PantryEnv
    policy: PantryPolicy
    services: pb.Services

    async def audit(self, run, **fields) -> pb.GetAuditResponse:
        """Start, watch, fetch."""
        with typed_errors():
            fields.setdefault("request_id", str(run))
            started = await self.stub.StartAudit(pb.StartAuditRequest(run=str(run), report=True, **fields))
            stages = [s async for s in self.stub.WatchAudit(pb.WatchAuditRequest(audit_id=started.audit_id))]
            assert all(one != other for one, other in pairwise(stages)), "a stage is told once"
            *earlier, last = stages
            assert last.ended
            assert not any(stage.ended for stage in earlier)
            if last.HasField("error"):
                raise from_status(last.error)
            return await self.stub.GetAudit(pb.GetAuditRequest(audit_id=started.audit_id))


@contextlib.asynccontextmanager
async def house(env: PantryEnv | None = None, policy: PantryPolicy | None = None):
    env, policy = env or PantryEnv(), policy or PantryPolicy()
    async with contextlib.AsyncExitStack() as stack:
        servers = [await serve_env(env), await serve_policy(policy), await start_server("127.0.0.1:0")]
        for server in servers:
            stack.push_async_callback(server.stop)
        channel = await stack.enter_async_context(connect(servers[2].address))
        services = pb.Services(envs=[servers[0].address], policy=servers[1].address)
        yield House(AuditServiceStub(channel), env, policy, services)


async def recorded(house: House) -> list[Episode]:
    """The trained team's evaluation."""
    specs = [
        EpisodeSpec(
            f"eval-{s}", GAME, s, policies={a: adapter(DIGESTS[a]) for a in AGENTS}, sample_seed=s + 1,
            detail=env_pb.DETAIL_STEPS,
        )
        for s in SEEDS
    ]  # fmt: skip
    async with EnvPool(list(house.services.envs)) as envs, PolicyClient(house.services.policy) as policy:
        results = await play(specs, envs, policy, PlayOptions())
    return [
        Episode(
            set="eval/trained", round=1, episode_id=r.spec.episode_id, member=n, game=GAME, library_digest="c" * 64,
            dynamics="", seed=r.spec.seed, sample_seed=r.spec.sample_seed, horizon=6, steps=6,
            team_return=r.finished.team_return, agent_returns=(0.0, 0.0), policies=DIGESTS, digest=r.digest,
            recording=r.finished.recording.SerializeToString(), reward_unit="jars", temperature=1.0, base_digest=BASE,
            step_records=env_pb.Progress(steps=r.steps, options=r.options).SerializeToString(),
        )
        for n, r in enumerate(results)
    ]  # fmt: skip


def numbers(reply, name):
    return {(m.agent, m.key): m.value if m.HasField("value") else None for m in reply.metrics if m.name == name}


async def test_an_audit_with_services(tmp_path, write_run):
    async with house() as here:
        run = write_run(tmp_path / "demo", await recorded(here))
        before = {p: p.read_bytes() for p in run.rglob("*") if p.is_file()}
        reply = await here.audit(run, services=here.services)
    coalitions = numbers(reply, "coalition")
    assert coalitions["", ""] == 0.0
    assert coalitions["", "agent_0+agent_1"] == numbers(reply, "return")["", ""]
    solo = numbers(reply, "solo")
    assert 4 < solo["agent_0", "noop"] <= 6
    credit = numbers(reply, "credit")
    assert sum(credit.values()) == pytest.approx(coalitions["", "agent_0+agent_1"], abs=1e-9)
    assert credit["agent_0", "noop"] > credit["agent_1", "noop"]
    synergy = numbers(reply, "synergy")["", "noop"]
    assert synergy == pytest.approx(coalitions["", "agent_0+agent_1"] - sum(solo.values()))
    assert {p: p.read_bytes() for p in before} == before, "an audit never changes a run's records"
    written = json.loads((run / "audit" / "results.json").read_text())
    assert written["schema_version"] == 1
    assert all(c["passed"] for c in written["checks"] if c["passed"] is not None)
    assert "<game-replay" in (run / "report.html").read_text()
    assert reply.report == str(run / "report.html")
    leases = [f"lease of {digest[:12]}" for digest in DIGESTS.values()]
    assert sorted(here.policy.released) == sorted(2 * leases), "held for credit, and for diversity"


async def test_an_audit_of_records_alone(tmp_path, write_run, team, tape):
    one = tape()
    one.soup(1, "agent_0", "agent_1")
    async with house() as here:
        reply = await here.audit(write_run(tmp_path / "demo", team([one, one]).episodes))
    assert numbers(reply, "return")["", ""] == 1.0
    assert numbers(reply, "coalition") == {}
    assert numbers(reply, "idle_share")["agent_0", "wait"] is None, "undefined is absent on the wire, not 0"
    assert "<b>Not measured:</b> pictures of the games" in (tmp_path / "demo" / "report.html").read_text()


async def test_the_same_request_id_is_the_same_audit(tmp_path, write_run, team):
    run = write_run(tmp_path / "demo", team([1.0, 2.0]).episodes)
    async with house() as here:
        request = pb.StartAuditRequest(request_id="r1", run=str(run))
        first, second = await here.stub.StartAudit(request), await here.stub.StartAudit(request)
        assert first.audit_id == second.audit_id
        with pytest.raises(PotluckError, match="already names another audit"), typed_errors():
            await here.stub.StartAudit(pb.StartAuditRequest(request_id="r1", run=str(run), report=True))
        with pytest.raises(PotluckError, match="needs a request id"), typed_errors():
            await here.stub.StartAudit(pb.StartAuditRequest(run=str(run)))


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda run: None, "UNKNOWN_RUN"),
        (lambda run: (run / "episodes").mkdir(parents=True), "UNKNOWN_RUN"),
    ],
)
async def test_a_run_that_is_not_there(tmp_path, spoil, reason):
    spoil(tmp_path / "demo")
    async with house() as here:
        with pytest.raises(PotluckError) as caught:
            await here.audit(tmp_path / "demo")
        assert caught.value.reason == reason


async def test_bad_runs_are_typed_errors_and_the_server_lives_on(tmp_path, write_run, team):
    newer = write_run(tmp_path / "newer", team([1.0, 2.0]).episodes, version=9)
    torn = write_run(tmp_path / "torn", team([1.0, 2.0]).episodes)
    (torn / "episodes" / "eval-trained.parquet").write_bytes(b"torn")
    good = write_run(tmp_path / "good", team([1.0, 2.0]).episodes)
    async with house() as here:
        for run, reason in ((newer, "NEWER_SCHEMA"), (torn, "INVALID_ARGUMENT")):
            with pytest.raises(PotluckError) as caught:
                await here.audit(run)
            assert caught.value.reason == reason
        assert numbers(await here.audit(good), "return")["", ""] == 1.5


async def test_unknown_and_unfinished_audits(tmp_path, write_run):
    async with house(SlowEnv()) as here:
        with pytest.raises(PotluckError, match="no audit 'nothing'"), typed_errors():
            await here.stub.GetAudit(pb.GetAuditRequest(audit_id="nothing"))
        run = write_run(tmp_path / "demo", await recorded(here))
        request = pb.StartAuditRequest(request_id="r1", run=str(run), services=here.services)
        started = await here.stub.StartAudit(request)
        with pytest.raises(PotluckError, match="has not ended"), typed_errors():
            await here.stub.GetAudit(pb.GetAuditRequest(audit_id=started.audit_id))
        watch = here.stub.WatchAudit(pb.WatchAuditRequest(audit_id=started.audit_id))
        stages = set()
        async with asyncio.timeout(20):
            async for stage in watch:
                stages.add(stage.stage)
                if stage.stage == "replaying episodes":
                    break
        assert not any(s.startswith("done") for s in stages)


async def test_no_credit_where_the_team_does_not_play_again_as_recorded(tmp_path, write_run):
    async with house() as here:
        run = write_run(tmp_path / "demo", await recorded(here))
    async with house(SpendthriftEnv()) as here:
        reply = await here.audit(run, services=here.services)
        assert numbers(reply, "credit") == numbers(reply, "coalition") == {}
        with pytest.raises(PotluckError) as caught, typed_errors():
            await here.stub.AttributeCredit(
                pb.AttributeCreditRequest(run=str(run), set="eval/trained", services=here.services)
            )
        assert caught.value.reason == "REPLAY_DIVERGED"
    failed = [c for c in json.loads((run / "audit" / "results.json").read_text())["checks"] if c["passed"] is False]
    assert [c["name"] for c in failed] == ["the team plays again as recorded"]


async def test_a_replay_that_diverges_is_a_failed_check(tmp_path, write_run):
    async with house() as here:
        run = write_run(tmp_path / "demo", await recorded(here))
    async with house(ForgetfulEnv()) as here:
        await here.audit(run, services=pb.Services(envs=here.services.envs))
    failed = [c for c in json.loads((run / "audit" / "results.json").read_text())["checks"] if c["passed"] is False]
    assert "to the same trajectory" in failed[0]["name"]


@pytest.mark.parametrize("tampered", [True, False])
async def test_a_row_with_another_digest_than_its_recording_is_a_failed_check(tmp_path, write_run, tampered):
    async with house() as here:
        first, *rest = await recorded(here)
        run = write_run(tmp_path / "demo", [replace(first, digest="0" * 64) if tampered else first, *rest])
        await here.audit(run, services=pb.Services(envs=here.services.envs))
    failed = [c for c in json.loads((run / "audit" / "results.json").read_text())["checks"] if c["passed"] is False]
    assert ["different digests" in c["detail"] for c in failed] == [True] * tampered


async def test_credit_against_other_baselines(tmp_path, write_run):
    async with house() as here:
        run = write_run(tmp_path / "demo", await recorded(here))
        request = pb.AttributeCreditRequest(run=str(run), set="eval/trained", services=here.services)
        noop = await here.stub.AttributeCredit(request)
        request.baseline = "frozen"
        frozen = await here.stub.AttributeCredit(request)
        request.baseline = "a judge"
        with pytest.raises(PotluckError, match="no baseline 'a judge'"), typed_errors():
            await here.stub.AttributeCredit(request)
    assert (noop.empty_value, frozen.team_value) == (0.0, noop.team_value)
    assert frozen.empty_value > 0, "two frozen agents that work half of the time earn something"
    for reply in (noop, frozen):
        shared = sum(m.value for m in reply.credits)
        assert shared == pytest.approx(reply.team_value - reply.empty_value, abs=1e-9)


async def test_adapters_come_from_the_run_folder_or_credit_is_refused(tmp_path, write_run):
    async with house() as here:
        run = write_run(tmp_path / "demo", await recorded(here))
    async with house(policy=PantryPolicy(holding=False)) as here:
        request = pb.AttributeCreditRequest(run=str(run), set="eval/trained", services=here.services)
        with pytest.raises(PotluckError, match="neither on the policy server nor in demo/adapters"), typed_errors():
            await here.stub.AttributeCredit(request)
        reply = await here.audit(run, services=here.services)
        assert numbers(reply, "credit") == {}


async def test_an_error_of_a_run_that_is_not_there_is_refused():
    async with house() as here:
        request = pb.LocateErrorRequest(run="nowhere", episode_id="e", services=here.services)
        with pytest.raises(PotluckError) as caught, typed_errors():
            await here.stub.LocateError(request)
        assert caught.value.reason == "UNKNOWN_RUN"
