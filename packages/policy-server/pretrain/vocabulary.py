"""The vocabulary of `tiny`: whole words, menu labels, the numbers 0..99, and letters and bytes for everything else.

Text is lower-cased and split at white space and punctuation only, so `onion3` reaches the model as one piece and is
one token if `onion` is a stem. Newlines are white space: a prompt may be cut after any of them. What is no word of
the list falls apart into known words, letters and, for other characters, UTF-8 bytes; nothing becomes `<unk>`.
"""

from pathlib import Path
from typing import Any, NamedTuple

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

WORDS = Path(__file__).parent / "words"
ORDINALS = range(1, 27)
SPECIAL = ("<pad>", "<unk>", "<bos>", "<eos>")
PUNCTUATION = tuple("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
LETTERS = tuple("abcdefghijklmnopqrstuvwxyz")
CONTEXT = 1024
WORD_COST, PIECE_COST, LETTER_COST = -1.0, -4.0, -12.0


def _read(name: str) -> list[str]:
    return sorted(set((WORDS / f"{name}.txt").read_text().split()))


class Vocabulary(NamedTuple):
    """Tokens in id order, and the word lists they come from."""

    tokens: tuple[str, ...]
    ids: dict[str, int]
    nouns: tuple[str, ...]
    verbs: tuple[str, ...]
    others: tuple[str, ...]
    stems: tuple[str, ...]

    @property
    def labels_from(self) -> int:
        """Id of the first label; labels are ordered by stem, then by ordinal, up to the end of the vocabulary."""
        return len(self.tokens) - len(self.stems) * len(ORDINALS)


def load() -> Vocabulary:
    """Build the vocabulary from the word lists; the order never depends on anything else."""
    nouns, verbs, others, stems = (_read(name) for name in ("nouns", "verbs", "others", "stems"))
    letters = list(LETTERS)
    words = sorted({*nouns, *verbs, *others, *stems} - set(letters))
    byte_tokens = [f"<0x{value:02X}>" for value in range(256)]
    numbers = [str(value) for value in range(100)]
    labels = [f"{stem}{ordinal}" for stem in stems for ordinal in ORDINALS]
    tokens = (*SPECIAL, *byte_tokens, *PUNCTUATION, *letters, *numbers, *words, *labels)
    ids = {token: index for index, token in enumerate(tokens)}
    if len(ids) != len(tokens):
        raise ValueError("two tokens are spelt alike")
    return Vocabulary(tokens, ids, tuple(nouns), tuple(verbs), tuple(others), tuple(stems))


def _cost(token: str, vocabulary: Vocabulary) -> float:
    if token in LETTERS or (token.isdigit() and len(token) == 1):
        return LETTER_COST
    return WORD_COST if vocabulary.ids[token] >= vocabulary.labels_from else PIECE_COST


def build_tokenizer(vocabulary: Vocabulary) -> PreTrainedTokenizerFast:
    """A fast tokenizer whose cheapest segmentation is the whole word or label where there is one."""
    pieces = [(token, _cost(token, vocabulary)) for token in vocabulary.tokens]
    core = Tokenizer(models.Unigram(pieces, unk_id=SPECIAL.index("<unk>"), byte_fallback=True))
    core.normalizer = normalizers.Lowercase()
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("isolated")]
    )
    fast: Any = PreTrainedTokenizerFast
    tokenizer: PreTrainedTokenizerFast = fast(
        tokenizer_object=core,
        pad_token="<pad>",
        unk_token="<unk>",
        bos_token="<bos>",
        eos_token="<eos>",
        model_max_length=CONTEXT,
        padding_side="right",
        clean_up_tokenization_spaces=False,
    )
    return tokenizer
