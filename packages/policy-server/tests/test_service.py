"""The service over real servers: refusals with their controls, isolation, concurrency, identical bits."""

import asyncio
import hashlib
import math

import numpy as np
import pytest

from potluck.common.v1 import common_pb2
from potluck.policy.v1 import policy_service_pb2 as pb
from potluck.rpc.errors import PotluckError, typed_errors
from potluck_policy_server.backbones import registry
from potluck_policy_server.backbones.base import BackboneOptions
from potluck_policy_server.service import ServiceOptions


async def refused(awaitable, reason):
    """The typed error of a call that must fail."""
    with pytest.raises(PotluckError) as caught, typed_errors():
        await awaitable
    assert caught.value.reason == reason, caught.value.message
    return caught.value


@pytest.fixture
async def world(kit, backbone):
    async with kit.server(backbone) as (client, service, server):
        yield client, service, server


async def test_describe_says_what_is_served(world, backbone):
    client, _, _ = world
    reply = await client.stub.Describe(pb.DescribeRequest())
    assert reply.kind == pb.BACKBONE_KIND_CAUSAL_LM
    assert (reply.base_digest, reply.context_tokens, reply.max_batch) == (backbone.description.base_digest, 512, 512)
    assert reply.generates
    assert len(reply.letters) == 26


async def test_choices_carry_probabilities_digests_and_tokens(kit, world, adapter_files):
    client, _, _ = world
    published = await client.publish(adapter_files[0])
    prompts = [kit.prompt(seed, 2 + seed) for seed in range(6)]
    decisions = [kit.decision(p, published.digest, temperature=0.7, seed=i) for i, p in enumerate(prompts)]
    decisions.append(kit.decision(prompts[0], builtin=pb.BUILTIN_POLICY_FROZEN))
    reply = await client.choose(decisions, tokens=True)
    for decision, choice in zip(decisions[:6], reply.choices, strict=False):
        assert choice.adapter_digest == published.digest
        assert sum(choice.probabilities) == pytest.approx(1, abs=1e-12)
        assert math.exp(choice.logprob) == pytest.approx(choice.probabilities[choice.index], rel=1e-9)
        assert decision.prompt.items[choice.index].letter == choice.letter
        assert 0 < choice.label_mass <= 1
        assert len(choice.tokens.prefix) + len(choice.tokens.suffix) == choice.prompt_tokens
        assert len(choice.tokens.labels) == len(decision.prompt.items)
    frozen = reply.choices[6]
    assert (frozen.adapter_digest, frozen.builtin) == ("", pb.BUILTIN_POLICY_FROZEN)
    assert frozen.probabilities != reply.choices[0].probabilities
    assert frozen.prompt_digest == reply.choices[0].prompt_digest
    assert reply.base_digest
    assert reply.tokenizer_digest


async def test_builtins_of_every_server(kit, world):
    client, _, _ = world
    prompt = kit.prompt(1, 5)
    kinds = [pb.BUILTIN_POLICY_UNIFORM, pb.BUILTIN_POLICY_SCRIPTED]
    uniform, scripted = (await client.choose([kit.decision(prompt, builtin=kind) for kind in kinds])).choices
    assert list(uniform.probabilities) == pytest.approx([0.2] * 5)
    best = max(range(5), key=lambda i: prompt.items[i].greedy)
    assert (scripted.index, scripted.probabilities[best], scripted.logprob) == (best, 1.0, 0.0)
    assert math.isnan(uniform.label_mass)
    assert not uniform.HasField("tokens")


async def test_sampled_frequencies_follow_the_reply(kit, world):
    client, _, _ = world
    prompt = kit.prompt(4, 5)
    reply = await client.choose([kit.decision(prompt, seed=seed, temperature=2.0) for seed in range(512)])
    expected = np.array(reply.choices[0].probabilities)
    counts = np.bincount([choice.index for choice in reply.choices], minlength=5)
    assert float(((counts - 512 * expected) ** 2 / (512 * expected)).sum()) < 18.5  # 4 degrees of freedom, p = 0.001
    greedy = await client.choose([kit.decision(prompt, seed=seed, greedy=True) for seed in range(5)])
    assert {choice.index for choice in greedy.choices} == {int(expected.argmax())}


async def test_an_unknown_adapter_is_refused_and_nothing_is_computed(kit, world, adapter_files):
    client, service, _ = world
    known = (await client.publish(adapter_files[0])).digest
    await client.choose([kit.decision(kit.prompt(0), known)])
    before = service.batcher.stats.decisions
    misspelt = known[:-1] + ("0" if known[-1] != "0" else "1")
    error = await refused(
        client.choose([kit.decision(kit.prompt(0), known), kit.decision(kit.prompt(1), misspelt)]), "UNKNOWN_ADAPTER"
    )
    assert misspelt in error.message
    assert error.metadata["adapter"] == misspelt
    assert service.batcher.stats.decisions == before
    assert not [info for info in service.store.infos() if info.decisions > 1]


@pytest.mark.parametrize(
    ("change", "reason", "says"),
    [
        ({"sha256": "0" * 64}, "CORRUPT_UPLOAD", "hash to"),
        ({"size": 7}, "CORRUPT_UPLOAD", "more bytes came"),
        ({"size": 10_000_000}, "CORRUPT_UPLOAD", "were announced"),
        ({"base": "f" * 64}, "WRONG_BASE", "FetchBackbone"),
        ({"agent": "../evil"}, "INVALID_ARGUMENT", "agent name"),
        ({"agent": ""}, "INVALID_ARGUMENT", "agent name"),
        ({"size": 1 << 40}, "OVERLOADED", "never fit"),
    ],
)
async def test_bad_uploads_are_refused_and_leave_nothing(world, adapter_files, change, reason, says):
    client, service, _ = world
    error = await refused(client.publish(adapter_files[0], **change), reason)
    assert says in error.message
    assert service.store.infos() == []
    assert (await client.publish(adapter_files[0], chunk=1000)).known is False


async def test_chunks_above_one_mebibyte_and_missing_headers_are_refused(kit, world):
    client, _, _ = world
    big = kit.files("{}", b"x" * (2 << 20))
    await refused(client.publish(big, chunk=2 << 20), "INVALID_ARGUMENT")

    async def headless():
        yield pb.PublishAdapterRequest(chunk=b"x")

    async def nothing():
        return
        yield

    for parts in (headless(), nothing()):
        await refused(client.stub.PublishAdapter(parts), "INVALID_ARGUMENT")


@pytest.mark.parametrize("config", ["not json", "[1]"])
async def test_a_config_that_is_no_object_is_refused(kit, world, adapter_files, config):
    error = await refused(world[0].publish(kit.files(config, adapter_files[0].data)), "INVALID_ARGUMENT")
    assert error.metadata["field"] == "config_json"


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan, math.inf])
async def test_temperatures_must_be_above_zero(kit, world, temperature):
    await refused(world[0].choose([kit.decision(kit.prompt(0), temperature=temperature)]), "INVALID_ARGUMENT")


@pytest.mark.parametrize("fault", ["empty", "twice", "27", "nan", "no letter", "no policy", "scheme", "batch"])
async def test_malformed_requests_are_refused_by_field(kit, world, fault):
    client, service, _ = world
    prompt = kit.prompt(0, 4)
    decision, fields, count = kit.decision(prompt), {}, 1
    items = decision.prompt.items
    match fault:
        case "empty":
            del items[:]
        case "twice":
            items[1].letter = items[0].letter
        case "27":
            items.extend(common_pb2.Item(letter=f"x{i}") for i in range(23))
        case "nan":
            items[0].greedy = math.nan
        case "no letter":
            items[0].letter = ""
        case "no policy":
            decision.policy.Clear()
        case "scheme":
            fields = {"label_scheme": 77}
        case "batch":
            count = 513
    error = await refused(client.choose([decision] * count, **fields), "INVALID_ARGUMENT")
    assert error.metadata["field"]
    assert service.batcher.stats.decisions == 0
    assert (await client.choose([kit.decision(prompt)])).choices[0].letter


async def test_a_prompt_longer_than_the_context_names_limit_and_size(kit, world):
    client, _, _ = world
    prompt = kit.prompt(0)
    prompt.observation = "hold onion\n" * 300
    error = await refused(client.choose([kit.decision(prompt)]), "PROMPT_TOO_LONG")
    assert error.metadata["limit"] == "512"
    assert int(error.metadata["size"]) > 512
    assert (await client.choose([kit.decision(kit.prompt(0))])).choices


async def test_labels_that_cannot_be_told_apart_are_refused(kit, world):
    prompt = kit.prompt(0, 3)
    prompt.items[0].word = prompt.items[1].word
    await refused(
        world[0].choose([kit.decision(prompt)], label_scheme=common_pb2.LABEL_SCHEME_WORDS), "LABELS_UNSUPPORTED"
    )
    assert (await world[0].choose([kit.decision(prompt)], label_scheme=common_pb2.LABEL_SCHEME_LETTERS)).choices


async def test_leases_over_the_wire(world, adapter_files):
    client, _, _ = world
    published = await client.publish(adapter_files[0])
    held = await client.stub.HoldAdapter(pb.HoldAdapterRequest(digest=published.digest, holder="audit", ttl_s=60))
    (info,) = (await client.stub.ListAdapters(pb.ListAdaptersRequest())).adapters
    assert list(info.holders) == ["audit", "publisher of agent_0"]
    await client.stub.ReleaseAdapter(pb.ReleaseAdapterRequest(lease=held.lease))
    await refused(client.stub.ReleaseAdapter(pb.ReleaseAdapterRequest(lease=held.lease)), "UNKNOWN_LEASE")
    await refused(client.stub.HoldAdapter(pb.HoldAdapterRequest(digest="none", holder="x")), "UNKNOWN_ADAPTER")


async def test_publishing_b_moves_no_bit_of_a_or_the_base(kit, world, backbone, adapter_files):
    """Cases 18 and 19 on the server's side: adapters and base are immutable whatever else is loaded or used."""
    client, service, _ = world
    a = (await client.publish(adapter_files[0], "agent_0")).digest
    probe = [kit.decision(kit.prompt(s), a, seed=s) for s in range(4)]
    probe += [kit.decision(kit.prompt(s), seed=s) for s in range(4)]
    before = (await client.choose(probe)).SerializeToString(deterministic=True)
    state = {k: v.clone() for k, v in service.store.get(a).payload.state.items()}
    base = {k: v.clone() for k, v in backbone._model.state_dict().items()}
    b = (await client.publish(adapter_files[1], "agent_1")).digest
    await client.choose([kit.decision(kit.prompt(9), b)])
    request = pb.GenerateRequest(policy=pb.Policy(adapter=b), prompt="hello", max_tokens=2)
    await client.stub.Generate(request)
    assert (await client.choose(probe)).SerializeToString(deterministic=True) == before
    assert all(v.equal(state[k]) for k, v in service.store.get(a).payload.state.items())
    after = {k.replace("base_layer.", ""): v for k, v in backbone._model.state_dict().items() if "lora_" not in k}
    assert set(after) == set(base)
    assert all(after[k].equal(v) for k, v in base.items())


async def test_publishing_during_scoring_changes_no_answer(kit, folder, world, adapter_files):
    client, service, _ = world
    a = (await client.publish(adapter_files[0])).digest
    probe = [kit.decision(kit.prompt(seed), a, seed=seed) for seed in range(12)]
    expected = (await client.choose(probe)).SerializeToString(deterministic=True)
    newer = [kit.peft_files(folder, 50 + seed) for seed in range(6)]
    done = asyncio.Event()

    async def keep_scoring():
        answers = []
        while not done.is_set() or len(answers) < 5:
            answers.append((await client.choose(probe)).SerializeToString(deterministic=True))
        return answers

    async def keep_publishing():
        for files in newer:
            digest = (await client.publish(files, "agent_1")).digest
            await client.choose([kit.decision(kit.prompt(0), digest)])
        done.set()

    answers, _ = await asyncio.gather(keep_scoring(), keep_publishing())
    assert len(answers) >= 5
    assert set(answers) == {expected}
    assert len(service.store.infos()) == 7


async def test_two_fresh_servers_give_identical_bits_whatever_one_did_before(kit, folder, adapter_files):
    replies = []
    for history in (False, True):
        async with kit.server(kit.load(folder)) as (client, _, _):
            a, b = [(await client.publish(files)).digest for files in adapter_files]
            if history:
                for size in (1, 3, 7):
                    rules = f"other rules {size} ."
                    await client.choose([kit.decision(kit.prompt(s, rules=rules), b, seed=s) for s in range(size)])
            probe = [kit.decision(kit.prompt(s, 3 + s % 5), [a, b][s % 2], temperature=0.9, seed=s) for s in range(12)]
            replies.append((await client.choose(probe, tokens=True)).SerializeToString(deterministic=True))
    assert replies[0] == replies[1]


async def test_a_dropped_adapter_comes_back_with_the_same_bits(kit, folder, adapter_files):
    """Eviction forgets merged weights and prefixes; publishing again computes the same ones. Case 21: an answer never
    comes from another version's cache."""
    size = len(adapter_files[0].data)
    async with kit.server(kit.load(folder), ServiceOptions(adapter_bytes=int(size * 1.5))) as (client, service, _):
        answers = []
        for files in (adapter_files[0], adapter_files[1], adapter_files[0]):
            published = await client.publish(files)
            reply = await client.choose([kit.decision(kit.prompt(2, 6), published.digest, seed=1)])
            answers.append(reply.choices[0].SerializeToString(deterministic=True))
            await client.stub.ReleaseAdapter(pb.ReleaseAdapterRequest(lease=published.lease))
        assert service.store.evictions == 2
    assert answers[0] == answers[2] != answers[1]


async def test_the_base_can_be_downloaded_and_proved(world, tmp_path):
    from potluck_policy_server.folder import base_digest

    client, _, _ = world
    described = await client.stub.Describe(pb.DescribeRequest())
    announced, name = {}, ""
    async for part in client.stub.FetchBackbone(pb.FetchBackboneRequest(base_digest=described.base_digest)):
        if part.WhichOneof("part") == "file":
            name = part.file.name
            announced[name] = part.file
            (tmp_path / name).write_bytes(b"")
        else:
            assert len(part.chunk) <= 1 << 20
            with (tmp_path / name).open("ab") as file:
                file.write(part.chunk)
    for name, file in announced.items():
        data = (tmp_path / name).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (file.size, file.sha256)
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= set(announced)
    assert base_digest(tmp_path) == described.base_digest

    async def wrong():
        async for _ in client.stub.FetchBackbone(pb.FetchBackboneRequest(base_digest="e" * 64)):
            pass

    await refused(wrong(), "WRONG_BASE")


async def test_generate_is_repeatable_and_uses_the_adapter(world, adapter_files):
    client, _, _ = world
    a = (await client.publish(adapter_files[0])).digest

    async def text(policy, temperature=1.0, seed=3):
        return await client.stub.Generate(
            pb.GenerateRequest(
                policy=policy, prompt="go", system="s", max_tokens=12, temperature=temperature, seed=seed
            )
        )

    adapted, frozen = pb.Policy(adapter=a), pb.Policy(builtin=pb.BUILTIN_POLICY_FROZEN)
    first = await text(adapted)
    assert first == await text(adapted)
    assert first.text != (await text(adapted, seed=4)).text
    assert (first.adapter_digest, first.output_tokens <= 12, first.prompt_tokens > 4) == (a, True, True)
    assert (await text(frozen, 0)).text != (await text(adapted, 0)).text
    await refused(text(pb.Policy(adapter="nobody")), "UNKNOWN_ADAPTER")
    await refused(text(pb.Policy(builtin=pb.BUILTIN_POLICY_UNIFORM)), "INVALID_ARGUMENT")
    await refused(text(frozen, temperature=-1), "INVALID_ARGUMENT")
    long = client.stub.Generate(pb.GenerateRequest(policy=frozen, prompt="go " * 400, max_tokens=200))
    await refused(long, "PROMPT_TOO_LONG")


async def test_a_table_server_has_no_text_and_no_files(kit):
    async with kit.server(registry.load(BackboneOptions("tabular"))) as (client, _, _):
        frozen = pb.Policy(builtin=pb.BUILTIN_POLICY_FROZEN)
        await refused(client.stub.Generate(pb.GenerateRequest(policy=frozen, prompt="x", max_tokens=1)), "UNSUPPORTED")
        base = (await client.stub.Describe(pb.DescribeRequest())).base_digest

        async def fetch():
            async for _ in client.stub.FetchBackbone(pb.FetchBackboneRequest(base_digest=base)):
                pass

        await refused(fetch(), "UNSUPPORTED")
        assert (await client.choose([kit.decision(kit.prompt(0))])).choices


@pytest.mark.parametrize(("share", "spans"), [(0.0, 0), (1.0, 40), (0.5, 20)])
async def test_decision_spans_are_sampled_by_seed(kit, monkeypatch, share, spans):
    from potluck_policy_server import service

    seen = []

    class Span:
        def end(self):
            pass

    monkeypatch.setattr(service, "open_span", lambda name, attributes: seen.append((name, attributes)) or Span())
    backbone = registry.load(BackboneOptions("uniform"))
    async with kit.server(backbone, ServiceOptions(trace_decisions=share)) as (client, _, _):
        await client.choose([kit.decision(kit.prompt(0), seed=seed) for seed in range(40)])
    assert len(seen) == pytest.approx(spans, abs=8 * (0 < share < 1))
    assert all(attributes["potluck.menu.size"] == 5 for _, attributes in seen)


@pytest.mark.parametrize("count", [0, 10_000])
async def test_an_empty_batch_and_one_of_ten_thousand(kit, world, count):
    client, service, _ = world
    call = client.choose([kit.decision(kit.prompt(0, 2))] * count)
    if count:
        with pytest.raises(PotluckError) as caught, typed_errors():
            await call
        assert caught.value.reason in ("INVALID_ARGUMENT", "MESSAGE_TOO_LARGE")
    else:
        assert (await call).choices == []
    assert service.batcher.stats.decisions == 0
    assert (await client.choose([kit.decision(kit.prompt(0))])).choices
