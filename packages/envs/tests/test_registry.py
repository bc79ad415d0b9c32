"""Games by name: plug-ins, broken plug-ins, libraries."""

import subprocess
import sys

import pytest

from potluck.rpc.errors import Reason
from potluck_envs.errors import BrokenPlugin, UnknownGame
from potluck_envs.registry import Registry


def test_names_come_from_all_plugins_that_load():
    registry = Registry()
    names = registry.names()
    assert {"relay/two_rooms", "faulty/raises", "overcooked/cramped_room"} <= set(names)
    assert sorted(error.metadata["plugin"] for error in registry.broken()) == [
        "'missing' (potluck_relay.no_such_module:provider)",
        "'shapeless' (potluck_relay.provider:broken)",
    ]


def test_an_unknown_game_names_close_ones_and_all_known():
    with pytest.raises(UnknownGame) as failure:
        Registry().library("overcooked/force_coordination")
    error = failure.value
    assert error.reason == Reason.UNKNOWN_GAME
    assert "overcooked/forced_coordination" in error.message
    assert "missing" in error.message, "it might be in a plug-in that does not load"
    assert "relay/two_rooms" in error.metadata["known"]


def test_a_broken_plugin_is_named_and_leaves_the_others_alone():
    registry = Registry()
    with pytest.raises(BrokenPlugin, match=r"missing.*no_such_module"):
        registry.library("missing/game")
    assert registry.library("relay/two_rooms").info.name == "relay/two_rooms"


def test_the_library_digest_covers_the_guards():
    registry = Registry()
    assert registry.library("relay/two_rooms").digest != registry.library("faulty/ignores_the_seed").digest
    assert registry.library("faulty/ignores_the_seed").digest == registry.library("faulty/ignores_reseed").digest


def test_a_game_imports_its_own_engine_only():
    code = (
        "import sys; from potluck_envs.registry import Registry\n"
        "Registry().library('relay/two_rooms').make(); print('overcooked_ai_py' in sys.modules)"
    )
    path = next(entry for entry in sys.path if entry.endswith("support"))
    code = f"import sys; sys.path.insert(0, {path!r})\n{code}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
