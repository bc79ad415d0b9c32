"""The validator names option, field, what was seen and the cure; sound contracts come out clean."""

from dataclasses import replace

import pytest

from potluck_optionlib import cli
from potluck_optionlib.contracts import Contract, contracts_digest
from potluck_optionlib.game import Ended, Instance
from potluck_optionlib.validation import Rule, check
from potluck_optionlib.validation.static import static_faults


def contract(name: str, reads: tuple[str, ...] = ("held",), failures: tuple[str, ...] = (), **other) -> Contract:
    fields = {"stem": name, "timeout": 1, "solo_only": False, "promise": f"{name} works", **other}
    return Contract(
        name=name,
        reads=reads,
        failures=failures,
        instances=lambda world, agent: (),
        explicit=lambda world, agent, instance: None,
        effect=lambda change: True,
        **fields,
    )


SOUND = {
    "grab": contract("grab"),
    "toss": contract("toss", failures=("NothingHeld",)),
    "ring": contract("ring", ("held", "hour"), solo_only=True),
    "wait": contract("wait", ()),
}


@pytest.fixture
def sound(toy):
    """The toy with contracts, telling what changed."""

    class Sound(toy.ToyGame):
        contracts = SOUND
        contracts_digest = contracts_digest(SOUND.values())

        def step(self):
            before = list(self.held)
            step = super().step()
            ended = [self.told(end, before[end.agent] != self.held[end.agent]) for end in step.ended]
            return replace(step, ended=tuple(ended))

        def told(self, end: Ended, moved: bool) -> Ended:
            if end.instance.option == "wait":
                return end
            return replace(end, own_changed=moved, changed=moved or end.instance.option == "ring")

    return Sound


def under(game, **changes):
    """The game under contracts with other fields, digest and all."""

    changed = {
        name: replace(kept, **{f: v for o, f, v in changes["fields"] if o == name}) for name, kept in SOUND.items()
    }

    class Changed(game):
        contracts = changed
        contracts_digest = contracts_digest(changed.values())

    return Changed


def faults(game) -> dict[str, tuple[str, str, str]]:
    found = check(game if not isinstance(game, type) else game(), episodes=4)
    return {fault.rule.value: (fault.option, fault.field, fault.text) for fault in found}


def test_sound_contracts_keep_every_rule(sound) -> None:
    assert faults(sound) == {}


def test_a_game_without_contracts_is_only_watched(toy) -> None:
    assert faults(toy.ToyGame) == {}


@pytest.mark.parametrize(
    ("option", "field", "value", "rule", "said"),
    [
        ("grab", "reads", ("held", "partner_near"), Rule.PARTNER_FEATURE, "grab.reads: 'partner_near' is a partner's"),
        ("grab", "reads", ("held", "mate_at"), Rule.PARTNER_FEATURE, "'mate_at'"),
        ("grab", "reads", ("held", ""), Rule.READS, "names ''"),
        ("grab", "reads", ("held", "held"), Rule.READS, "'held' is there 2 times"),
        ("grab", "reads", ["held"], Rule.READS, "Give a tuple"),
        ("grab", "reads", ("colour",), Rule.UNKNOWN_FEATURE, "the game tells only held, hour"),
        ("grab", "stem", "toss", Rule.STEM, "share 'toss'"),
        ("grab", "stem", "ball2", Rule.STEM, "ends in a digit"),
        ("grab", "stem", "Two words", Rule.STEM, "'Two words'"),
        ("grab", "promise", " ", Rule.PROMISE, "it is empty"),
        ("grab", "timeout", 0, Rule.TIMEOUT, "grab.timeout: it is 0"),
        ("grab", "timeout", 2.5, Rule.TIMEOUT, "2.5"),
        ("toss", "failures", ("NothingHeld", "no path"), Rule.FAILURES, "'no path' is no typed reason"),
        ("toss", "failures", (), Rule.UNDECLARED_FAILURE, "failed with 'NothingHeld', which is not among none"),
        ("grab", "name", "snatch", Rule.NAME, "the game keeps it as 'grab'"),
        ("grab", "name", "Grab it", Rule.NAME, "'Grab it'"),
    ],
)
def test_static_rules(sound, option, field, value, rule, said) -> None:
    found = faults(under(sound, fields=[(option, field, value)]))
    assert said in found[rule.value][2]
    assert found[rule.value][1] == field


def test_features_of_partners_by_the_games_own_word(sound) -> None:
    class Told(sound):
        partner_features = ("hour",)

    assert faults(Told)["partner_feature"][0] == "ring"


def test_wait_and_the_digest_are_needed(sound) -> None:
    waitless = {name: kept for name, kept in SOUND.items() if name != "wait"}

    class Waitless(sound):
        contracts = waitless

    found = faults(Waitless)
    assert "there is no option 'wait'" in found["wait"][2]
    assert "Return contracts_digest(contracts)" in found["digest"][2]


def test_an_effect_on_the_state_and_not_on_its_change(sound) -> None:
    class Absolute(sound):
        def _act(self, agent, instance, somebody):
            outcome = super()._act(agent, instance, somebody)
            return "success" if instance.option == "grab" and self.held[agent] else outcome

    found = faults(Absolute)
    assert set(found) == {"absolute_effect"}
    assert found["absolute_effect"][:2] == ("grab", "effect")
    assert "nothing changed around its last step. Write the effect on the change" in found["absolute_effect"][2]


def test_an_effect_without_a_private_part_needs_solo_only(sound) -> None:
    class Shared(under(sound, fields=[("ring", "solo_only", False)])):
        solo_only = frozenset()

    found = faults(Shared)
    assert set(found) == {"shared_effect"}
    assert found["shared_effect"][:2] == ("ring", "effect")
    assert "set solo_only" in found["shared_effect"][2]


def test_what_a_game_does_not_tell_is_no_fault(sound) -> None:
    class Silent(sound):
        solo_only = frozenset()

        def told(self, end, moved):
            return end

    assert faults(Silent) == {}


def nearest(toy_game, agents: int):
    class Nearest(toy_game):
        """Each agent is offered the ball nearest to where it last was."""

        def __init__(self) -> None:
            super().__init__(agents=agents)

        def candidates(self, agent):
            whole = super().candidates(agent)
            at = (0, 1, 2, 1)[(self.steps + agent) // 3 % 4]
            return [i for n, i in enumerate(whole) if n == at or i.option != "grab"]

    return Nearest


@pytest.mark.parametrize("agents", [1, 2])
def test_only_the_nearest_target(sound, agents) -> None:
    found = faults(nearest(sound, agents))
    assert set(found) == {"nearest_target"}
    assert found["nearest_target"][:2] == ("grab", "instances")
    assert "one instance for every target" in found["nearest_target"][2]


def test_one_target_that_moves_is_no_fault(sound) -> None:
    class Moving(sound):
        """One ball, at another place each step."""

        def candidates(self, agent):
            whole = super().candidates(agent)
            return [i for n, i in enumerate(whole) if n == self.steps % self.balls or i.option != "grab"]

    assert faults(Moving) == {}


def test_instances_that_depend_on_the_hand(sound) -> None:
    class Gated(sound):
        def candidates(self, agent):
            return [i for i in super().candidates(agent) if i.option != "toss" or self.held[agent]]

    found = faults(Gated)
    assert set(found) == {"gated"}
    assert found["gated"][0] == "toss"
    assert "whenever it holds ball and none whenever it holds nothing" in found["gated"][2]


def test_too_many_targets_doubled_ones_and_foreign_types(sound) -> None:
    class Wild(sound):
        def candidates(self, agent):
            return [*super().candidates(agent), Instance("toss"), Instance("jump", "(1,1)")]

    class Many(sound):
        def __init__(self) -> None:
            super().__init__(balls=1000)

    found = check(Wild(), episodes=1)
    assert [f.option for f in found if f.rule is Rule.INSTANCE] == ["toss", "jump"]
    assert "1000 targets in one state (at most 500)" in faults(Many)["too_many"][2]


@pytest.mark.parametrize("method", ["candidates", "features", "explicit", "begin", "step", "reset"])
def test_hooks_that_raise_are_named_and_the_rest_is_still_checked(sound, method) -> None:
    class Raises(under(sound, fields=[("grab", "timeout", 0)])):
        ready = False

    def broken(self, *args):
        if not self.ready:
            return getattr(sound, method)(self, *args)
        raise KeyError("ball")

    setattr(Raises, method, broken)
    game = Raises()
    game.ready = True
    found = {fault.rule: fault for fault in check(game, episodes=2)}
    assert "raised KeyError: 'ball'" in found[Rule.RAISES].seen
    assert Rule.TIMEOUT in found


def test_the_command_prints_faults_and_fails(sound, monkeypatch, capsys) -> None:
    game = under(sound, fields=[("grab", "timeout", 0)])
    monkeypatch.setattr("potluck_optionlib.commands.check.make_game", lambda name: game())
    with pytest.raises(SystemExit) as stop:
        cli.main(["check", "toy/hands", "--episodes", "1"])
    assert stop.value.code == 1
    out = capsys.readouterr().out
    assert "timeout: grab.timeout: it is 0. Give a number of primitive steps, at least 1." in out
    assert "toy/hands: 1 faults" in out
    monkeypatch.setattr("potluck_optionlib.commands.check.make_game", lambda name: sound())
    cli.main(["check", "toy/hands", "--episodes", "1"])
    assert "keep every rule" in capsys.readouterr().out


def test_more_option_types_than_letters_are_named():
    many = {f"go{'x' * n}": contract(f"go{'x' * n}") for n in range(30)} | {"wait": contract("wait", ())}
    found = [f for f in static_faults(many, contracts_digest(many.values()), frozenset()) if f.rule is Rule.TOO_MANY]
    assert [fault.seen for fault in found] == ["there are 31 option types, and a menu has 26 letters"]
    assert not [
        f for f in static_faults(SOUND, contracts_digest(SOUND.values()), frozenset()) if f.rule is Rule.TOO_MANY
    ]
