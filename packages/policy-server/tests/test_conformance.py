"""The policy conformance suite: what it says of real servers, and that each check catches its fault."""

import asyncio
import hashlib
import math
import subprocess
import sys
import time
import unittest

import grpc
import pytest

from potluck.policy.v1 import policy_service_pb2 as pb
from potluck.policy.v1 import policy_service_pb2_grpc as rpc
from potluck.rpc.errors import PotluckError
from potluck.rpc.server import serve
from potluck_policy_server.backbones import registry
from potluck_policy_server.backbones.base import BackboneOptions
from potluck_policy_server.conformance import (
    Broken,
    Plan,
    PolicyConformance,
    Skipped,
    adapters,
    answers,
    refusals,
    streams,
)
from potluck_policy_server.conformance.peer import peer
from potluck_policy_server.conformance.runner import CHECKS, check, table
from potluck_policy_server.service import PolicyService
from potluck_policy_server.serving import SERVICE, started

SHORT = Plan(decisions=6, samples=300, patience_s=60)


class TestTable(PolicyConformance):
    """A server in a process of its own, as a user has it."""

    plan = SHORT

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _server(cls):
        command = [sys.executable, "-m", "potluck_policy_server.cli", "serve", "--backbone", "tabular"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        cls.address = process.stdout.readline().split()[-1]
        yield
        process.terminate()
        process.wait(20)


async def kept(backbone):
    async with started(backbone) as (server, _):
        results = await check(server.address, SHORT)
    assert all(result.kept for result in results), table("", results)
    assert len(results) == len(CHECKS)
    return {result.name: result.evidence for result in results}


async def test_a_language_model_keeps_every_promise(backbone):
    said = await kept(backbone)
    assert said["publishing takes effect"] == "2 versions, 4 decisions"
    assert "FrozenBase" not in said["describes itself"]
    assert said["temperature sharpens"].startswith("3 prompts at 3 temperatures")
    assert "files" in said["the base can be fetched"]


async def test_a_rule_keeps_every_promise_that_it_can():
    said = await kept(registry.load(BackboneOptions("scripted")))
    assert said["publishing takes effect"] == "a fixed rule: uploads are refused"


class Faulty(PolicyService):
    """A real server with one fault."""

    fault = ""
    newest = ""
    stuck = False

    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        self.written = []

    async def Describe(self, request, context):
        reply = await super().Describe(request, context)
        if self.fault == "describes no base":
            reply.base_digest = ""
        if self.fault == "understates its limit":
            reply.max_batch = 8
        if self.fault in ("hides its streams", "has no streams"):
            reply.max_in_flight = 0
        return reply

    async def Choose(self, request, context):
        if self.stuck:
            await asyncio.sleep(60)
        asked = pb.ChooseRequest.FromString(request.SerializeToString())
        self._mend(request)
        try:
            if self.fault == "stuck when a client leaves":
                await asyncio.sleep(0.5)
            reply = await super().Choose(request, context)
        except asyncio.CancelledError:
            self.stuck = self.fault == "stuck when a client leaves"
            raise
        self._spoil(asked, reply)
        return reply

    async def ChooseStream(self, requests, context):
        if self.fault == "has no streams":
            self.written += [request async for request in requests]
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "Method not implemented!")
        cancelled, kept = [], None

        async def heard():
            async for request in requests:
                if request.WhichOneof("action") == "cancel":
                    cancelled.append(request)
                yield request

        async for response in super().ChooseStream(heard(), context):
            if self.fault == "a refusal ends the stream" and response.HasField("failed"):
                raise PotluckError("INTERNAL", "the stream is at its end")
            if self.fault == "no answers after a cancellation" and cancelled:
                continue
            if self.fault == "answers of another batch" and kept is None and len(response.choose.choices) == 1:
                kept = response
                continue
            if kept is not None and kept.request_id and len(response.choose.choices) == 1:
                kept.choose.CopyFrom(response.choose)
                yield kept
                kept = pb.ChooseStreamResponse()
            yield response
            if self.fault == "answers twice":
                yield response

    def _mend(self, request):
        for decision in request.decisions:
            match self.fault:
                case "mends temperatures" if not decision.temperature > 0:
                    decision.temperature = 1.0
                case "ignores temperatures" if decision.temperature > 0:
                    decision.temperature = 1.0
                case "the base for unknown adapters" if decision.policy.adapter not in self.store:
                    decision.policy.builtin = pb.BUILTIN_POLICY_FROZEN
                case "scripted for uniform" if decision.policy.builtin == pb.BUILTIN_POLICY_UNIFORM:
                    decision.policy.builtin = pb.BUILTIN_POLICY_SCRIPTED
                case "publishing does nothing" if decision.policy.adapter:
                    decision.policy.builtin = pb.BUILTIN_POLICY_FROZEN
                case "the newest version for all" if decision.policy.adapter:
                    decision.policy.adapter = self.newest
                case "greedy is a sample":
                    decision.greedy = False
                case "always the best":
                    decision.greedy = True

    def _spoil(self, asked, reply):
        for place, (decision, choice) in enumerate(zip(asked.decisions, reply.choices, strict=True)):
            if self.fault in ("publishing does nothing", "the newest version for all"):
                choice.adapter_digest = decision.policy.adapter
            choice.builtin = decision.policy.builtin
            if self.fault == "loses an item":
                choice.probabilities[-1] = 0.0
            if self.fault == "letters of another order":
                choice.letter = decision.prompt.items[-1 - choice.index].letter
            if self.fault == "prompts without a name":
                choice.prompt_digest = hashlib.sha256(b"").hexdigest()
            if self.fault == "draws by the clock" and not decision.greedy:
                choice.index = time.perf_counter_ns() // 1000 % len(decision.prompt.items)
                choice.letter = decision.prompt.items[choice.index].letter
                choice.logprob = math.log(choice.probabilities[choice.index])
            if self.fault == "the first decision is favoured" and place == 0 and len(choice.probabilities) > 2:
                p = list(choice.probabilities)
                choice.probabilities[:] = [p[0] * 0.5, p[1] + p[0] * 0.5, *p[2:]]

    async def PublishAdapter(self, requests, context):
        async def careless():
            parts = [part async for part in requests]
            data = b"".join(part.chunk for part in parts[1:])
            header = parts[0].header
            header.size, header.sha256 = len(data), hashlib.sha256(data).hexdigest()
            for part in parts:
                yield part

        reply = await super().PublishAdapter(careless() if self.fault == "never hashes" else requests, context)
        self.newest = reply.digest
        return reply

    async def ListAdapters(self, request, context):
        reply = await super().ListAdapters(request, context)
        if self.fault == "forgets holders":
            for one in reply.adapters:
                del one.holders[:]
        return reply

    async def FetchBackbone(self, request, context):
        if self.fault == "sends any base":
            request.base_digest = self._backbone.description.base_digest
        async for part in super().FetchBackbone(request, context):
            yield part


FAULTS = [
    ("describes no base", answers.describes_itself, "base_digest is ''"),
    ("loses an item", answers.distributions_hold, "no distribution"),
    ("letters of another order", answers.distributions_hold, "is not item"),
    ("prompts without a name", answers.replies_name_their_makers, "does not name the prompt"),
    ("the first decision is favoured", answers.batches_answer_as_singles, "moved by"),
    ("draws by the clock", answers.seeds_decide_samples, "changed with the same seed"),
    ("always the best", answers.samples_follow_the_distribution, "chi-squared"),
    ("greedy is a sample", answers.greedy_takes_the_best, "greedy took item"),
    ("ignores temperatures", answers.temperature_sharpens, "no effect|does not halve"),
    ("scripted for uniform", answers.builtins_are_exact, "uniform over"),
    ("mends temperatures", refusals.wrong_decisions_are_refused, "temperature 0 must be refused"),
    ("the base for unknown adapters", refusals.unknown_names_are_refused, "gave an answer"),
    ("understates its limit", refusals.limits_hold, "a batch of 9 must be refused"),
    ("stuck when a client leaves", refusals.goes_on_after_a_client_leaves, "answered no more"),
    ("publishing does nothing", adapters.publishing_takes_effect, "answers like the base"),
    ("the newest version for all", adapters.versions_stay_apart, "has changed the one before"),
    ("never hashes", adapters.bad_uploads_are_refused, "a flipped bit must be refused"),
    ("forgets holders", adapters.leases_hold, "is not listed"),
    ("sends any base", adapters.the_base_can_be_fetched, "fetching another base"),
    ("answers twice", streams.streams_answer_as_calls, "was answered twice"),
    ("answers of another batch", streams.streams_answer_as_calls, "about other prompts|answered otherwise"),
    ("hides its streams", streams.streams_answer_as_calls, "max_in_flight is 0, and ChooseStream answers"),
    ("a refusal ends the stream", streams.streams_refuse_alone, "the stream is at its end"),
    ("no answers after a cancellation", streams.streams_take_back, "got no answer after"),
]
WITH_WEIGHTS = {"ignores temperatures", "sends any base", "always the best", "the first decision is favoured"}


@pytest.mark.parametrize(("fault", "catches", "says"), FAULTS, ids=[fault for fault, _, _ in FAULTS])
async def test_each_fault_is_caught_by_its_check(request, monkeypatch, fault, catches, says):
    """Tables where that is enough: their frozen base is uniform. Each check is kept without the fault first."""
    one = request.getfixturevalue("backbone") if fault in WITH_WEIGHTS else registry.load(BackboneOptions("tabular"))
    service = Faulty(one)
    service.start()
    server = await serve(
        lambda s: rpc.add_PolicyServiceServicer_to_server(service, s), services=[SERVICE], bind="127.0.0.1:0"
    )
    try:
        async with peer(server.address, SHORT) as asked:
            await catches(asked)
        service.fault = fault
        patience = 3.0 if "stuck" in fault else 60.0
        async with peer(server.address, Plan(decisions=6, samples=300, patience_s=patience)) as asked:
            with pytest.raises((Broken, PotluckError), match=says):
                await catches(asked)
    finally:
        await server.stop(0.0)
        await service.close()


async def test_a_server_without_streams_skips_their_checks_and_says_why():
    service = Faulty(registry.load(BackboneOptions("uniform")))
    service.fault = "has no streams"
    service.start()
    server = await serve(
        lambda s: rpc.add_PolicyServiceServicer_to_server(service, s), services=[SERVICE], bind="127.0.0.1:0"
    )
    results = await check(server.address, SHORT)
    async with peer(server.address, SHORT) as asked:
        with pytest.raises(Skipped, match="max_in_flight is 0"):  # what pytest skips a test for
            await streams.streams_refuse_alone(asked)
    await server.stop(0.0)
    await service.close()
    told = table(server.address, results).splitlines()
    assert told[-1] == f"{len(CHECKS) - 3} of {len(CHECKS) - 3} checks kept, 3 skipped"
    assert [line for line in told if line.startswith("skip") and "not offered: max_in_flight is 0" in line] == told[
        -4:-1
    ]
    assert issubclass(Skipped, unittest.SkipTest)
    assert not service.written, "a write as the call ends would lose its status"


def test_every_check_has_a_fault_that_it_catches():
    assert {catches for _, catches, _ in FAULTS} == set(CHECKS)
    named = {name.removeprefix("test_") for name in vars(PolicyConformance) if name.startswith("test_")}
    assert named == {one.__name__ for one in CHECKS}
