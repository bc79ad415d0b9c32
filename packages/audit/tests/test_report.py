"""The report in a real browser: it opens from a file, asks for nothing, and its replay can be scrubbed through."""

import json
import os
import re
import shutil
from dataclasses import replace

import pytest

from potluck_audit.audit import measure
from potluck_audit.intervals import Intervals
from potluck_audit.metrics.metric import Check
from potluck_audit.records import load_run
from potluck_audit.report.page import embedded, render
from potluck_audit.report.replay_data import ReplayedEpisode, replay_data

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ARGS = [
    "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory, write_run, episode, tape, at):
    def play(soups: int):
        one = tape()
        for step in range(40):
            kind = ("MOVE", "WAIT", "INTERACT", "BLOCKED")[step % 4]
            one.step(at(1, 1 + step % 3, kind), at(3, 1 + step % 2, "MOVE" if step % 3 else "WAIT"))
        for number in range(soups):
            one.soup(number, "agent_0", "agent_1")
        for number, option in enumerate(("pick_onion", "drop_held", "pick_dish", "wait", "pick_onion")):
            one.option("agent_0", option, 3 + number)
        for number, option in enumerate(("pick_from_counter", "place_in_pot", "plate_soup", "deliver", "wait")):
            one.option("agent_1", option, 9 - number)
        return one

    episodes = [episode(play(2 + i % 4), seed=10000 + i, member=i) for i in range(6)]
    episodes += [episode(play(i % 2), set="eval/frozen", seed=10000 + i, member=i) for i in range(6)]
    episodes += [
        episode(set="train", round=r, seed=r * 6 + k, member=k, team_return=r / 10 + k % 3)
        for r in range(40)
        for k in range(6)
    ]
    return measure(
        load_run(write_run(tmp_path_factory.mktemp("runs") / "demo", episodes)),
        Intervals(resamples=300),
        lambda *_: None,
    )


@pytest.fixture(scope="module")
def replayed(results, replay):
    trained, frozen = results.sets[0].episodes, results.sets[1].episodes
    return [
        ReplayedEpisode("trained, best of 6: seed 10003, 5 soups in all of the episode", trained[3], replay(soups=5)),
        ReplayedEpisode("frozen, median of 6: seed 10001, 1 soup", frozen[1], replay(20, soups=1)),
    ]


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        reason = "no Chromium: install Debian's with apt-get install chromium"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, chromium_sandbox=False, args=ARGS)
        yield opened
        opened.close()


@pytest.fixture
def page(request, browser):
    """A page that counts requests and errors."""
    opened = browser.new_page(viewport={"width": 1180, "height": 900}, **getattr(request, "param", {}))
    opened.set_default_timeout(90_000)  # a crowded machine is slow, not broken
    opened.asked, opened.errors = [], []
    opened.on("request", lambda r: opened.asked.append(r.url))
    opened.on("console", lambda m: m.type == "error" and opened.errors.append(m.text))
    opened.on("pageerror", lambda e: opened.errors.append(str(e)))
    yield opened
    opened.close()


def open_page(page, html, tmp_path):
    file = tmp_path / "report.html"
    file.write_text(html, encoding="utf-8")
    page.goto(file.as_uri())
    return page


def outside(page):
    return [url for url in page.asked if not url.startswith(("file:", "data:"))]


def drawing(page):
    return page.inner_html("game-replay .moving")


def reach(page, step, tries=2400):
    """Playing goes on between two looks, so that no single step can be waited for."""
    for _ in range(tries):
        if int(page.get_attribute("game-replay .board", "data-step")) >= step:
            return
        page.wait_for_timeout(25)
    pytest.fail(f"step {step} is not reached")


@pytest.mark.browser
def test_the_replay_can_be_scrubbed_through(page, results, replayed, tmp_path):
    open_page(page, render(results, replayed), tmp_path)
    slider, first = page.locator("game-replay input[type=range]"), drawing(page)
    assert page.get_attribute("game-replay .board", "data-step") == "0"

    slider.fill("7")
    seventh = drawing(page)
    assert page.get_attribute("game-replay .board", "data-step") == "7"
    assert seventh != first
    assert page.get_attribute("game-replay .mind[data-seat='0']", "data-decided") == "5"
    assert page.inner_text("game-replay .mind[data-seat='0'] li.chosen b") == "C"

    slider.press("ArrowRight")
    assert page.get_attribute("game-replay .board", "data-step") == "8"
    assert drawing(page) != seventh
    page.locator("game-replay .replay").focus()
    page.keyboard.press("Shift+ArrowRight")
    assert page.get_attribute("game-replay .board", "data-step") == "18"
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Home")
    assert drawing(page) == first
    page.keyboard.press(".")
    assert page.inner_text("game-replay .score") == "1 soups"

    page.select_option("game-replay .episode", "1")
    assert page.inner_text("game-replay output") == "step 0 / 20"
    assert (page.errors, outside(page)) == ([], [])


@pytest.mark.browser
def test_play_and_pause(page, results, replayed, tmp_path):
    open_page(page, render(results, replayed), tmp_path)
    page.select_option("game-replay .speed", "8")
    page.click("game-replay .play")
    reach(page, 4)
    assert page.get_attribute("game-replay .play", "aria-pressed") == "true"
    page.click("game-replay .play")
    stopped = page.get_attribute("game-replay .board", "data-step")
    page.wait_for_timeout(150)
    assert page.get_attribute("game-replay .board", "data-step") == stopped
    page.locator("game-replay .replay").focus()
    page.keyboard.press("Space")
    reach(page, 40)
    page.locator("game-replay .play[aria-pressed='false']").wait_for()
    assert page.errors == []


@pytest.mark.browser
def test_every_agent_and_pot_is_drawn_where_it_is(page, results, replayed, tmp_path):
    open_page(page, render(results, replayed), tmp_path)
    for at in (0, 11, 40):
        page.locator("game-replay input[type=range]").fill(str(at))
        frame = replayed[0].replay.frames[at]
        for sprite in frame.sprites:
            place = f"translate({sprite.x * 40:g} {sprite.y * 40:g})"
            drawn = f"game-replay .moving [data-kind='{sprite.kind}'][transform='{place}']"
            assert page.locator(drawn).count() == 1
    assert page.locator("game-replay .floor > g").count() == 25


@pytest.mark.browser
def test_unknown_kinds_get_a_labelled_picture(page, results, replayed, replay, tmp_path):
    foreign = replay(3)
    foreign.scene.tiles[0] = "volcano"
    for frame in foreign.frames:
        frame.sprites.add(kind="gemstone", x=2, y=1, seat=-1, label="9")
    html = render(results, [ReplayedEpisode("foreign", replayed[0].episode, foreign)])
    open_page(page, html, tmp_path)
    assert "volcan" in page.inner_html("game-replay .floor")
    assert "ge" in page.text_content("game-replay [data-kind=gemstone]")
    assert page.errors == []


@pytest.mark.browser
def test_without_replays_the_report_says_so(page, results, tmp_path):
    open_page(page, render(results, []), tmp_path)
    assert page.locator("game-replay").count() == 0
    assert "No replay" in page.inner_text("main")
    assert (page.errors, outside(page)) == ([], [])


@pytest.mark.browser
def test_the_harness_sees_requests_and_errors(page, tmp_path):
    """The negative control of the checks above."""
    html = "<script src='http://127.0.0.1:9/x.js'></script><script>throw new Error('broken')</script>"
    open_page(page, html, tmp_path)
    assert outside(page) == ["http://127.0.0.1:9/x.js"]
    assert any("broken" in error for error in page.errors)


@pytest.mark.browser
def test_the_page_forbids_requests(page, results, tmp_path):
    html = render(results, []).replace("</main>", "<img src='http://127.0.0.1:9/pixel.png'></main>")
    open_page(page, html, tmp_path)
    assert any("Content Security Policy" in error for error in page.errors)


@pytest.mark.browser
@pytest.mark.parametrize("page", [{"color_scheme": "dark"}, {"color_scheme": "light"}], indirect=True)
def test_it_fits_a_phone_and_a_dark_room(page, results, replayed, tmp_path):
    page.set_viewport_size({"width": 390, "height": 844})
    long = replace(results, run="overcooked-asymmetric_advantages_tomato-tiny-s0")
    open_page(page, render(long, replayed), tmp_path)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.errors == []


def test_numbers_are_embedded_without_nan(results, replayed):
    html = render(results, replayed)
    found = re.search(r'<script type="application/json" id="audit-results">(.*?)</script>', html, re.DOTALL)
    numbers = json.loads(found.group(1), parse_constant=lambda name: pytest.fail(f"{name} in the numbers"))
    assert numbers == json.loads(json.dumps(results.to_json()))
    assert {m["name"] for m in numbers["metrics"]} >= {"return", "idle_share", "handoffs", "option_share_time"}


def test_embedded_text_cannot_leave_its_element(results, replayed, replay):
    hostile = "</script><script>alert(1)</script><!--"
    evil = replay(2)
    evil.frames[0].agents[0].items[0].text = hostile
    html = render(results, [ReplayedEpisode(hostile, replayed[0].episode, evil)])
    assert "<script>alert" not in html
    assert json.loads(embedded({"x": hostile})) == {"x": hostile}


def test_a_failed_check_is_red(results):
    spoilt = replace(results, checks=[Check("soups balance", "eval/trained", False, "1 of 2")])
    assert re.search(r'<li class="fail">trained: soups balance', render(spoilt, []))


def test_menus_are_stored_once_with_their_probabilities(results, replayed):
    data = replay_data(replayed)["episodes"][0]
    decided = {(a.agent, a.decided_at) for frame in replayed[0].replay.frames for a in frame.agents}
    assert len(data["menus"]) == len(decided)
    assert all(frame[3][0][2] >= 0 for frame in data["frames"])
