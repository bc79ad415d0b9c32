"""Checks of refusals: what cannot be answered is refused by its reason, computes nothing, and harms nobody else."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from potluck.policy.v1 import policy_service_pb2 as pb
from potluck.rpc.errors import PotluckError, Reason
from potluck_policy_server.conformance.peer import Broken, Peer, adapter, decision

LARGEST_TRIED = 20_000
NOBODY = "f" * 64


async def wrong_decisions_are_refused(peer: Peer) -> str:
    """Temperatures that are not above 0, menus of 0 or 27 items, letters twice or missing, no policy."""
    for what, change in _FAULTS.items():
        wrong = decision(0, 5)
        change(wrong)
        await peer.expect(what, peer.ask([decision(1), wrong][-peer.largest :]), Reason.INVALID_ARGUMENT)
        await peer.choose([decision(1)])
    return f"{len(_FAULTS)} faults"


async def unknown_names_are_refused(peer: Peer) -> str:
    """An adapter that nobody published is never answered by the base; so are leases and holds of it."""
    batch = [decision(0), decision(1, policy=adapter(NOBODY))][-peer.largest :]
    await peer.expect("an unknown adapter", peer.ask(batch), Reason.UNKNOWN_ADAPTER)
    stub = peer.client.stub
    await peer.expect(
        "holding an unknown adapter",
        stub.HoldAdapter(pb.HoldAdapterRequest(digest=NOBODY, holder="conformance")),
        Reason.UNKNOWN_ADAPTER,
    )
    await peer.expect(
        "releasing an unknown lease", stub.ReleaseAdapter(pb.ReleaseAdapterRequest(lease=NOBODY)), Reason.UNKNOWN_LEASE
    )
    return "adapter, hold and lease"


async def limits_hold(peer: Peer) -> str:
    """No decisions get no answers; more than max_batch are refused."""
    if (await peer.ask([])).choices:
        raise Broken("an empty batch was answered with choices")
    size = peer.described.max_batch + 1
    if size > LARGEST_TRIED:
        return f"an empty batch; batches above {LARGEST_TRIED} are not tried"
    await peer.expect(
        f"a batch of {size}", peer.ask([decision(0, 2)] * size), Reason.INVALID_ARGUMENT, Reason.MESSAGE_TOO_LARGE
    )
    return f"0 and {size} decisions"


async def goes_on_after_a_client_leaves(peer: Peer) -> str:
    """Calls that are cancelled half-way leave the server able to answer, and with the right answers."""
    probe = [decision(seed) for seed in range(3)]
    before = [list(reply.probabilities) for reply in await peer.choose(probe)]
    for pause in (0.0, 0.02, 0.3):
        leaving = asyncio.ensure_future(peer.ask([decision(seed, 20) for seed in range(peer.largest)]))
        await asyncio.sleep(pause)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
    try:
        after = await asyncio.wait_for(peer.choose(probe), peer.plan.patience_s)
    except (TimeoutError, PotluckError) as error:
        if isinstance(error, PotluckError) and error.reason != Reason.DEADLINE:
            raise
        raise Broken("after clients left, the server answered no more") from None
    for one, two in zip(before, after, strict=True):
        if max(abs(p - q) for p, q in zip(one, two.probabilities, strict=True)) > peer.tolerance:
            raise Broken("after clients left, an answer changed")
    return "3 clients that left"


def _temperature(value: float) -> Callable[[pb.Decision], None]:
    def change(wrong: pb.Decision) -> None:
        wrong.temperature = value

    return change


def _no_items(wrong: pb.Decision) -> None:
    del wrong.prompt.items[:]


def _too_many_items(wrong: pb.Decision) -> None:
    for number in range(22):
        wrong.prompt.items.add(letter=f"x{number}", word=f"bin{number}", text="go")


def _letter_twice(wrong: pb.Decision) -> None:
    wrong.prompt.items[1].letter = wrong.prompt.items[0].letter


def _no_letter(wrong: pb.Decision) -> None:
    wrong.prompt.items[0].letter = ""


def _no_policy(wrong: pb.Decision) -> None:
    wrong.policy.Clear()


_FAULTS: dict[str, Callable[[pb.Decision], None]] = {
    "temperature 0": _temperature(0.0),
    "a negative temperature": _temperature(-1.0),
    "temperature NaN": _temperature(math.nan),
    "an empty menu": _no_items,
    "a menu of 27 items": _too_many_items,
    "a letter twice": _letter_twice,
    "an item without a letter": _no_letter,
    "a decision without a policy": _no_policy,
}
