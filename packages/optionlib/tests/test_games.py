"""Plug-ins that fail: each is a typed error that names the game and the cause, and no traceback at the prompt."""

from types import SimpleNamespace

import pytest

from potluck_optionlib import cli, games
from potluck_optionlib.burnin.errors import GameFaultError
from potluck_optionlib.errors import UnknownGameError


@pytest.fixture
def install(monkeypatch):
    """Installs a plug-in of the engine "yard", given what its entry point's `load` does."""

    def put(load) -> None:
        point = SimpleNamespace(name="yard", load=load)
        monkeypatch.setattr(games, "entry_points", lambda group: [point])

    return put


def failing(kind: type[BaseException]):
    def fail(*args: object) -> None:
        raise kind("no map")

    return fail


CAUSES = [ImportError, SystemExit, SyntaxError, RuntimeError]


@pytest.mark.parametrize("kind", CAUSES)
def test_a_plugin_that_fails_is_named_with_its_cause(install, tmp_path, capsys, kind) -> None:
    install(failing(kind))
    with pytest.raises(GameFaultError, match=rf"yard/door: .*import \({kind.__name__}: no map\)"):
        games.find_provider("yard/door")
    install(lambda: SimpleNamespace(make=failing(kind), guards=failing(kind)))
    with pytest.raises(GameFaultError, match=rf"yard/door: `make` raised \({kind.__name__}: no map\)"):
        games.make_game("yard/door")
    with pytest.raises(GameFaultError, match=rf"yard/door: `guards` raised \({kind.__name__}: no map\)"):
        games.shipped_guards("yard/door")
    for command in (
        ["burnin", "--out", str(tmp_path / "b")],
        ["heldout"],
        ["check"],
    ):
        with pytest.raises(SystemExit) as stop:
            cli.main([command[0], "yard/door", *command[1:]])
        assert stop.value.code == 2
        assert f"{kind.__name__}: no map" in capsys.readouterr().err


def test_a_keyerror_of_make_is_an_unknown_game_and_one_on_import_is_a_fault(install) -> None:
    install(lambda: SimpleNamespace(make=failing(KeyError), guards=failing(KeyError)))
    for ask in (games.make_game, games.shipped_guards):
        with pytest.raises(UnknownGameError, match="no map"):
            ask("yard/door")
    install(failing(KeyError))
    with pytest.raises(GameFaultError, match="KeyError"):
        games.make_game("yard/door")


def test_ctrl_c_is_nobodys_fault(install) -> None:
    install(failing(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        games.make_game("yard/door")
