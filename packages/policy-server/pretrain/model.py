"""The decoder in training: a stock Qwen3 body with a factorised embedding and throw-away probes.

A label's vector is its stem's word vector plus its ordinal's vector plus a small part of its own, so a family shares a
direction and 2,500 labels learn from every occurrence of a stem. Export writes the sum as an ordinary tied embedding.
The probes read held items, tool states and the like off the hidden state that enters the last layer at `answer`; they
make the state readable there even when no goal asks for it, and are dropped at export.
"""

import math
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import Qwen3Config, Qwen3ForCausalLM

from pretrain.corpus import PROBES, Rows
from pretrain.forward import final_states
from pretrain.heads import Shared, drawn, plant_heads
from pretrain.vocabulary import CONTEXT, ORDINALS, SPECIAL, Vocabulary

EMBEDDING_STD = 0.15
ROPE_THETA = 1e6
LOGIT_GAIN = 4.0


class Shape(NamedTuple):
    """Size of the decoder."""

    hidden: int = 96
    layers: int = 3
    heads: int = 4
    width: int = 32
    inner: int = 96


def config_for(vocabulary: Vocabulary, shape: Shape) -> Qwen3Config:
    """A plain Qwen3 configuration of this size."""
    return Qwen3Config(
        vocab_size=len(vocabulary.tokens),
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        head_dim=shape.width,
        intermediate_size=shape.inner,
        max_position_embeddings=CONTEXT,
        rope_parameters={"rope_type": "default", "rope_theta": ROPE_THETA},
        tie_word_embeddings=True,
        pad_token_id=SPECIAL.index("<pad>"),
        bos_token_id=SPECIAL.index("<bos>"),
        eos_token_id=SPECIAL.index("<eos>"),
        dtype="float32",
    )


def _number_features() -> Tensor:
    """What orders the numbers; beside it each has a strong part of its own, so that 7 is not 8."""
    n = torch.arange(100.0)
    return torch.stack([2 * torch.log1p(n) / 4.62 - 1, n / 50 - 1], dim=1)


class FactorisedEmbedding(nn.Module):
    """Word vectors, ordinal vectors and each label's own small part."""

    def __init__(self, vocabulary: Vocabulary, hidden: int) -> None:
        super().__init__()
        first, stems = vocabulary.labels_from, vocabulary.stems

        def draw(*sizes: int, size: float = 1.0) -> Tensor:
            return drawn(*sizes, std=EMBEDDING_STD * size, hidden=hidden)

        words, ids = draw(first), vocabulary.ids
        common, label, goal, near = (draw(size=size) for size in (0.7, 0.8, 1.6, 1.0))
        features = draw(2)
        for word in ("answer", "choose"):
            words[ids[word]] = words[ids[word]] / 2 + goal
        for word in ("hold", "carry", "hand"):
            words[ids[word]] = 0.5 * words[ids[word]] + words[ids["holding"]]
        words[ids["nearest"]] += near
        words[ids["farthest"]] -= near
        numbers = ids["0"]
        words[numbers : numbers + 100] += _number_features() @ features
        named = (words[ids[word]].clone() for word in ("choose", "holding", "mate", "when", "pick", "state"))
        self.words = nn.Parameter(words + common)
        self.shared = Shared(common, label, goal, near, features, *named)
        self.ordinals = nn.Parameter(label + draw(len(ORDINALS), size=0.7))
        self.own = nn.Parameter(draw(len(stems) * len(ORDINALS), size=0.1))
        self.stem_ids: Tensor
        self.register_buffer("stem_ids", torch.tensor([vocabulary.ids[stem] for stem in stems]))

    def forward(self) -> Tensor:
        """The whole table, one row per token."""
        stems = self.words[self.stem_ids][:, None] + self.ordinals[None]
        return torch.cat([self.words, stems.flatten(0, 1) + self.own])


class Pupil(nn.Module):
    """Body, embedding and probes."""

    def __init__(self, vocabulary: Vocabulary, shape: Shape) -> None:
        super().__init__()
        self.causal = Qwen3ForCausalLM(config_for(vocabulary, shape))
        self.labels_from = vocabulary.labels_from
        self.log_labels = math.log(len(vocabulary.tokens) - vocabulary.labels_from)
        self.embedding = FactorisedEmbedding(vocabulary, shape.hidden)
        self.probes = nn.ModuleList(nn.Linear(shape.hidden, shape.hidden, bias=False) for _ in PROBES)
        for name, weight in self.causal.model.named_parameters():
            if weight.dim() == 2 and "embed" not in name:
                inward = "o_proj" in name or "down_proj" in name
                nn.init.normal_(weight, std=0.006 if inward else 0.5 * weight.shape[1] ** -0.5)
        nn.init.constant_(self.causal.model.norm.weight, LOGIT_GAIN)
        for probe in self.probes:
            nn.init.normal_(probe.get_parameter("weight"), std=LOGIT_GAIN * shape.hidden**-0.5)
        plant_heads(self.causal.model, self.embedding.shared)

    def body(self) -> list[nn.Parameter]:
        """Parameters of the decoder, its embedding table left out."""
        return [weight for name, weight in self.causal.model.named_parameters() if "embed" not in name]

    def forward(self, rows: Rows) -> tuple[Tensor, Tensor, Tensor]:
        """Final hidden states at the picked columns, the table, and what enters the last layer there, normalised."""
        table = self.embedding()
        out, entering = final_states(self.causal.model, functional.embedding(rows.ids, table), rows)
        return out, table, functional.rms_norm(entering, entering.shape[-1:])

    @torch.no_grad()
    def export(self, folder: Path) -> None:
        """Write the plain tied model."""
        self.causal.model.embed_tokens.weight.copy_(self.embedding())
        self.causal.tie_weights()
        self.causal.save_pretrained(folder)
