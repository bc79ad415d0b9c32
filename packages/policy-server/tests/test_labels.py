"""Label tokens in context (cases 21 and 22), and the exact trie policy against enumeration."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from potluck.common.v1 import common_pb2
from potluck.decoder import trie
from potluck_policy_server.errors import LabelsUnsupported
from potluck_policy_server.lm.labels import Reader, letters_in_context
from potluck_policy_server.lm.prompts import letters_template, words_template


def word_level(vocabulary, **fields):
    words = {word: i for i, word in enumerate(["<unk>", "<bos>", *vocabulary])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if "normalizer" in fields:
        tokenizer.normalizer = fields.pop("normalizer")
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", **fields)


def items(*words):
    return [common_pb2.Item(letter=chr(65 + i), word=word) for i, word in enumerate(words)]


def test_letters_are_single_and_distinct_in_context(backbone):
    letters = backbone.description.letters
    assert [label for label, _ in letters] == list("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    assert len({token for _, token in letters}) == 26
    reader = Reader(backbone._tokenizer, letters_template(backbone._tokenizer))
    whole = reader.ids(reader.template.tail + "B")
    assert whole[-1] == dict(letters)["B"]


def test_a_space_before_the_letter_is_another_token(backbone):
    spaced = backbone._tokenizer(" A", add_special_tokens=False).input_ids
    assert spaced != [dict(backbone.description.letters)["A"]]


def test_a_tokenizer_that_folds_case_reads_two_labels_as_one():
    tokenizer = word_level(["answer", "a"], normalizer=normalizers.Lowercase())
    reader = Reader(tokenizer, words_template())
    with pytest.raises(LabelsUnsupported, match="read the same"):
        reader.paths(items("a", "A"))
    assert reader.paths(items("a")) == ((3,),)


def test_an_unknown_word_is_refused_by_name():
    reader = Reader(word_level(["answer", "onion1", "wait"]), words_template())
    assert reader.paths(items("onion1", "wait")) == ((3,), (4,))
    with pytest.raises(LabelsUnsupported, match="'kettle7' is not in this tokenizer's vocabulary"):
        reader.paths(items("onion1", "kettle7"))


def test_letters_that_take_two_tokens_are_refused():
    vocabulary = ["answer", *"ABCDEFGHIJKLMNOPQRSTUVWXY"]
    tokenizer = word_level(vocabulary)
    reader = Reader(tokenizer, letters_template(SimpleNamespace(chat_template=None)))
    with pytest.raises(LabelsUnsupported, match=r"not one token after the prompt: Z"):
        letters_in_context(reader)
    assert letters_in_context(
        Reader(word_level([*vocabulary, "Z"]), letters_template(SimpleNamespace(chat_template=None)))
    )


def test_a_cut_inside_a_token_is_found_at_load(backbone):
    template = words_template()
    import dataclasses

    broken = dataclasses.replace(template, between="", body=lambda prompt: "tate" + template.body(prompt), before="s")
    # "...12" + "tate": digits split, so break inside a word instead.
    broken = dataclasses.replace(broken, between=" onio", body=lambda prompt: "n1 " + template.body(prompt))
    with pytest.raises(LabelsUnsupported, match="no token boundary"):
        Reader(backbone._tokenizer, broken)


def test_a_begin_mark_comes_once():
    from tokenizers import processors

    tokenizer = word_level(["answer", "r"], bos_token="<bos>")
    assert Reader(tokenizer, words_template()).prefix_ids("r") == (3,)
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos> $A", special_tokens=[("<bos>", 1)]
    )
    assert Reader(tokenizer, words_template()).prefix_ids("r") == (1, 3)


paths_strategy = st.lists(
    st.lists(st.integers(0, 3), min_size=1, max_size=4).map(tuple), min_size=1, max_size=12, unique=True
).map(lambda paths: [p for p in paths if not any(p != q and p == q[: len(p)] for q in paths)])


@settings(deadline=None, max_examples=60)
@given(paths_strategy, st.floats(0.2, 3), st.randoms(use_true_random=False))
def test_trie_policy_equals_enumeration(paths, temperature, r):
    built = trie.build(tuple(paths))
    logits = {}

    def at(stem):
        return logits.setdefault(stem, np.array([r.uniform(-5, 5) for _ in range(4)]))

    stems = [()]
    for token, parent in zip(built.tokens, built.parents, strict=True):
        stems.append((*stems[parent], token))
    rows = [at(stems[branch.node])[list(branch.children)] for branch in built.branches]
    ours = trie.label_logprobs(built, rows, temperature)

    def step(stem, token):
        children = sorted({p[len(stem)] for p in paths if p[: len(stem)] == stem})
        weights = np.exp(at(stem)[children] / temperature)
        return weights[children.index(token)] / weights.sum()

    expected = [np.prod([step(p[:d], p[d]) for d in range(len(p))]) for p in paths]
    np.testing.assert_allclose(np.exp(ours), expected, rtol=1e-9)
    assert np.exp(ours).sum() == pytest.approx(1)
    assert [len(stem) for stem in stems[1:]] == list(built.depths)


def test_a_label_that_starts_another_is_no_trie():
    with pytest.raises(ValueError, match="start of another"):
        trie.build(((1,), (1, 2)))
    for order in itertools.permutations([(1, 9), (1, 2), (3,)]):
        assert len(trie.build(order).branches) == 2


def test_one_label_is_certain():
    built = trie.build(((5, 6),))
    assert (built.branches, built.first_tokens) == ((), (5,))
    assert trie.label_logprobs(built, [], 0.5).tolist() == [0.0]
