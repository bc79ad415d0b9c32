"""Checks of answers: exact distributions, in order, sampled by the decision's seed alone, naming their makers."""

from __future__ import annotations

import asyncio
import math

import numpy as np

from potluck.policy.v1 import policy_service_pb2 as pb
from potluck_policy_server.backbones.base import MAX_ITEMS
from potluck_policy_server.conformance.peer import FROZEN, Broken, Peer, decision

_Z_ONE_IN_A_MILLION = 4.75


async def describes_itself(peer: Peer) -> str:
    """Kind, digests, label schemes and limits are there and fit together."""
    one = peer.described
    if one.kind not in (pb.BACKBONE_KIND_CAUSAL_LM, pb.BACKBONE_KIND_TABLE, pb.BACKBONE_KIND_FIXED):
        raise Broken(f"the backbone's kind is {one.kind}")
    for name, digest in (("base_digest", one.base_digest), ("tokenizer_digest", one.tokenizer_digest)):
        if (digest or name == "base_digest") and not _is_sha256(digest):
            raise Broken(f"{name} is {digest!r}, not a sha256 in hexadecimal digits")
    if one.kind == pb.BACKBONE_KIND_CAUSAL_LM and not one.tokenizer_digest:
        raise Broken("a language model without a tokenizer_digest")
    if one.label_scheme not in one.label_schemes:
        raise Broken("the default label scheme is none of those that are offered")
    if one.max_batch < 1:
        raise Broken("max_batch is 0")
    return f"{one.backbone}, {pb.BackboneKind.Name(one.kind)}, at most {one.max_batch} decisions"


async def distributions_hold(peer: Peer) -> str:
    """Menus of 1 to 26 items: one probability each, all sum to 1, and the chosen item is described rightly."""
    asked = [decision(items, items) for items in range(1, MAX_ITEMS + 1)]
    for number, (question, choice) in enumerate(zip(asked, await peer.choose(asked), strict=True)):
        where, items = f"a menu of {number + 1}", question.prompt.items
        if len(choice.probabilities) != len(items):
            raise Broken(f"{where} got {len(choice.probabilities)} probabilities")
        if not all(0 <= p <= 1 for p in choice.probabilities) or abs(sum(choice.probabilities) - 1) > 1e-6:
            raise Broken(f"{where}: probabilities {list(choice.probabilities)} are no distribution")
        if choice.index >= len(items) or choice.letter != items[choice.index].letter:
            raise Broken(f"{where}: letter {choice.letter!r} is not item {choice.index}")
        if not math.isclose(math.exp(choice.logprob), choice.probabilities[choice.index], rel_tol=1e-5, abs_tol=1e-9):
            raise Broken(f"{where}: logprob {choice.logprob} is not that of the chosen item")
        if not (math.isnan(choice.label_mass) or 0 <= choice.label_mass <= 1 + 1e-3):
            raise Broken(f"{where}: label_mass is {choice.label_mass}")
    return f"{len(asked)} menus"


async def replies_name_their_makers(peer: Peer) -> str:
    """Base and tokenizer as Describe says; an answer of a builtin names it and no adapter; prompts have digests."""
    kinds = (pb.BUILTIN_POLICY_FROZEN, pb.BUILTIN_POLICY_UNIFORM, pb.BUILTIN_POLICY_SCRIPTED)
    asked = [decision(seed, policy=pb.Policy(builtin=kind)) for seed, kind in enumerate(kinds)]
    asked += [decision(0, draw=9), decision(7)]
    reply = await peer.ask(asked[: peer.largest])
    one = peer.described
    if (reply.base_digest, reply.tokenizer_digest) != (one.base_digest, one.tokenizer_digest):
        raise Broken("a reply names another base or tokenizer than Describe")
    for question, choice in zip(asked, reply.choices, strict=False):
        if choice.adapter_digest or choice.builtin != question.policy.builtin:
            raise Broken(
                f"builtin {question.policy.builtin} was answered by {choice.builtin}, {choice.adapter_digest!r}"
            )
        if not _is_sha256(choice.prompt_digest):
            raise Broken(f"prompt_digest is {choice.prompt_digest!r}")
    if len(reply.choices) == len(asked):
        first, again, other = (reply.choices[place].prompt_digest for place in (0, 3, 4))
        if first != again or first == other:
            raise Broken("prompt_digest does not name the prompt")
    return f"{len(reply.choices)} answers"


async def batches_answer_as_singles(peer: Peer) -> str:
    """A decision's answer does not depend on its place, nor on what else is asked, nor on who asks at the same time."""
    asked = [decision(seed, 2 + seed % 9) for seed in range(peer.plan.decisions)]
    together = await peer.choose(asked)
    back = (await peer.choose(asked[::-1]))[::-1]
    alone = [reply[0] for reply in await asyncio.gather(*(peer.choose([one]) for one in asked))]
    for seed, (a, b, c) in enumerate(zip(together, back, alone, strict=True)):
        for other in (b, c):
            if (worst := _apart(a, other)) > peer.tolerance:
                raise Broken(f"decision {seed} moved by {worst:.2g} with its batch")
    return f"{len(asked)} decisions, three ways"


async def seeds_decide_samples(peer: Peer) -> str:
    """The same decision and seed give the same letter at any time, in any batch; another seed may give another."""
    asked = [decision(1, 6, temperature=3.0, draw=draw) for draw in range(peer.plan.decisions)]
    once, again = await peer.choose(asked), await peer.choose(asked[::-1])
    differing = sum(a.index != b.index for a, b in zip(once, again[::-1], strict=True))
    if differing > (len(asked) // 4 if peer.tolerance > 0.01 else 0):
        raise Broken(f"{differing} of {len(asked)} samples changed with the same seed")
    spread = max(once[0].probabilities) < 0.7
    many = await peer.choose([decision(1, 6, temperature=3.0, draw=draw) for draw in range(40)])
    if spread and len({one.index for one in many}) == 1:
        raise Broken("40 seeds gave one letter")
    return f"{len(asked)} seeds twice"


async def samples_follow_the_distribution(peer: Peer) -> str:
    """Letters come as often as their probabilities say (chi-squared, one in a million)."""
    asked = [decision(4, 5, temperature=2.0, draw=draw) for draw in range(peer.plan.samples)]
    replies = await peer.choose(asked)
    expected = np.array(replies[0].probabilities) * len(asked)
    counts = np.bincount([reply.index for reply in replies], minlength=len(expected))
    few = expected < 5
    groups = [(expected[i], counts[i]) for i in np.flatnonzero(~few)]
    if few.any():
        groups.append((expected[few].sum(), counts[few].sum()))
    statistic = sum((n - e) ** 2 / e for e, n in groups if e > 0)
    limit = _chi_squared_limit(max(len(groups) - 1, 1))
    if statistic > limit or any(n and not e for e, n in groups):
        raise Broken(
            f"letters {counts.tolist()} for expected {expected.round(1).tolist()} (chi-squared {statistic:.0f})"
        )
    return f"{len(asked)} samples, chi-squared {statistic:.1f} of at most {limit:.1f}"


async def greedy_takes_the_best(peer: Peer) -> str:
    """greedy = true gives the most probable item, the first among equals, whatever the seed."""
    asked = [decision(seed % 4, 6, temperature=3.0, draw=seed, greedy=True) for seed in range(2 * peer.plan.decisions)]
    asked += [decision(2, 5, pb.Policy(builtin=pb.BUILTIN_POLICY_UNIFORM), draw=d, greedy=True) for d in range(8)]
    for choice in await peer.choose(asked):
        best = max(range(len(choice.probabilities)), key=lambda i: choice.probabilities[i])
        if choice.index != best:
            raise Broken(f"greedy took item {choice.index} of {list(choice.probabilities)}")
    return f"{len(asked)} greedy choices"


async def temperature_sharpens(peer: Peer) -> str:
    """Log-probabilities scale with 1 / T where every label is one step; everywhere lower T means less entropy."""
    exact = 0
    for seed in range(3):
        replies = await peer.choose([decision(seed, 6, temperature=t) for t in (0.5, 1.0, 2.0)], tokens=True)
        cold, plain, hot = (np.array(reply.probabilities) for reply in replies)
        if not _entropy(cold) <= _entropy(plain) + 1e-6 or not _entropy(plain) <= _entropy(hot) + 1e-6:
            raise Broken(f"prompt {seed}: entropy does not grow with the temperature")
        tokens = replies[1].tokens
        if replies[1].HasField("tokens") and all(len(path.ids) == 1 for path in tokens.labels) and (plain > 0).all():
            wanted = np.log(plain) / 2.0
            wanted -= np.log(np.exp(wanted).sum())
            if np.abs(np.log(hot) - wanted).max() > max(peer.tolerance, 1e-3):
                raise Broken(f"prompt {seed}: T = 2 does not halve the logits")
            exact += 1
        if np.ptp(plain) > 1e-3 and (plain > 0).all() and np.allclose(cold, hot, atol=1e-6):
            raise Broken(f"prompt {seed}: the temperature has no effect")
    return f"3 prompts at 3 temperatures, {exact} compared exactly"


async def builtins_are_exact(peer: Peer) -> str:
    """Uniform is 1 / n; scripted takes the highest greedy value, the first among equals; frozen is the base."""
    uniform, scripted = (pb.Policy(builtin=k) for k in (pb.BUILTIN_POLICY_UNIFORM, pb.BUILTIN_POLICY_SCRIPTED))
    for seed in range(peer.plan.decisions):
        flat, best = decision(seed, 1 + seed, uniform), decision(seed, 1 + seed, scripted)
        if seed % 2:
            for item in best.prompt.items:
                item.greedy = round(item.greedy)
        one, two = await peer.choose([flat, best])
        if any(abs(p - 1 / len(flat.prompt.items)) > 1e-9 for p in one.probabilities):
            raise Broken(f"uniform over {len(flat.prompt.items)} items is {list(one.probabilities)}")
        values = [item.greedy for item in best.prompt.items]
        if two.index != values.index(max(values)) or two.probabilities[two.index] != 1.0:
            raise Broken(f"scripted took item {two.index} of greedy values {values}")
    if (await peer.choose([decision(0, policy=FROZEN)]))[0].builtin != pb.BUILTIN_POLICY_FROZEN:
        raise Broken("frozen does not name itself")
    return f"{peer.plan.decisions} menus each"


def _apart(a: pb.ScoredChoice, b: pb.ScoredChoice) -> float:
    """Largest difference of log-probabilities; infinite where the answers are about different prompts."""
    if a.prompt_digest != b.prompt_digest or len(a.probabilities) != len(b.probabilities):
        return math.inf
    one, two = (np.log(np.maximum(x.probabilities, 1e-12)) for x in (a, b))
    return float(np.abs(one - two).max())


def _entropy(p: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    return float(-(p[p > 0] * np.log(p[p > 0])).sum())


def _chi_squared_limit(freedom: int) -> float:
    """Wilson and Hilferty's approximation of the quantile."""
    spread = 2 / (9 * freedom)
    return freedom * (1 - spread + _Z_ONE_IN_A_MILLION * math.sqrt(spread)) ** 3


def _is_sha256(text: str) -> bool:
    return len(text) == 64 and set(text) <= set("0123456789abcdef")
