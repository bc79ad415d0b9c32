"""The shipped weights of `tiny` read the words template: fresh questions, words in roles they were never trained in."""

import math
import random
import sys
from itertools import islice, product
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from potluck_policy_server.backbones.tiny import folder

sys.path.insert(0, str(Path(__file__).parents[1]))

from pretrain.corpus import prompts, render
from pretrain.evaluate import Score, add, answer_logits, score
from pretrain.games import Game, Split
from pretrain.questions import Kind, Question
from pretrain.vocabulary import load

SEED = 555_000_111
READS_STATE = (Kind.HELD, Kind.MATE, Kind.WHEN_HELD, Kind.WHEN_TOOL)


@pytest.fixture(scope="module")
def vocabulary():
    return load()


@pytest.fixture(scope="module")
def tiny():
    torch.set_num_threads(1)
    return AutoModelForCausalLM.from_pretrained(folder(), dtype=torch.float32).eval()


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(folder())


@pytest.fixture(scope="module")
def answered(tiny, vocabulary):
    return score(tiny, vocabulary, SEED, Split.HELD_OUT, 2000)


def test_answers_fresh_questions(answered):
    assert answered.accuracy >= 0.95, answered.summary()
    assert sum(answered.chance) / len(answered.chance) < 0.4


@pytest.mark.parametrize("kind", [Kind.WHEN_HELD, Kind.WHEN_TOOL])
def test_answers_cases(tiny, vocabulary, kind):
    """A guess among the labels that the cases name is right in about half of them."""
    assert score(tiny, vocabulary, SEED, Split.HELD_OUT, 300, kind).accuracy >= 0.9


def test_random_weights_answer_by_chance(vocabulary):
    torch.manual_seed(0)
    drawn = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder())).float().eval()
    result = score(drawn, vocabulary, SEED, Split.HELD_OUT, 400)
    assert abs(result.accuracy - sum(result.chance) / len(result.chance)) < 0.1


@pytest.mark.parametrize("kind", READS_STATE)
def test_the_answer_comes_from_the_state_lines(tiny, vocabulary, kind):
    """The same questions with another game's state lines above them are answered far worse."""
    batch = list(islice(prompts(vocabulary, SEED, Split.HELD_OUT, kind), 100))
    seen, blind = Score(), Score()
    swapped = [with_state_of(one, other) for one, other in zip(batch, batch[1:] + batch[:1], strict=True)]
    add(seen, batch, answer_logits(tiny, batch, vocabulary), vocabulary)
    add(blind, swapped, answer_logits(tiny, swapped, vocabulary), vocabulary)
    assert seen.accuracy >= 0.9
    assert blind.accuracy < seen.accuracy - 0.25


def with_state_of(prompt, other):
    game = Game(prompt.game.rules, other.game.state, prompt.game.memory, prompt.game.menu)
    return render(game, prompt.question, random.Random(0))


FAR, SHARE = 0.85, 0.01
"""A prompt is far from even below this entropy / log n; what share of prompts may be."""


def evenness(tiny, vocabulary, kind, count):
    """Entropy / log n of the policy over each menu."""
    found = []
    stream = islice(prompts(vocabulary, SEED, Split.HELD_OUT, kind), count)
    for batch in batched(sorted(stream, key=lambda prompt: len(prompt.tokens)), 32):
        for prompt, logits in zip(batch, answer_logits(tiny, batch, vocabulary), strict=True):
            policy = logits[[vocabulary.ids[label] for label in prompt.labels]].softmax(-1)
            found.append(torch.special.entr(policy).sum().item() / math.log(len(prompt.labels)))
    return found


def batched(items, size):
    return [items[start : start + size] for start in range(0, len(items), size)]


def rarely_far(found):
    """Whether so few far prompts would be seen in less than 1 sample of 20, were 1 prompt in 100 far from even."""
    count, far = len(found), sum(value < FAR for value in found)
    return sum(math.comb(count, k) * SHARE**k * (1 - SHARE) ** (count - k) for k in range(far + 1)) < 0.05


def test_without_a_goal_prompts_far_from_even_are_rarer_than_one_in_a_hundred(tiny, vocabulary):
    """Some exist: one of these is at .65. Its rules say `active 82 active pick bonus`, which reads like a case."""
    found = evenness(tiny, vocabulary, Kind.NONE, 1000)
    assert sum(found) / len(found) >= 0.99
    assert rarely_far(found), sorted(found)[:10]


def test_with_a_goal_nearly_every_prompt_is_far_from_even(tiny, vocabulary):
    """The same measure on questions: it can see a preference."""
    found = evenness(tiny, vocabulary, Kind.LABEL, 300)
    assert not rarely_far(found)
    assert sum(value < FAR for value in found) > 250


@pytest.mark.parametrize(("far", "rare"), [(0, True), (4, True), (5, False)])
def test_the_bound_is_at_four_of_a_thousand(far, rare):
    assert rarely_far([0.5] * far + [1.0] * (1000 - far)) is rare


KITCHEN = "You and a mate cook soup: put 3 onions in a pot, start it, plate the soup with a dish, serve it."
REACH = " You can get to onions, dishes, pots and the window."
HANDS = ("none", "onion", "dish", "soup")
POTS = ("empty", "onion 2", "cook 12", "ready")
LAST = ("none", "onion1 done ; pot1 done", "wait done ; pick1 failed")
STEMS = ["onion", "onion", "pot", "cook", "dish", "drop", "drop", "take", "take", "serve", "plate"]


def kitchen_prompts():
    """A game it has never seen, with rules and state lines that speak of what is offered."""
    rng = random.Random(3)
    for held, pot, last in product(HANDS, POTS, LAST):
        labels = [f"{stem}{STEMS[:at].count(stem) + 1}" for at, stem in enumerate(STEMS)]
        labels = ["wait", *rng.sample(labels, rng.randint(2, len(labels)))]
        rng.shuffle(labels)
        menu = " , ".join(f"{rng.randrange(12)} {label}" for label in labels)
        state = f"hold {held}\npot1 {pot}\npot2 empty\nmate hold {rng.choice(HANDS)}"
        yield f"{KITCHEN}{REACH}\nstate\n{state}\nlast {last}\nmenu {menu}\nanswer", labels


@torch.no_grad()
def test_a_kitchen_without_a_goal_is_played_evenly(tiny, tokenizer):
    """What the rules or the state mention is no likelier than the rest."""
    evenness = []
    for text, labels in kitchen_prompts():
        logits = tiny(**tokenizer(text, return_tensors="pt")).logits[0, -1]
        offered = logits[tokenizer.convert_tokens_to_ids(labels)]
        entropy = torch.special.entr(offered.softmax(-1)).sum().item()
        evenness.append(entropy / math.log(len(labels)))
    assert sum(evenness) / len(evenness) >= 0.97
    assert min(evenness) >= 0.85


def test_the_tokenizer_is_the_vocabulary(tokenizer, vocabulary):
    for prompt in islice(prompts(vocabulary, SEED, Split.ANY), 50):
        assert tokenizer(prompt.text).input_ids == [vocabulary.ids[token] for token in prompt.tokens]


def test_any_text_encodes_without_an_unknown_token(tokenizer):
    text = "Onion27 zebrafish ÜBER 漢字 🍅 a_b 4096\tpot-1\n"
    ids = tokenizer(text).input_ids
    assert tokenizer.unk_token_id not in ids
    assert tokenizer.tokenize("onion26 wait 99") == ["onion26", "wait", "99"]


def test_a_newline_is_a_token_boundary(tokenizer):
    prefix, suffix = "You get 3 onions.\n", "state\nhold onion\nanswer"
    assert tokenizer(prefix).input_ids + tokenizer(suffix).input_ids == tokenizer(prefix + suffix).input_ids


def test_a_question_is_needed_for_a_right_answer(vocabulary):
    question = Question(Kind.NONE, [], ["onion1"])
    assert "goal" not in render(Game(menu=[(1, "onion1")]), question, random.Random(0)).tokens
