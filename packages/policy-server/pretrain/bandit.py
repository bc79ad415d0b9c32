"""A throw-away check that LoRA can make the frozen model act on what it reads: a made-up contextual bandit.

The right family of labels depends on two state lines, the held thing and the forges' states. Rewards alone teach it
(PPO, two epochs per update). Prints the mean reward per update for the shipped weights and for random ones.
"""

import argparse
import random
import time
from pathlib import Path
from typing import Any, cast

import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM

from pretrain.corpus import ABSENT, MOST, padded
from pretrain.report import say
from pretrain.vocabulary import Vocabulary, load

RULES = "you carry coin to the forge ; heat it for 20 steps ; bring the bell to the tower . points for each bell ."
FAMILIES = ("coin", "forge", "fire", "bell", "tower", "basket", "rope")
CLIP, ENTROPY = 0.2, 0.01


def draw(rng: random.Random) -> tuple[str, list[str], str]:
    """A prompt, its labels, and the family that earns the reward."""
    held = rng.choice(("none", "coin", "bell", "rope"))
    forges = [rng.choice(("empty", "hot 12", "ready", "full")) for _ in range(2)]
    if held == "none":
        right = "bell" if any(state == "ready" for state in forges) else "fire" if "full" in forges else "coin"
    else:
        right = {"coin": "basket" if "empty" not in forges else "forge", "bell": "tower", "rope": "rope"}[held]
    families = {right, *rng.sample(FAMILIES, rng.randint(2, 6))}
    labels = [f"{stem}{n + 1}" for stem in families for n in range(rng.choice((1, 1, 2)))] + ["wait"]
    rng.shuffle(labels)
    state = [f"hold {held}", f"mate hold {rng.choice(('none', 'coin', 'bell'))}"]
    state += [f"forge{i + 1} {forge}" for i, forge in enumerate(forges)]
    state += [f"shared coin {rng.randrange(3)} bell {rng.randrange(2)}"]
    memory = " ; ".join(f"{rng.choice(FAMILIES)}1 done {rng.randrange(20)}" for _ in range(3))
    menu = " , ".join(f"{rng.randrange(15)} {label}" for label in labels)
    return "\n".join([RULES, "state", *state, f"last {memory}", f"menu {menu}", "answer"]), labels, right


class Learner:
    """One LoRA adapter on a frozen body, with the softmax restricted to the offered labels."""

    def __init__(self, model: Any, vocabulary: Vocabulary, lr: float) -> None:
        self.ids = vocabulary.ids
        self.head: Tensor = model.get_output_embeddings().weight.detach()
        config = LoraConfig(r=16, lora_alpha=32, target_modules="all-linear")
        self.peft = cast(Any, get_peft_model(model, config))
        self.core: Any = self.peft.base_model.model.model
        self.weights = [weight for weight in self.peft.parameters() if weight.requires_grad]
        self.adam = torch.optim.AdamW(self.weights, lr=lr, weight_decay=0.0)

    def logp(self, texts: list[str], menus: list[list[str]]) -> Tensor:
        """Log-probabilities over each menu, padded with -1e9."""
        ids = padded([[self.ids[token] for token in text.split()] for text in texts])
        last = (ids != ABSENT).sum(-1) - 1
        hidden = self.core(input_ids=ids.clamp(min=0), use_cache=False).last_hidden_state
        final = hidden[torch.arange(len(ids)), last]
        offered = padded([[self.ids[label] for label in menu] for menu in menus], MOST)
        logits = torch.einsum("bd,bnd->bn", final, self.head[offered.clamp(min=0)])
        return logits.masked_fill(offered == ABSENT, -1e9).log_softmax(-1)

    def update(self, rng: random.Random, count: int, size: int = 100) -> tuple[float, float]:
        """Sample, reward, two PPO epochs; returns mean reward and the seconds one epoch took."""
        texts, menus, goals = (list(part) for part in zip(*(draw(rng) for _ in range(count)), strict=True))
        with torch.no_grad():
            chunks = [self.logp(texts[i : i + size], menus[i : i + size]) for i in range(0, count, size)]
        old = torch.cat(chunks)
        act = torch.multinomial(old.exp(), 1)[:, 0]
        names = [menu[int(a)].rstrip("0123456789") for menu, a in zip(menus, act, strict=True)]
        reward = torch.tensor([float(name == goal) for name, goal in zip(names, goals, strict=True)])
        gain, begun = (reward - reward.mean()) / reward.std().clamp(min=0.05), time.perf_counter()
        for _ in range(2):
            order = torch.randperm(count)
            for part in torch.split(order, size):
                self.step([texts[i] for i in part], [menus[i] for i in part], act[part], old[part], gain[part])
        return reward.mean().item(), (time.perf_counter() - begun) / 2

    def step(self, texts: list[str], menus: list[list[str]], act: Tensor, old: Tensor, gain: Tensor) -> None:
        """One clipped step."""
        new = self.logp(texts, menus)
        rows = torch.arange(len(texts))
        ratio = (new[rows, act] - old[rows, act]).exp()
        entropy = -(new.exp() * new.clamp(min=-50)).sum(-1).mean()
        loss = -torch.min(ratio * gain, ratio.clamp(1 - CLIP, 1 + CLIP) * gain).mean() - ENTROPY * entropy
        self.adam.zero_grad()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(self.weights, 1.0)
        self.adam.step()


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--updates", type=int, default=15)
    parser.add_argument("--count", type=int, default=600)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--random", action="store_true", help="start from random weights")
    options = parser.parse_args()
    torch.manual_seed(0)
    causal: Any = AutoModelForCausalLM
    if options.random:
        model = causal.from_config(AutoConfig.from_pretrained(options.folder))
    else:
        model = causal.from_pretrained(options.folder, dtype=torch.float32)
    learner, rng = Learner(model, load(), options.lr), random.Random(0)
    for update in range(options.updates):
        reward, seconds = learner.update(rng, options.count)
        say({"update": update, "reward": round(reward, 3), "epoch_seconds": round(seconds, 1)})


if __name__ == "__main__":
    main()
