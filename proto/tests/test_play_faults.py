"""Playing when something breaks: nothing hangs, nothing is left out, nothing wrong is recorded."""

import asyncio
import time

import pytest

from potluck.play import DigestMismatch, EnvPool, EpisodeLost, PlayOptions, PolicyClient, play
from potluck.rpc.errors import PotluckError, Reason

from .conftest import specs, table
from .counting import (
    PLAIN,
    CountingEnv,
    CountingPolicy,
    CrashingEnv,
    DrainingEnv,
    FailingEnv,
    HangingEnv,
    HangingPolicy,
    OtherLibraryEnv,
    ShortPolicy,
    SmallEnv,
    StrayLetterPolicy,
    WrongAdapterPolicy,
    WrongBasePolicy,
    serve_env,
)

QUICK = PlayOptions(wave_timeout_s=0.5, choose_timeout_s=1, reconnect_timeout_s=2)


async def _expected(count: int) -> list[str]:
    async with table() as t:
        return [result.digest for result in await t.play(specs(count))]


async def test_a_lost_server_s_episodes_are_played_again_elsewhere_whole_with_the_same_seed():
    broken, sound = CrashingEnv(boundary=2, times=100), CountingEnv()
    async with table(broken, sound) as t:
        results = await t.play(specs(4), QUICK)
        addresses = [server.address for server in t.servers]
    assert [result.digest for result in results] == await _expected(4)
    assert {result.env for result in results} == {addresses[1]}
    assert [result.attempts for result in results] == [2, 1, 2, 1]
    assert all(len(result.decisions) == 9 for result in results), "nothing of a lost attempt remains"


async def test_a_server_that_comes_back_plays_its_episodes_again():
    async with table(CrashingEnv(boundary=1, times=2)) as t:
        results = await t.play(specs(2), QUICK)
    assert [result.attempts for result in results] == [3, 3]
    assert [result.digest for result in results] == await _expected(2)


async def test_a_server_that_is_killed_and_started_again_is_found_again():
    first = await serve_env(CountingEnv())
    async with table() as t, EnvPool([first.address], PLAIN) as pool:
        restarted = []

        async def restart() -> None:
            await first.stop()
            restarted.append(await serve_env(CountingEnv(), bind=first.address))

        tasks = []

        def on_wave(wave) -> None:
            if wave.number == 2:
                tasks.append(asyncio.create_task(restart()))

        results = await play(specs(2, horizon=120), pool, t.policy, PlayOptions(reconnect_timeout_s=10), on_wave)
        await asyncio.gather(*tasks)
        expected = await t.play(specs(2, horizon=120))
        await restarted[0].stop()
    assert [result.digest for result in results] == [result.digest for result in expected]
    assert [result.attempts for result in results] == [2, 2]


async def test_a_failed_episode_alone_is_played_again():
    env = FailingEnv("e1", times=2)
    async with table(env) as t:
        results = await t.play(specs(3), QUICK)
    assert [result.attempts for result in results] == [1, 3, 1]
    assert [result.digest for result in results] == await _expected(3)
    assert env.starts.count("e1") == 3


async def test_an_episode_that_always_fails_is_an_error_not_a_gap():
    async with table(FailingEnv("e1", times=100)) as t:
        with pytest.raises(EpisodeLost, match="ENGINE_CRASHED") as caught:
            await t.play(specs(3), QUICK)
    assert caught.value.metadata["episode_id"] == "e1"
    assert caught.value.metadata["attempts"] == "3"
    assert caught.value.reason == Reason.EPISODE_LOST


async def test_a_hung_server_is_lost_after_the_wave_s_deadline():
    async with table(HangingEnv("e0"), CountingEnv()) as t:
        began = time.monotonic()
        results = await t.play(specs(4), QUICK)
        assert time.monotonic() - began < 3
        assert {result.env for result in results} == {t.servers[1].address}
    assert [result.digest for result in results] == await _expected(4)


async def test_a_server_that_hangs_for_ever_ends_with_a_typed_error():
    async with table(HangingEnv("e0")) as t:
        with pytest.raises(EpisodeLost, match="left 1 commands unanswered"):
            await t.play(specs(2), PlayOptions(wave_timeout_s=0.2, max_attempts=2))


async def test_no_server_is_a_typed_error_that_says_what_to_do():
    async with table() as t, EnvPool(["127.0.0.1:1"], PLAIN) as pool:
        with pytest.raises(PotluckError, match="check that the server runs") as caught:
            await play(specs(1), pool, t.policy, PlayOptions(reconnect_timeout_s=0.3))
    assert caught.value.reason == Reason.UNREACHABLE


async def test_a_missing_server_does_not_stop_the_others():
    async with table() as t, EnvPool(["127.0.0.1:1", t.servers[0].address], PLAIN) as pool:
        results = await play(specs(2), pool, t.policy)
    assert [result.attempts for result in results] == [1, 1]


async def test_a_draining_server_s_episodes_begin_elsewhere():
    async with table(DrainingEnv(), CountingEnv()) as t:
        results = await t.play(specs(4), QUICK)
    assert {result.env for result in results} == {t.servers[1].address}
    assert {result.attempts for result in results} == {1}, "being turned away is no attempt"


@pytest.mark.parametrize("envs", [(2,), (1, 3)])
async def test_full_servers_get_their_episodes_later(envs):
    async with table(*(SmallEnv(room) for room in envs)) as t:
        results = await t.play(specs(9), QUICK)
    assert [result.digest for result in results] == await _expected(9)
    assert {result.attempts for result in results} == {1}


async def test_a_server_without_room_for_any_is_a_typed_error():
    async with table(SmallEnv(0)) as t:
        with pytest.raises(PotluckError, match="no room") as caught:
            await t.play(specs(2), PlayOptions(reconnect_timeout_s=0.5))
    assert caught.value.reason == Reason.OVERLOADED


async def test_a_refusal_is_raised_as_the_server_sent_it():
    async with table() as t:
        with pytest.raises(PotluckError, match="ask ListGames") as caught:
            await t.play(specs(1, game="chess"))
    assert caught.value.reason == Reason.UNKNOWN_GAME
    assert caught.value.metadata["known"] == "counting/sum"


@pytest.mark.parametrize("policy", [WrongAdapterPolicy, WrongBasePolicy])
async def test_an_answer_of_other_weights_is_refused(policy):
    async with table(policy=policy()) as t:
        with pytest.raises(DigestMismatch):
            await t.play(specs(1))


@pytest.mark.parametrize(
    ("policy", "reason"), [(StrayLetterPolicy, Reason.LETTER_NOT_OFFERED), (ShortPolicy, Reason.INTERNAL)]
)
async def test_an_answer_that_does_not_fit_the_menus_is_refused(policy, reason):
    async with table(policy=policy()) as t:
        with pytest.raises(PotluckError) as caught:
            await t.play(specs(1))
    assert caught.value.reason == reason


async def test_a_policy_server_that_hangs_ends_with_a_typed_error():
    async with table(policy=HangingPolicy()) as t:
        with pytest.raises(PotluckError) as caught:
            await t.play(specs(1), PlayOptions(choose_timeout_s=0.3))
    assert caught.value.reason == Reason.DEADLINE


async def test_a_busy_policy_server_is_asked_again():
    policy = CountingPolicy()
    policy.busy = 2
    async with table(policy=policy) as t:
        results = await t.play(specs(1))
    assert [result.digest for result in results] == await _expected(1)
    assert all(0 < left < 6 for left in policy.deadlines), policy.deadlines


async def test_servers_with_different_libraries_do_not_play_one_game():
    async with table(CountingEnv(), OtherLibraryEnv()) as t:
        with pytest.raises(DigestMismatch, match="library"):
            await t.envs.games()
        with pytest.raises(DigestMismatch, match="library"):
            await t.play(specs(2))


async def test_games_that_agree_are_listed():
    async with table(CountingEnv(), CountingEnv()) as t:
        assert list(await t.envs.games()) == ["counting/sum"]


async def test_a_replay_that_diverges_is_an_error():
    env = CountingEnv()
    async with table(env) as t:
        recording = (await t.play(specs(1)))[0].finished.recording
        reply = await t.envs.replay(recording, frames=True)
        assert (reply.digest, len(reply.frames)) == (recording.digest, 7)
        env.drawn_digest = "f" * 64
        with pytest.raises(PotluckError) as caught:
            await t.envs.replay(recording)
    assert caught.value.reason == Reason.REPLAY_DIVERGED


async def test_a_replay_goes_to_a_server_that_is_there():
    async with table() as t, EnvPool(["127.0.0.1:1", t.servers[0].address], PLAIN) as pool:
        recording = (await t.play(specs(1)))[0].finished.recording
        assert (await pool.replay(recording)).digest == recording.digest


async def _refused(t) -> None:
    with pytest.raises(PotluckError):
        await t.play(specs(1, game="chess"))


async def _callback_fails(t) -> None:
    def on_wave(wave) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await t.play(specs(3), on_wave=on_wave)


async def _cancelled(t) -> None:
    playing = asyncio.create_task(t.play(specs(3, horizon=10_000)))
    await asyncio.sleep(0.1)
    playing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await playing


@pytest.mark.parametrize("how", [lambda t: t.play(specs(1)), _refused, _callback_fails, _cancelled])
async def test_streams_end_with_the_call_however_it_ends(how):
    async with table() as t:
        await how(t)
        began = time.monotonic()
        await t.servers[0].stop(grace_s=5)
    assert time.monotonic() - began < 1, "a stream left open would hold the server for its whole grace"


async def test_an_unreachable_policy_server_is_named():
    async with table() as t, PolicyClient("127.0.0.1:1", PLAIN) as nobody:
        with pytest.raises(PotluckError, match=r"policy server 127\.0\.0\.1:1") as caught:
            await play(specs(1), t.envs, nobody)
    assert caught.value.reason == Reason.UNREACHABLE


async def test_a_pool_without_servers_is_refused():
    with pytest.raises(PotluckError, match="no env server"):
        EnvPool([], PLAIN)
