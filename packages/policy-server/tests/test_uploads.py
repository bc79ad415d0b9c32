"""A refused upload is heard to its end, so that the refusal reaches a client that is still writing."""

import hashlib

import pytest

from potluck.policy.v1 import policy_service_pb2 as pb
from potluck_policy_server import uploads
from potluck_policy_server.errors import CorruptUpload, WrongBase
from potluck_policy_server.uploads import receive

BASE, DATA = "a" * 64, bytes(4000)


class Wire:
    """The requests of one upload, and how many of them were taken."""

    def __init__(self, base: str = BASE, chunks: int = 5) -> None:
        header = pb.AdapterHeader(agent="agent_0", config_json="{}", base_digest=base, size=len(DATA))
        header.sha256 = hashlib.sha256(DATA).hexdigest()
        self.requests = [pb.PublishAdapterRequest(header=header)]
        self.requests += [pb.PublishAdapterRequest(chunk=DATA[:1000])] * chunks
        self.taken = 0

    async def __aiter__(self):
        for request in self.requests:
            self.taken += 1
            yield request


async def test_a_whole_upload_is_received():
    assert (await receive(aiter(Wire(chunks=4)), BASE, 1 << 20)).data == DATA


@pytest.mark.parametrize(("wire", "error"), [(Wire("b" * 64), WrongBase), (Wire(chunks=30), CorruptUpload)])
async def test_a_refused_upload_is_heard_to_its_end(wire, error):
    with pytest.raises(error):
        await receive(aiter(wire), BASE, 1 << 20)
    assert wire.taken == len(wire.requests)


async def test_but_not_without_bound(monkeypatch):
    monkeypatch.setattr(uploads, "HEARD_OUT", 3000)
    wire = Wire("b" * 64, chunks=1000)
    with pytest.raises(WrongBase):
        await receive(aiter(wire), BASE, 1 << 20)
    assert wire.taken < 10
