"""A tokenizer that reads word by word is asked about words; what comes out is what it gives for the whole text."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

from potluck_policy_server.backbones import registry
from potluck_policy_server.backbones.base import BackboneOptions
from potluck_policy_server.lm.encoding import encoder, remembered

PIECES = ["onion1", "Pot2", " , ", ";", "<unk>", "12", "\n", "\t", "\x1c", "\u00a0", "\u2028", "ΟΔΟΣ", "İ", "é", "🙂"]
TEXTS = st.lists(st.sampled_from(["", " ", *PIECES]), max_size=20).map("".join)


@pytest.fixture(scope="module")
def tiny():
    return registry.load(BackboneOptions("tiny", threads=1))._tokenizer.backend_tokenizer


def whole(tokenizer, text):
    return tuple(tokenizer.encode(text, add_special_tokens=False).ids)


class Counting:
    """A tokenizer that remembers what it was asked."""

    def __init__(self, tokenizer):
        self.tokenizer, self.asked = tokenizer, []

    def __getattr__(self, name):
        return getattr(self.tokenizer, name)

    def encode(self, text, add_special_tokens):
        self.asked.append(text)
        return self.tokenizer.encode(text, add_special_tokens=add_special_tokens)


@settings(max_examples=400, deadline=None)
@given(TEXTS | st.text(max_size=40))
def test_words_one_by_one_give_the_ids_of_the_text(tiny, text):
    assert encoder(tiny)(text) == whole(tiny, text)


def test_each_word_is_asked_once(tiny):
    counting = Counting(tiny)
    read = encoder(counting)
    for _ in range(2):
        assert read("menu 3 onion1\nmenu 3 pot1") == whole(tiny, "menu 3 onion1 menu 3 pot1")
    assert counting.asked == ["menu", "3", "onion1", "pot1"]


def test_long_texts_are_not_remembered():
    asked = []
    read = remembered(lambda text: (asked.append(text), (len(text),))[1], 2, 5)
    for text in ("short", "longer", "short", "longer", "a", "b", "short"):
        assert read(text) == (len(text),)
    assert asked == ["short", "longer", "longer", "a", "b", "short"]  # two are kept, and none above five characters


def built(normalizer=None, pre=None, added=()):
    tokenizer = Tokenizer(models.WordLevel({"<unk>": 0, "a": 1, "b": 2, "▁a": 3}, unk_token="<unk>"))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    if pre is not None:
        tokenizer.pre_tokenizer = pre
    tokenizer.add_tokens(list(added))
    return tokenizer


@pytest.mark.parametrize(
    "tokenizer",
    [
        built(),
        built(pre=pre_tokenizers.Sequence([])),
        built(pre=pre_tokenizers.Metaspace(prepend_scheme="never")),
        built(
            pre=pre_tokenizers.Sequence(
                [pre_tokenizers.Metaspace(prepend_scheme="never"), pre_tokenizers.WhitespaceSplit()]
            )
        ),
        built(normalizers.Replace(" ", "a"), pre_tokenizers.WhitespaceSplit()),
        built(pre=pre_tokenizers.WhitespaceSplit(), added=[AddedToken("a b")]),
    ],
)
def test_a_tokenizer_that_sees_white_space_reads_the_text_whole(tokenizer):
    counting = Counting(tokenizer)
    text = "a b a"
    assert encoder(counting)(text) == whole(tokenizer, text)
    assert counting.asked == [text]
    assert whole(tokenizer, text) != tuple(i for word in text.split(" ") for i in whole(tokenizer, word))
