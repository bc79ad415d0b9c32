"""A library drafted for a real kitchen: an absolute effect is found by burn-in, sent back and cured."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from potluck_envs.overcooked import provider
from potluck_envs.overcooked.options import library
from potluck_optionlib import cli
from potluck_optionlib.errors import ContractError
from potluck_optionlib.games import find_draftable
from potluck_optionlib.guards import GuardLibrary

GAME = "overcooked/asymmetric_advantages"
PACKAGES = Path(__file__).parents[3]
LIBRARY = """from potluck_optionlib.contracts import Contract
from potluck_optionlib.game import Instance

NO_PATH, NOTHING_HELD = "NoPath", "NothingHeld"


def contracts(layout):
    def everywhere(name, kind):
        found = tuple(Instance(name, target.text) for target in layout.of_kind(kind))
        return lambda world, agent: found

    def reach(world, agent, instance):
        return None if world.has_path(agent, instance) else NO_PATH

    def carry(world, agent, instance):
        return reach(world, agent, instance) if world.holds(agent) else NOTHING_HELD

    pot = ("held", "tgt_pot_state")
    return [
        Contract("pick_onion", "onion", ("held",), 40, False, "hand: not onion -> onion", (NO_PATH,),
                 everywhere("pick_onion", "O"), reach, picked),
        Contract("place_in_pot", "pot", pot, 40, False, "hand: onion -> none and the pot's count rises",
                 (NOTHING_HELD, NO_PATH), everywhere("place_in_pot", "P"), carry, placed),
        Contract("start_cooking", "cook", pot, 40, True, "pot: idle -> cooking", (NO_PATH,),
                 everywhere("start_cooking", "P"), reach, cooks),
        Contract("wait", "wait", (), 3, False, "time passes", (), lambda world, agent: (Instance("wait"),),
                 lambda world, agent, instance: None, lambda change: True),
    ]


def picked(change):
    return change.before["held"] != "onion" and change.after["held"] == "onion"


def placed(change):
    emptied = change.before["held"] == "onion" and change.after["held"] == "none"
    return emptied and int(change.after["tgt_pot_count"]) > int(change.before["tgt_pot_count"])


def cooks(change):
    return change.before["tgt_pot_phase"] == "idle" and change.after["tgt_pot_phase"] == "cooking"
"""
ABSOLUTE = LIBRARY.replace('change.before["held"] != "onion" and ', "")


def endpoint_module():
    name, path = "potluck_envs_tests_endpoint", PACKAGES / "optionlib/tests/drafting/support/endpoint.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_an_absolute_effect_on_the_real_engine_is_repaired(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
    module, out = endpoint_module(), tmp_path / "draft"
    answers = [module.Answer(f"```python\n{source}```") for source in (ABSOLUTE, LIBRARY)]
    rules = PACKAGES / "envs/src/potluck_envs/overcooked/layout.py"
    with module.Endpoint(answers) as server:
        cli.main(
            ["draft", GAME, "--game-source", str(rules), "--model", "claude-test", "--provider", "anthropic",
             "--base-url", server.url, "--out", str(out), "--repairs", "1",
             "--solo-episodes", "8", "--team-episodes", "4", "--horizon", "200"]
        )  # fmt: skip
        first, second = server.calls
    assert "This game carries options out itself" in first.texts[0]
    assert "[suspect/effect_without_change] pick_onion" in second.texts[-1]
    assert "[validate/absolute_effect] pick_onion" in second.texts[-1]
    reports = [json.loads((out / f"versions/00{n}/report.json").read_bytes()) for n in (0, 1)]
    assert {finding["option"] for finding in reports[0]["findings"]} == {"pick_onion"}
    assert reports[1]["findings"] == []
    assert reports[1]["records"] > 300
    before, after = (GuardLibrary.parse((out / f"versions/00{n}/guards.json").read_text()) for n in (0, 1))
    assert not before.forbids("pick_onion", {"held": "onion"})
    assert after.forbids("pick_onion", {"held": "onion"})


def test_the_shipped_contracts_fit_the_hook() -> None:
    game = find_draftable(GAME).with_contracts(GAME, lambda layout: list(library(layout).values()))
    assert game.contracts_digest == provider.make(GAME).contracts_digest


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('pot = ("held", "tgt_pot_state")', 'pot = ("tgt_pot_state", "held")', "a kitchen tells one of"),
        ("(NOTHING_HELD, NO_PATH)", "[NOTHING_HELD, NO_PATH]", "a tuple of reasons"),
        ('"start_cooking", "cook"', '"pick_onion", "cook"', "Two contracts have one name"),
        ('Contract("wait"', 'Contract("rest"', "no option `wait`"),
    ],
)
def test_contracts_that_a_kitchen_cannot_play_are_refused(old: str, new: str, why: str) -> None:
    assert LIBRARY.count(old) == 1
    space: dict[str, object] = {}
    exec(LIBRARY.replace(old, new), space)
    with pytest.raises(ContractError, match=why):
        provider.with_contracts(GAME, space["contracts"])  # type: ignore[arg-type]


def test_unknown_kitchens_have_no_notes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    with pytest.raises(SystemExit) as stop:
        cli.main(["draft", "overcooked/nowhere", "--game-source", __file__, "--model", "m", "--out", str(tmp_path)])
    assert stop.value.code == 2
    assert "no game 'overcooked/nowhere'" in capsys.readouterr().err
    for ask in (provider.draft_notes, lambda name: provider.with_contracts(name, lambda layout: [])):
        with pytest.raises(KeyError, match="no game"):
            ask("overcooked/nowhere")
