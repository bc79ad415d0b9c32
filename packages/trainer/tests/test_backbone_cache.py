"""The frozen base as the learner gets it: fetched from a real policy server, proved by digest, never half there."""

import contextlib
import hashlib
import shutil
from types import SimpleNamespace

import pytest

from potluck.play import PolicyClient
from potluck.policy.v1.policy_service_pb2 import BackboneFile, FetchBackboneResponse
from potluck_trainer.backbone_cache import fetch_backbone, folder_digest
from potluck_trainer.config import RunConfig
from potluck_trainer.errors import BackboneError
from potluck_trainer.services import policy_server, running


@pytest.fixture
def served(tmp_path):
    """A context with a client of a real policy server of `tiny`."""
    if shutil.which("potluck-policy") is None:
        pytest.skip("no policy server is installed beside the trainer")

    @contextlib.asynccontextmanager
    async def serve():
        command = policy_server(RunConfig(backbone="tiny"))
        async with (
            running([command], tmp_path / "logs", 120) as (service,),
            PolicyClient(service.address) as client,
        ):
            await client.wait_ready()
            yield client

    return serve


async def test_the_base_arrives_once_and_is_mended_when_damaged(served, tmp_path):
    root = tmp_path / "cache"
    async with served() as client:
        digest = (await client.describe()).base_digest
        folder = await fetch_backbone(client, digest, root)
        assert folder == root / digest
        assert folder_digest(folder) == digest
        assert {path.name for path in root.iterdir()} == {digest}
        seen = {path.name: path.stat().st_ino for path in folder.iterdir()}
        await fetch_backbone(client, digest, root)
        assert {path.name: path.stat().st_ino for path in folder.iterdir()} == seen

        weights = next(folder.glob("*.safetensors"))
        data = bytearray(weights.read_bytes())
        data[-1] ^= 1
        weights.write_bytes(data)
        assert folder_digest(folder) != digest
        await fetch_backbone(client, digest, root)
        assert folder_digest(folder) == digest


def sending(*parts):
    """A client whose server sends these parts."""

    async def stream(request, timeout):
        for part in parts:
            yield part

    return SimpleNamespace(address="policy:0", stub=SimpleNamespace(FetchBackbone=stream))


def parts(name, data, sha256=None):
    sha256 = sha256 or hashlib.sha256(data).hexdigest()
    head = BackboneFile(name=name, size=len(data), sha256=sha256)
    return FetchBackboneResponse(file=head), FetchBackboneResponse(chunk=data)


@pytest.mark.parametrize(
    ("stream", "words"),
    [
        (parts("config.json", b"{}", "0" * 64), "arrived damaged"),
        (parts("config.json", b"{}"), "use trainer and policy server of one version"),
        (parts("../config.json", b"{}"), "names have no folders"),
        (parts("config.json", b"{}")[1:], "bytes before a file name"),
        (parts("weights.bin", b"1"), "no readable config.json"),
    ],
)
async def test_what_is_not_the_base_leaves_nothing_behind(tmp_path, stream, words):
    with pytest.raises(BackboneError, match=words):
        await fetch_backbone(sending(*stream), "d" * 64, tmp_path)
    assert list(tmp_path.iterdir()) == []
