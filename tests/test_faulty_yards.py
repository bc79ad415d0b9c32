"""The game of docs/add-a-game.md with contracts that go wrong quietly: each is named, by `check` or by `suspect`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from potluck_optionlib.burnin import BurninPlan, run
from potluck_optionlib.contract_game import ContractGame
from potluck_optionlib.contracts import Act, Contract, option
from potluck_optionlib.guards import NO_GUARDS
from potluck_optionlib.suspicion import examine
from potluck_optionlib.validation import Fault, check

PAGE = Path(__file__).parents[1] / "docs" / "add-a-game.md"


@pytest.fixture(scope="module")
def yard() -> ModuleType:
    """The page's module."""
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert code is not None
    module = ModuleType("yard_game")
    module.__dict__["__file__"] = str(PAGE)
    exec(compile(code.group(1), "yard_game.py", "exec", dont_inherit=True), module.__dict__)
    return module


def changed(module: ModuleType, name: str, **fields: Any) -> list[Contract[Any]]:
    """The page's contracts, one of them written anew with other fields."""
    kept = {contract.name: contract for contract in module.contracts(None)}
    old = kept[name]
    told = {"instances": old.instances, "executor": old.executor, "effect": old.effect, "promise": old.promise}
    kept[name] = option(name, **{**told, "reads": old.reads, **fields})
    return list(kept.values())


def told(module: ModuleType, own: Callable[[Any, int], dict[str, str]], reads: Sequence[str]) -> ContractGame:
    """A yard that tells more facts of an agent's own, and whose `press` reads them."""

    class Telling(module.Yard):  # type: ignore[name-defined, misc]
        def own(self, agent: int) -> dict[str, str]:
            return own(self, agent)

    return ContractGame(Telling(), changed(module, "press", reads=tuple(reads)))


def named(faults: Sequence[Fault]) -> set[tuple[str, str, str]]:
    return {(fault.rule.value, fault.option, fault.field) for fault in faults}


def test_the_page_itself_is_clean(yard: ModuleType) -> None:
    assert check(ContractGame(yard.Yard(), yard.contracts(None))) == ()


@pytest.mark.parametrize(
    "own",
    [
        lambda world, agent: {"crowded": "yes" if world.pose(1 - agent).x >= 4 else "no"},
        lambda world, agent: {"crowded": world.held(1 - agent) or "none"},
    ],
    ids=["where a partner stands", "what a partner holds"],
)
def test_a_partners_feature_under_a_neutral_name(yard: ModuleType, own: Callable[[Any, int], dict[str, str]]) -> None:
    faults = check(told(yard, own, ("held", "crowded")), 2)
    assert named(faults) == {("partner_feature", "press", "reads")}
    assert "'crowded'" in faults[0].seen
    assert "who did nothing" in faults[0].seen
    assert check(told(yard, own, ("held",)), 2) == ()


def test_what_a_partner_does_to_the_world_is_no_partners_feature(yard: ModuleType) -> None:
    """The number of crates pressed rises by a partner's act; so do clocks by themselves."""
    own = lambda world, agent: {"pressed": str(world.state.pressed % 3), "mine": world.held(agent) or "none"}  # noqa: E731
    assert check(told(yard, own, ("held", "pressed", "mine")), 2) == ()


def test_an_executor_that_always_raises(yard: ModuleType) -> None:
    def broken(world: Any, agent: int, instance: object) -> Act:
        raise KeyError("no such crate")

    faults = check(ContractGame(yard.Yard(), changed(yard, "press", executor=broken)), 1)
    assert ("raises", "press", "executor") in named(faults)
    assert any("KeyError" in fault.seen for fault in faults)


def endless(world: Any, agent: int, instance: object) -> Act:
    return Act("stay")


def test_an_option_that_never_ends(yard: ModuleType) -> None:
    contracts = changed(yard, "press", executor=endless, timeout=10**9)
    faults = check(ContractGame(yard.Yard(), contracts), 2)
    assert ("never_ends", "press", "timeout") in named(faults)
    burnin = run(ContractGame(yard.Yard(), contracts), BurninPlan(6, 6, 0, 120))
    found = {(s.kind.value, s.option) for s in examine(burnin, NO_GUARDS, contracts)}
    assert ("never_finishes", "press") in found
    assert ("never_chosen", "press") not in found


def test_an_option_without_targets_is_never_chosen_and_not_unending(yard: ModuleType) -> None:
    contracts = changed(yard, "press", instances=lambda world, agent: [])
    burnin = run(ContractGame(yard.Yard(), contracts), BurninPlan(6, 6, 0, 120))
    found = {(s.kind.value, s.option) for s in examine(burnin, NO_GUARDS, contracts)}
    assert ("never_chosen", "press") in found
    assert "never_finishes" not in {kind for kind, _ in found}
