"""The checks of the .proto files, and that they catch what they are for."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from potluck.rpc.limits import CLIENT_OPTIONS, MESSAGE_CAP, SERVER_OPTIONS

PROTO = Path(__file__).parents[1]
BUF = Path(sys.executable).parent / "buf"
COMMON = "protos/potluck/common/v1/common.proto"


def _lint(folder: Path) -> int:
    env = os.environ | {"BUF": str(BUF), "PYTHON": sys.executable}
    return subprocess.run(["sh", "lint.sh"], cwd=folder, env=env, capture_output=True, timeout=120).returncode


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    if not BUF.exists():
        pytest.skip("buf is not installed")
    for name in ("lint.sh", "buf.yaml"):
        shutil.copy(PROTO / name, tmp_path)
    shutil.copytree(PROTO / "protos", tmp_path / "protos")
    return tmp_path


def test_the_contracts_are_linted_and_formatted(copy):
    assert _lint(copy) == 0


@pytest.mark.parametrize(
    ("pattern", "instead"),
    [
        (r"// One option instance offered.*\n", ""),  # no comment
        (r"  string letter = 1;", "      string letter = 1;"),  # bad format
        (r"message Item \{", "message item {"),  # bad name
        (r"  string letter = 1;", "  string Letter = 1;"),  # bad field name
    ],
)
def test_a_fault_in_them_is_caught(copy, pattern, instead):
    path = copy / COMMON
    text, count = re.subn(pattern, instead, path.read_text(), count=1)
    assert count == 1
    path.write_text(text)
    assert _lint(copy) != 0


def test_both_ends_agree_on_caps_and_keepalive():
    client, server = dict(CLIENT_OPTIONS), dict(SERVER_OPTIONS)
    for name in ("grpc.max_receive_message_length", "grpc.max_send_message_length"):
        assert client[name] == server[name] == MESSAGE_CAP
    assert client["grpc.keepalive_time_ms"] > server["grpc.http2.min_recv_ping_interval_without_data_ms"]
    assert server["grpc.so_reuseport"] == 0


def test_nothing_here_imports_torch_or_the_tracing_sdk():
    code = """
import sys
import potluck.play, potluck.rpc.server, potluck.rpc.channel, potluck.telemetry.setup
import potluck.audit.v1.audit_service_pb2_grpc
heavy = {"torch", "numpy", "opentelemetry.sdk"} & set(sys.modules)
sys.exit(repr(heavy) if heavy else 0)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
