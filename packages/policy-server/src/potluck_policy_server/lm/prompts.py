"""How a `Prompt` becomes text, for each label scheme.

A template cuts the text in two: a prefix that depends on the rules alone, read once per adapter, and a suffix that
changes with every decision. The label follows the suffix. Two templates exist:

words    what `tiny` is pre-trained on: bare lines, ending in "answer".
letters  instruct style, inside the tokenizer's chat template where it has one, ending where the reply begins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from potluck.common.v1 import common_pb2
from potluck_policy_server.backbones.base import LETTERS, WORDS, Scheme

_RULES, _USER = "\x02RULES\x02", "\x02USER\x02"
MOST_STEPS = 99


class Cut(NamedTuple):
    """A prompt as text."""

    prefix: str
    suffix: str


@dataclass(frozen=True, slots=True)
class Template:
    """The text around a prompt's parts."""

    scheme: Scheme
    before: str
    between: str
    after: str
    body: Callable[[common_pb2.Prompt], str]
    label_lead: str
    """What stands between the suffix and the label, e.g. a space after "answer"."""
    terminators: tuple[str, ...] = ("\n", " ,")
    """What may end a label that is the start of another one; the first that the tokenizer sees is used."""

    def render(self, prompt: common_pb2.Prompt) -> Cut:
        """Prefix and suffix."""
        return Cut(f"{self.before}{prompt.rules.strip()}{self.between}", f"{self.body(prompt)}{self.after}")

    @property
    def tail(self) -> str:
        """The end of every suffix, enough to find a label's tokens in context."""
        return self.after

    def label(self, item: common_pb2.Item) -> str:
        """The item's name under the scheme."""
        return item.letter if self.scheme == LETTERS else item.word

    def describe(self) -> str:
        """The template as text, for the tokenizer's digest."""
        example = EXAMPLES[0]
        return "\x00".join((str(self.scheme), *self.render(example), self.label_lead, *self.terminators))


def words_template() -> Template:
    """The compact template of the words scheme."""
    return Template(WORDS, "", "\n", "\nanswer", _words_body, " ")


def letters_template(tokenizer: Any) -> Template:
    """The instruct template, inside the tokenizer's chat template if it has one."""
    if getattr(tokenizer, "chat_template", None):
        text = _chat_text(tokenizer)
        before, rest = text.split(_RULES)
        between, after = rest.split(_USER)
        return Template(LETTERS, before, between, after, _letters_body, "")
    return Template(LETTERS, "", "\n\n", "\nYour letter:\n", _letters_body, "")


def letters_messages(prompt: common_pb2.Prompt) -> list[dict[str, str]]:
    """The letters prompt as chat messages, for models that render their own template."""
    return [{"role": "system", "content": prompt.rules.strip()}, {"role": "user", "content": _letters_body(prompt)}]


def chat_prompt(tokenizer: Any, system: str, user: str) -> str:
    """A chat turn as text, for Generate; bare text where the tokenizer has no chat template."""
    if not getattr(tokenizer, "chat_template", None):
        return f"{system}\n\n{user}" if system else user
    messages = [{"role": "system", "content": system}] if system else []
    return _apply(tokenizer, [*messages, {"role": "user", "content": user}])


def _chat_text(tokenizer: Any) -> str:
    try:
        messages = [{"role": "system", "content": _RULES}, {"role": "user", "content": _USER}]
        text = _apply(tokenizer, messages)
    except Exception:  # a template without system messages raises whatever its author chose
        text = ""
    if text.count(_RULES) == 1 and text.count(_USER) == 1:
        return text
    return _apply(tokenizer, [{"role": "user", "content": f"{_RULES}\n\n{_USER}"}])


def _apply(tokenizer: Any, messages: list[dict[str, str]]) -> str:
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, enable_thinking=False)
    return str(text)


def _words_body(prompt: common_pb2.Prompt) -> str:
    last = " ; ".join(" ".join(entry.split()) for entry in prompt.memory) or "none"
    menu = " , ".join(f"{min(max(item.steps, 0), MOST_STEPS)} {item.word}" for item in prompt.items)
    return f"state\n{prompt.observation.strip()}\nlast {last}\nmenu {menu}"


def _letters_body(prompt: common_pb2.Prompt) -> str:
    memory = "\n".join(f"- {' '.join(entry.split())}" for entry in prompt.memory) or "- none"
    menu = "\n".join(f"{item.letter}) {item.text}{_distance(item.steps)}" for item in prompt.items)
    return (
        f"Present state:\n{prompt.observation.strip()}\n"
        f"Your last options, oldest first:\n{memory}\n"
        f"Options:\n{menu}\n"
        "Answer with the letter of the best option and nothing else."
    )


def _distance(steps: int) -> str:
    if steps < 0:
        return ""
    return f" ({steps} step)" if steps == 1 else f" ({steps} steps)"


def _example(rules: str, observation: str, memory: list[str], words: list[str]) -> common_pb2.Prompt:
    items = [
        common_pb2.Item(letter=chr(65 + i), word=word, option=word, text=f"go to the {word}", steps=i)
        for i, word in enumerate(words)
    ]
    return common_pb2.Prompt(rules=rules, observation=observation, memory=memory, items=items)


EXAMPLES = (
    _example("you are seat 0 of 2 .\ngoal soups .", "hold onion\npot1 cook 12", ["onion1 success 4"], ["pot1", "wait"]),
    _example("Rules: pick one.", "hold none", [], ["onion1", "onion2", "wait"]),
    _example("(a rule that ends in a number 12", "shared onion 1 dish 0", ["wait success 1"] * 5, ["wait"]),
)
"""Prompts that are used at load to check where the tokenizer may be cut."""
