"""Local services on a leash: ready, ended with their starter however it ends, and told on when they fail."""

import asyncio
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from potluck_trainer.config import RunConfig, ServicesConfig
from potluck_trainer.errors import ServiceError
from potluck_trainer.services import Command, env_server, running

SERVICE = """#!{python}
import os, signal, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(os.getpid(), child.pid, file=open(sys.argv[1], "w"))
print("loading the model", flush=True)
if "late" not in sys.argv:
    print("ready fake on 127.0.0.1:7", flush=True)
if "dies" in sys.argv:
    print("ERROR the weights are missing", file=sys.stderr)
    child.kill()
    sys.exit(3)
if "deaf" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(600)
"""

STARTER = """
import asyncio, signal, sys
from pathlib import Path
from potluck_trainer.services import Command, running
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell would have it ignored
async def main():
    async with running([Command("fake-service", "fake", (sys.argv[1],))], Path(sys.argv[2]), 30):
        print("up", flush=True)
        await asyncio.sleep(600)
asyncio.run(main())
"""


@pytest.fixture
def service(tmp_path, monkeypatch):
    """A command whose service notes its process ids in a file."""
    program = tmp_path / "fake-service"
    program.write_text(SERVICE.format(python=sys.executable))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return lambda *flags: Command("fake-service", "fake", (str(tmp_path / "pids"), *flags))


def pids(tmp_path):
    return [int(part) for part in (tmp_path / "pids").read_text().split()]


def alive(pid):
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def gone(processes, within_s=20.0):
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if not any(alive(pid) for pid in processes):
            return True
        time.sleep(0.05)
    return False


async def test_a_service_is_ready_and_leaves_nothing(service, tmp_path):
    async with running([service()], tmp_path / "logs", 30) as (one,):
        assert one.address == "127.0.0.1:7"
        own = pids(tmp_path)
        assert all(alive(pid) for pid in own)
    assert gone(own)


async def test_a_service_that_dies_says_why(service, tmp_path):
    with pytest.raises(ServiceError, match="weights are missing"):
        async with running([service("late", "dies")], tmp_path / "logs", 30):
            pass


async def test_a_service_that_is_never_ready_is_given_up(service, tmp_path):
    with pytest.raises(ServiceError, match="not ready within 2 s"):
        async with running([service("late")], tmp_path / "logs", 2):
            pass
    assert gone(pids(tmp_path))


async def test_a_missing_program_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ServiceError, match="no-such-service is not installed"):
        async with running([Command("no-such-service", "nothing", ())], tmp_path, 5):
            pass


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_services_do_not_outlive_their_starter(service, tmp_path, number):
    service()
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(tmp_path / "pids"), str(tmp_path / "logs")], stdout=subprocess.PIPE
    )
    assert starter.stdout.readline() == b"up\n"
    own = pids(tmp_path)
    starter.send_signal(number)
    starter.wait(30)
    assert gone(own)


async def test_cancelling_ends_the_services(service, tmp_path):
    up = asyncio.Event()

    async def hold():
        async with running([service()], tmp_path / "logs", 30):
            up.set()
            await asyncio.sleep(600)

    task = asyncio.create_task(hold())
    await up.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert gone(pids(tmp_path))


def test_the_local_env_server_gets_the_run_s_time_out():
    args = env_server(RunConfig(services=ServicesConfig(env_workers=3, env_timeout_s=90))).args
    assert args == ("serve", "--workers", "3", "--timeout", "90")
