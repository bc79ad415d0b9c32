"""Prompt texts, to the letter."""

from types import SimpleNamespace

import pytest

from potluck.common.v1 import common_pb2
from potluck_policy_server.lm.prompts import chat_prompt, letters_template, words_template

ITEMS = [
    common_pb2.Item(letter="A", word="pot1", text="put the onion in the pot at (4,2)", steps=3),
    common_pb2.Item(letter="B", word="onion1", text="pick up an onion at (0,1)", steps=-1),
    common_pb2.Item(letter="C", word="wait", text="wait", steps=1),
    common_pb2.Item(letter="D", word="dish1", text="pick up a dish at (9,9)", steps=250),
]
PROMPT = common_pb2.Prompt(
    rules="you are seat 0 .\n",
    observation="hold onion\npot1 cook 12",
    memory=["onion1 success 4", "wait timeout 1"],
    items=ITEMS,
)


def test_words_template_is_what_tiny_was_taught():
    cut = words_template().render(PROMPT)
    assert cut.prefix == "you are seat 0 .\n"
    assert cut.suffix == (
        "state\nhold onion\npot1 cook 12\nlast onion1 success 4 ; wait timeout 1\n"
        "menu 3 pot1 , 0 onion1 , 1 wait , 99 dish1\nanswer"
    )


def test_an_empty_memory_is_none():
    prompt = common_pb2.Prompt(rules="r", observation="o", items=ITEMS[:1])
    assert "\nlast none\n" in words_template().render(prompt).suffix


def test_letters_template_without_a_chat_template():
    cut = letters_template(SimpleNamespace(chat_template=None)).render(PROMPT)
    assert cut.prefix == "you are seat 0 .\n\n"
    assert (
        "A) put the onion in the pot at (4,2) (3 steps)\nB) pick up an onion at (0,1)\nC) wait (1 step)\n" in cut.suffix
    )
    assert cut.suffix.endswith("nothing else.\nYour letter:\n")


def test_letters_template_inside_a_chat_template(backbone):
    template = letters_template(backbone._tokenizer)
    cut = template.render(PROMPT)
    assert cut.prefix == "<|im_start|>system\nyou are seat 0 .<|im_end|>\n<|im_start|>user\n"
    assert cut.suffix.startswith("Present state:\nhold onion\n")
    assert cut.suffix.endswith("<|im_end|>\n<|im_start|>assistant\n")


def test_a_chat_template_without_system_messages_gets_the_rules_in_the_user_turn():
    def apply(messages, **_):
        if messages[0]["role"] == "system":
            raise ValueError("no system messages")
        return f"<user>{messages[0]['content']}</user><model>"

    cut = letters_template(SimpleNamespace(chat_template="x", apply_chat_template=apply)).render(PROMPT)
    assert cut.prefix == "<user>you are seat 0 .\n\n"
    assert cut.suffix.endswith("</user><model>")


@pytest.mark.parametrize(("system", "expected"), [("", "hello"), ("be brief", "be brief\n\nhello")])
def test_generation_without_a_chat_template_is_bare(system, expected):
    assert chat_prompt(SimpleNamespace(chat_template=None), system, "hello") == expected


def test_heuristic_values_and_state_keys_are_never_shown():
    prompt = common_pb2.Prompt(rules="r", observation="o", items=[common_pb2.Item(letter="A", word="w", greedy=123.5)])
    prompt.state_key = "secret"
    for template in (words_template(), letters_template(SimpleNamespace(chat_template=None))):
        text = "".join(template.render(prompt))
        assert "123" not in text
        assert "secret" not in text
