"""Checks of adapters: an upload takes effect under its own name and no other, and what is leased stays."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator

import numpy as np

from potluck.policy.v1 import policy_service_pb2 as pb
from potluck.rpc.errors import Reason, typed_errors
from potluck_policy_server.conformance.peer import Broken, Peer, adapter, decision, refused_with
from potluck_policy_server.conformance.uploads import AdapterFile, two_adapters

CHUNK = 1 << 20
SMALL = 64 << 20
_AGENT = "agent_0"
_UPLOADS = 5
_NONE = "not asked: no adapter can be made for this base; give two folders with --adapters"


async def publishing_takes_effect(peer: Peer) -> str:
    """The digest is the documented one; answers change from the base's, and from one version to the next."""
    if (files := await _files(peer)) is None:
        return await _refuses_uploads(peer)
    questions = [decision(seed) for seed in range(4)]
    frozen = await _probabilities(peer, questions)
    seen = [frozen]
    for version, file in enumerate(files):
        digest = await publish(peer, file)
        if digest != (wanted := file.digest(peer.described.base_digest)):
            raise Broken(f"an upload was named {digest[:16]}, by the formula it is {wanted[:16]}")
        if await publish(peer, file) != digest:
            raise Broken("the same bytes got two names")
        found = await _probabilities(peer, questions, digest)
        for other, name in zip(seen, ("the base", "the version before"), strict=False):
            if np.abs(found - other).max() < 1e-4:
                raise Broken(f"publishing version {version} has no effect: it answers like {name}")
        seen.append(found)
    if np.abs(await _probabilities(peer, questions) - frozen).max() > peer.tolerance:
        raise Broken("publishing has changed the frozen base's answers")
    return f"2 versions, {len(questions)} decisions"


async def versions_stay_apart(peer: Peer) -> str:
    """Old and new versions and the base, mixed in one batch, answer as each did alone, under their own names."""
    if (files := await _files(peer)) is None:
        return _nothing(peer)
    digests = ["", await publish(peer, files[0])]
    before = await _probabilities(peer, [decision(5)], digests[1])
    digests.append(await publish(peer, files[1]))
    alone = [await _probabilities(peer, [decision(5)], digest) for digest in digests]
    if np.abs(alone[1] - before).max() > peer.tolerance:
        raise Broken("publishing a version has changed the one before")
    order = [0, 1, 2, 1, 0, 2, 2, 1]
    mixed = [decision(5, policy=adapter(digests[i])) if i else decision(5) for i in order]
    for i, choice in zip(order, await peer.choose(mixed), strict=True):
        if choice.adapter_digest != digests[i]:
            raise Broken(f"{digests[i][:16] or 'the base'} was asked, {choice.adapter_digest[:16]!r} has answered")
        if np.abs(np.array(choice.probabilities) - alone[i]).max() > peer.tolerance:
            raise Broken("a batch of several versions answers otherwise than each alone")
    return f"{len(order)} decisions of 3 policies"


async def bad_uploads_are_refused(peer: Peer) -> str:
    """Other bytes than announced, fewer or more of them, another base: refused, and nothing is held."""
    if (files := await _files(peer)) is None:
        return _nothing(peer)
    stub, file, base = peer.client.stub, files[0], peer.described.base_digest
    flipped = file.flipped()
    before = {one.digest for one in (await stub.ListAdapters(pb.ListAdaptersRequest())).adapters}
    wrong: dict[str, tuple[pb.AdapterHeader, bytes, Reason]] = {
        "a flipped bit": (_header(file, base), flipped.data, Reason.CORRUPT_UPLOAD),
        "a short upload": (_header(file, base), file.data[:-8], Reason.CORRUPT_UPLOAD),
        "a long upload": (_header(file, base), file.data + b"x", Reason.CORRUPT_UPLOAD),
        "another base": (_header(file, "e" * 64), file.data, Reason.WRONG_BASE),
    }
    for what, (header, data, reason) in wrong.items():
        await _refused_upload(peer, what, header, data, reason)
    after = {one.digest for one in (await stub.ListAdapters(pb.ListAdaptersRequest())).adapters}
    if after - before:
        raise Broken("a refused upload is held all the same")
    return f"{len(wrong)} faults"


async def leases_hold(peer: Peer) -> str:
    """A lease names its holder until it is released, once."""
    if (files := await _files(peer)) is None:
        return _nothing(peer)
    stub, digest = peer.client.stub, await publish(peer, files[0])
    with typed_errors():
        held = await stub.HoldAdapter(pb.HoldAdapterRequest(digest=digest, holder="conformance check", ttl_s=60))
    if "conformance check" not in await _holders(peer, digest):
        raise Broken("a lease's holder is not listed")
    with typed_errors():
        await stub.ReleaseAdapter(pb.ReleaseAdapterRequest(lease=held.lease))
    if "conformance check" in await _holders(peer, digest):
        raise Broken("a released lease is still listed")
    again = stub.ReleaseAdapter(pb.ReleaseAdapterRequest(lease=held.lease))
    await peer.expect("releasing a lease twice", again, Reason.UNKNOWN_LEASE)
    return "held, listed, released"


async def the_base_can_be_fetched(peer: Peer) -> str:
    """Files hash to what is announced, and another base than the served one is refused."""
    base = peer.described.base_digest
    if await peer.reason(_fetch(peer, base, 1)) == Reason.UNSUPPORTED:
        return "not offered: this base is no files"
    await peer.expect("fetching another base", _fetch(peer, "e" * 64, 1), Reason.WRONG_BASE)
    files = await _fetch(peer, base, SMALL)
    return f"{len(files)} files" if files else f"the first file is above {SMALL >> 20} MiB: contents not compared"


async def publish(peer: Peer, file: AdapterFile) -> str:
    """Uploads; the digest."""
    with typed_errors():
        reply = await peer.client.stub.PublishAdapter(
            _parts(_header(file, peer.described.base_digest), file.data), timeout=peer.plan.patience_s
        )
    return str(reply.digest)


async def _files(peer: Peer) -> tuple[AdapterFile, AdapterFile] | None:
    return await two_adapters(peer) if peer.learns else None


def _nothing(peer: Peer) -> str:
    return _NONE if peer.learns else "a fixed rule has no adapters"


async def _refuses_uploads(peer: Peer) -> str:
    if peer.learns:
        return _nothing(peer)
    file = AdapterFile("{}", b"\x02\x00\x00\x00\x00\x00\x00\x00{}")
    header = _header(file, peer.described.base_digest)
    await _refused_upload(peer, "an adapter for a rule", header, file.data, Reason.UNSUPPORTED)
    return "a fixed rule: uploads are refused"


async def _refused_upload(peer: Peer, what: str, header: pb.AdapterHeader, data: bytes, reason: Reason) -> None:
    """Asks again where the transport lost why: a server may refuse before it has read everything."""
    for _ in range(_UPLOADS):
        found = await peer.reason(peer.client.stub.PublishAdapter(_parts(header, data)))
        if found != Reason.UNREACHABLE:
            break
    refused_with(what, found, reason)


async def _probabilities(peer: Peer, questions: list[pb.Decision], digest: str = "") -> np.ndarray:
    if digest:
        questions = [pb.Decision(policy=adapter(digest), prompt=q.prompt, temperature=1.0) for q in questions]
    return np.array([list(choice.probabilities) for choice in await peer.choose(questions)])


async def _holders(peer: Peer, digest: str) -> list[str]:
    with typed_errors():
        listed = (await peer.client.stub.ListAdapters(pb.ListAdaptersRequest())).adapters
    return next((list(one.holders) for one in listed if one.digest == digest), [])


async def _fetch(peer: Peer, base: str, most: int) -> dict[str, int]:
    """Size by name of the files whose bytes were compared; broken off at the first one above `most` bytes."""
    call = peer.client.stub.FetchBackbone(pb.FetchBackboneRequest(base_digest=base), timeout=peer.plan.patience_s)
    announced, found, digest, size = pb.BackboneFile(), dict[str, int](), hashlib.sha256(), 0

    def close() -> None:
        if announced.name and (digest.hexdigest(), size) != (announced.sha256, announced.size):
            raise Broken(f"{announced.name} came with {size} bytes that do not hash to its sha256")
        if announced.name:
            found[announced.name] = size

    async for part in call:
        if part.WhichOneof("part") == "file":
            close()
            announced, digest, size = part.file, hashlib.sha256(), 0
            if announced.size > most:
                call.cancel()
                return found
        else:
            digest.update(part.chunk)
            size += len(part.chunk)
    close()
    return found


def _header(file: AdapterFile, base: str) -> pb.AdapterHeader:
    return pb.AdapterHeader(
        agent=_AGENT, config_json=file.config_json, base_digest=base, size=len(file.data), sha256=file.sha256
    )


async def _parts(header: pb.AdapterHeader, data: bytes) -> AsyncIterator[pb.PublishAdapterRequest]:
    yield pb.PublishAdapterRequest(header=header)
    for start in range(0, len(data), CHUNK):
        yield pb.PublishAdapterRequest(chunk=data[start : start + CHUNK])
