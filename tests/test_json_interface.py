"""Free JSON answers end to end: real servers, and a language model that writes what it can."""

from __future__ import annotations

import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from potluck.env.v1.env_service_pb2 import Interface
from potluck.play import EnvPool, EpisodeSpec, PlayOptions, PolicyClient, builtin, play
from potluck.policy.v1 import policy_service_pb2 as pb
from potluck.rpc.errors import PotluckError, Reason

BIN = Path(sys.executable).parent
GAME, AGENTS = "overcooked/forced_coordination", ("agent_0", "agent_1")
ENVS = ("potluck-envs", "serve", "--workers", "1")


def start(stack: AsyncExitStack, *command: str) -> str:
    """Starts a service and returns its address once it is ready."""
    server = subprocess.Popen([BIN / command[0], *command[1:]], stdout=subprocess.PIPE, text=True)
    stack.callback(server.wait)
    stack.callback(server.terminate)
    assert server.stdout is not None
    return server.stdout.readline().split()[-1]


def spoken(kind: pb.BuiltinPolicy) -> list[EpisodeSpec]:
    policies = {agent: builtin(kind) for agent in AGENTS}
    return [EpisodeSpec("e", GAME, 7, horizon=6, policies=policies, interface=Interface.INTERFACE_JSON, sample_seed=7)]


async def test_a_language_model_answers_in_json() -> None:
    """`tiny` writes no JSON: every answer is a wait that says why, the same one again, and the episode replays."""
    async with AsyncExitStack() as stack:
        envs = await stack.enter_async_context(EnvPool([start(stack, *ENVS)]))
        address = start(stack, "potluck-policy", "serve", "--backbone", "tiny")
        policy = await stack.enter_async_context(PolicyClient(address))
        options = PlayOptions(max_tokens=8)
        (one,) = await play(spoken(pb.BUILTIN_POLICY_FROZEN), envs, policy, options)
        (two,) = await play(spoken(pb.BUILTIN_POLICY_FROZEN), envs, policy, options)
        await envs.replay(one.finished.recording)
    assert one.digest == two.digest
    assert len(one.decisions) > 2
    for record in one.decisions:
        assert record.spoken is not None
        assert record.spoken.text
        assert record.item.option == "wait"
        assert record.outcome in ("explicit:unparsable", "truncated")


@pytest.mark.parametrize(
    ("kind", "why"),
    [(pb.BUILTIN_POLICY_FROZEN, "writes no text"), (pb.BUILTIN_POLICY_UNIFORM, "a rule over menus")],
)
async def test_what_has_no_text_is_refused_with_the_reason(kind: pb.BuiltinPolicy, why: str) -> None:
    async with AsyncExitStack() as stack:
        envs = await stack.enter_async_context(EnvPool([start(stack, *ENVS)]))
        address = start(stack, "potluck-policy", "serve", "--backbone", "tabular")
        policy = await stack.enter_async_context(PolicyClient(address))
        with pytest.raises(PotluckError, match=why) as refused:
            await play(spoken(kind), envs, policy)
    assert refused.value.reason == Reason.UNSUPPORTED
