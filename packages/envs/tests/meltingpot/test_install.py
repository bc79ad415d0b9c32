"""The engine comes lean, is small, and says clearly where it cannot run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from potluck_envs.meltingpot import stack
from potluck_envs.meltingpot.process import ProcessCore
from potluck_envs.meltingpot.substrates import SUBSTRATES, substrate

ROOT = Path(__file__).parents[4]
HEAVY = ("tensorflow", "jax", "chex", "pygame", "cv2", "pandas", "torch", "scipy")
MEGABYTES = 200

PLAY = f"""
import sys
from potluck_envs.meltingpot.core import Core
from potluck_envs.meltingpot.substrates import SUBSTRATES
for known in SUBSTRATES.values():
    core = Core(known, None, False)
    core.start(1)
    core.advance(bytes(7))
print([name for name in {HEAVY!r} if name in sys.modules])
import meltingpot
print(hasattr(meltingpot, "bot"))
"""


def test_playing_imports_nothing_heavy():
    done = subprocess.run([sys.executable, "-c", PLAY], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["[]", "False"]


def test_the_packages_own_front_door_does_ask_for_what_is_left_out():
    done = subprocess.run([sys.executable, "-c", "import meltingpot.substrate"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "No module named" in done.stderr


def resident(pid):
    """Megabytes of memory in which a process is resident, shared ones included, and without them."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    sizes = {line.split()[0]: int(line.split()[1]) / 1024 for line in lines[1:]}
    return sizes["Rss:"], sizes["Private_Dirty:"] + sizes["Private_Clean:"]


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs Linux's /proc")
def test_an_engine_process_is_small_and_its_forks_smaller():
    for name in SUBSTRATES:
        core = ProcessCore(substrate(name), None, False)
        core.start(1)
        for _ in range(50):
            core.advance(bytes(7))
        fork = core.fork()
        fork.advance(bytes(7))
        whole, _ = resident(core.pid)
        _, own = resident(fork.pid)
        assert 20 < whole < MEGABYTES
        assert own < whole / 2


@pytest.mark.parametrize(("version", "fits"), [("2.31", False), ("2.35", True), ("2.36", True), ("2.4", False)])
def test_an_old_glibc_is_told_with_the_cure(version, fits):
    if fits:
        return stack.check_glibc("glibc", version)
    with pytest.raises(stack.EngineUnavailable, match=r"glibc .*2\.35.*Debian 12"):
        stack.check_glibc("glibc", version)
    return None


OLD = """
import platform
platform.libc_ver = lambda: ("glibc", "2.31")
from potluck_envs.errors import GameUnavailable
from potluck_envs.host import Host
from potluck_envs.registry import Registry
try:
    Registry().library("meltingpot/clean_up")
except GameUnavailable as error:
    print(error.reason, error.message)
print(*[game.name for game in Host(Registry()).games().games])
"""


def test_a_machine_with_an_old_glibc_says_so_when_asked_for_the_game_and_plays_the_others():
    done = subprocess.run([sys.executable, "-c", OLD], capture_output=True, text=True, check=True)
    said, games = done.stdout.splitlines()
    assert said.startswith(
        "UNSUPPORTED Melting Pot's engine cannot be loaded: this machine has glibc 2.31, dmlab2d needs"
    )
    assert "broken" not in said
    assert "overcooked/forced_coordination" in games
    assert "meltingpot" not in games


@pytest.mark.parametrize(("version", "flags"), [("glibc 2.31", True), ("glibc 2.35", False), ("glibc 2.36", False)])
def test_setup_leaves_the_engine_out_on_an_old_glibc_and_says_so(tmp_path, version, flags):
    getconf = tmp_path / "getconf"
    getconf.write_text(f"#!/bin/sh\necho {version}\n")
    getconf.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = ["sh", str(ROOT / "scripts/meltingpot.sh"), "check"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert ("--no-install-package dmlab2d" in done.stdout) is flags
    assert ("needs 2.35 or newer" in done.stderr) is flags
