"""The report in a real browser: it opens from a file, asks for nothing, and its replay can be scrubbed through."""

import json
import os
import re
import shutil
from dataclasses import replace

import pytest

from potluck.env.v1 import env_service_pb2 as pb
from potluck_audit.intervals import Estimate, Intervals
from potluck_audit.metrics.metric import Check, Metric
from potluck_audit.recorded import measure
from potluck_audit.records import load_run
from potluck_audit.records.episode import DecisionRow
from potluck_audit.report.page import ORDER, render
from potluck_audit.report.replay_data import ReplayedEpisode, replay_data
from potluck_audit.report.templates import embedded

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
    episodes += [episode(play(i % 2), set=f"eval/{name}", seed=10000 + i, member=i)
                 for name in ("frozen", "uniform") for i in range(6)]  # fmt: skip
    episodes += [
        episode(
            play(k % 3) if k < 2 else None, set="train", round=r, seed=r * 6 + k, member=k, team_return=r / 10 + k % 3
        )
        for r in range(40)
        for k in range(6)
    ]
    return measure(
        load_run(write_run(tmp_path_factory.mktemp("runs") / "demo", episodes)),
        Intervals(resamples=300),
        lambda *_: None,
    )


PLAYERS = tuple(f"agent_{seat}" for seat in range(7))


@pytest.fixture(scope="module")
def orchard(tmp_path_factory, write_run, episode, tape, at):
    """Seven agents at a river: some eat, some clean, nothing is handed on."""

    def play(meals: int):
        one = tape(agents=PLAYERS)
        for step in range(60):
            record = one.step(*(at(2 * seat + step % 2, 3 + seat % 3, "MOVE") for seat in range(7)))
            if step == 0:
                for cell in range(12):
                    record.events.add(kind="grow", object="apple", x=cell, y=cell // 6 * 8)
                    record.events.add(kind="dirt", x=cell, y=12)
            if step and step % 5 == 0 and step // 5 <= meals:
                record.events.add(kind="eat", agent=PLAYERS[step % 3], object="apple", x=step // 5, y=step // 30 * 8)
                record.events.add(kind="clean", agent=PLAYERS[3 + step % 4], x=step // 5, y=12)
        for seat, agent in enumerate(PLAYERS):
            one.option(agent, "clean_dirt" if seat > 2 else "eat_apple", 20)
            one.option(agent, "wait", 40)
        return one

    policies = {agent: f"{seat:064x}" for seat, agent in enumerate(PLAYERS)}
    own = {"game": "meltingpot/clean_up", "policies": policies, "agent_returns": (0.0,) * 7, "reward_unit": "apples"}
    episodes = [
        episode(play(4 + i % 3 - place), set=f"eval/{name}", seed=10000 + i, member=i, team_return=4.0 + i % 3, **own)
        for place, name in enumerate(("trained", "frozen", "uniform"))
        for i in range(4)
    ]
    run = load_run(write_run(tmp_path_factory.mktemp("runs") / "river", episodes))
    return measure(run, Intervals(resamples=300), lambda *_: None)


@pytest.fixture(scope="module")
def at_the_river(orchard):
    """A re-execution on a wide map, whose avatars and apples have pictures and whose potions have none."""
    first = orchard.sets[0].episodes[0]
    reply = pb.ReplayResponse(digest=first.digest, steps=60, scene=pb.Scene(width=30, height=16))
    reply.scene.tiles.extend(
        "river" if y == 12 else "wall" if y in (0, 15) else "grass" for y in range(16) for _ in range(30)
    )
    for step in range(61):
        frame = reply.frames.add(step=step, team_return=step // 15)
        for seat, agent in enumerate(PLAYERS):
            frame.sprites.add(kind="avatar", x=2 * seat + step % 2, y=3 + seat % 3, facing="NESW"[step % 4], seat=seat)
            view = frame.agents.add(
                agent=agent, option="eat_apple", target="(2,3)", letter="A", decided_at=step - step % 20
            )
            view.items.add(letter="A", option="eat_apple", target="(2,3)", text="eat the apple at (2,3)", word="eat")
        frame.sprites.add(kind="apple", x=step % 30, y=8, seat=-1)
        frame.sprites.add(kind="potion", x=4, y=9, seat=-1)
    return [ReplayedEpisode("trained, best of 4: seed 10002", first, reply)]


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

    page.keyboard.press("Home")
    page.keyboard.press("]")
    assert page.get_attribute("game-replay .board", "data-step") == "5"  # agent_0 decides again
    page.select_option("game-replay .who", "1")
    page.click("game-replay .later")
    assert page.get_attribute("game-replay .mind[data-seat='1']", "data-decided") == "7"
    page.click("game-replay .earlier")
    assert page.get_attribute("game-replay .board", "data-step") == "0"
    page.locator("game-replay .decided[data-at='10']").first.dispatch_event("click")
    assert page.get_attribute("game-replay .board", "data-step") == "10"

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
def test_what_was_not_measured_says_how_to_get_it(page, results, tmp_path):
    open_page(page, render(results, []), tmp_path)
    assert page.locator("game-replay").count() == 0
    told = page.locator(".missing").all_inner_texts()
    assert [t for t in told if "pictures of the games" in t and "potluck-audit run RUN --envs" in t]
    assert [t for t in told if "first decisive errors" in t and "potluck-audit blame" in t]
    assert (page.errors, outside(page)) == ([], [])


SECTIONS = ["verdict", "returns", "training", "agents", "handoffs", "visits", "worth", "decisions", "errors", "replay",
            "methods"]  # fmt: skip


@pytest.mark.browser
def test_sections_stand_in_order_and_can_be_reached(page, results, replayed, tmp_path):
    open_page(page, render(results, replayed), tmp_path)
    assert page.eval_on_selector_all("main > section", "all => all.map(e => e.id)") == SECTIONS
    assert page.eval_on_selector_all("nav a", "all => all.map(e => e.hash)") == [f"#{name}" for name in SECTIONS]
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#verdict"
    unnamed = "[role=img]:not([aria-label]), input:not([aria-label]), main > section:not([aria-labelledby])"
    assert page.locator(unnamed).count() == 0
    assert page.evaluate(
        "(all => all.length === new Set(all.map(e => e.id)).size)([...document.querySelectorAll('[id]')])"
    )


@pytest.mark.browser
def test_focus_is_seen(page, results, replayed, tmp_path):
    open_page(page, render(results, replayed), tmp_path)
    for place in ("nav a", "game-replay .play", "game-replay input", "game-replay .episode", "summary"):
        page.locator(place).first.focus()
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("Tab")
        outline = "getComputedStyle(document.activeElement).outlineStyle"
        assert page.evaluate(outline) != "none", place


@pytest.mark.browser
def test_a_button_opens_the_replay_at_its_decision(page, results, replayed, tmp_path):
    episode_id = replayed[1].episode.episode_id
    button = f"<button class='jump' data-episode='{episode_id}' data-step='9'>Show</button></main>"
    other = replace(replayed[0].episode, episode_id="another")
    html = render(results, [replayed[0]._replace(episode=other), replayed[1]]).replace("</main>", button)
    open_page(page, html, tmp_path)
    page.click("button.jump")
    assert page.input_value("game-replay .episode") == "1"
    assert page.get_attribute("game-replay .board", "data-step") == "9"


@pytest.mark.browser
@pytest.mark.parametrize("page", [{"color_scheme": "dark"}, {"color_scheme": "light"}], indirect=True)
def test_seven_agents_fit_a_phone(page, orchard, at_the_river, tmp_path):
    page.set_viewport_size({"width": 390, "height": 844})
    open_page(page, render(orchard, at_the_river), tmp_path)
    assert page.evaluate(WIDEST) <= 391
    assert page.locator("article.agent").count() == 7
    assert "nothing in this game is handed on" in page.inner_text("#handoffs").lower()
    assert page.locator("#commons svg.chart").count() == 4
    assert page.locator("game-replay .moving [data-seat]").count() == 7
    page.locator("game-replay .replay").focus()
    page.keyboard.press("]")
    assert page.get_attribute("game-replay .board", "data-step") == "20"
    assert (page.errors, outside(page)) == ([], [])


@pytest.mark.browser
def test_agents_are_large_on_a_wide_board_and_stand_in_their_cells(
    page, orchard, results, at_the_river, replayed, tmp_path
):
    shell = "game-replay .moving [data-seat='0'] .shell"
    share = "e => e.getBoundingClientRect().width * {} / document.querySelector('.board').getBoundingClientRect().width"
    open_page(page, render(orchard, at_the_river), tmp_path)
    assert 0.75 < page.eval_on_selector(shell, share.format(30)) < 1, "of its cell, on a board 30 cells wide"
    open_page(page, render(results, replayed), tmp_path)
    assert 0.5 < page.eval_on_selector(shell, share.format(5)) < 0.75, "on a small one the thing in its hands has place"


WIDEST = """Math.max(...[...document.querySelectorAll('main *')].filter(e => !e.closest('.sr, thead, .minds'))
    .map(e => e.getBoundingClientRect().right))"""


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
    assert page.evaluate(WIDEST) <= 391, "no table or chart asks for sideways scrolling either"
    assert page.errors == []


@pytest.mark.browser
@pytest.mark.parametrize("page", [{"color_scheme": "dark"}, {"color_scheme": "light"}], indirect=True)
def test_text_stands_out_from_its_ground(page, request, results, tmp_path):
    """WCAG's contrast of 4.5 for what is read, in both schemes."""
    open_page(page, render(results, []), tmp_path)
    colours = page.evaluate(
        """['--paper', '--panel', '--ink', '--dim', '--accent', '--bad', '--good'].map(
            n => getComputedStyle(document.documentElement).getPropertyValue(n).trim())"""
    )
    paper, panel, *words = (luminance(c) for c in colours)
    dark = request.node.callspec.params["page"]["color_scheme"] == "dark"
    assert (paper < 0.1) == dark
    for word in words:
        for ground in (paper, panel):
            low, high = sorted((word, ground))
            assert (high + 0.05) / (low + 0.05) >= 4.5


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


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
    assert re.search(r'<li class="fail"><span class="sr">FAILED:</span> trained: soups balance', render(spoilt, []))


def test_menus_are_stored_once_with_their_probabilities(results, replayed):
    data = replay_data(replayed)["episodes"][0]
    decided = {(a.agent, a.decided_at) for frame in replayed[0].replay.frames for a in frame.agents}
    assert len(data["menus"]) == len(decided)
    assert all(frame[3][0][2] >= 0 for frame in data["frames"])
    first = next(m for m in data["menus"] if (m["seat"], m["at"]) == (0, 0))
    assert (first["outcome"], first["took"], first["credit"]) == ("", None, None), "nothing was recorded of it"


def test_a_menu_tells_what_came_of_its_decision(replayed):
    decided = DecisionRow("e", "agent_0", 1, 5, "wait", "", "C", (0.5, 0.25, 0.25), "success", 4)
    one = replayed[0]._replace(episode=replace(replayed[0].episode, decisions=(decided,)))
    menus = replay_data([one], {(one.episode.episode_id, "agent_0", 1): -0.5})["episodes"][0]["menus"]
    found = next(m for m in menus if (m["seat"], m["at"]) == (0, 5))
    assert (found["outcome"], found["took"], found["credit"]) == ("success", 4, -0.5)
    assert [p for *_, p in found["items"]] == [0.5, 0.25, 0.25]


def test_baselines_stand_beside_every_number(results):
    html = render(results, [])
    for table in re.findall(r"<table>.*?</table>", html, re.DOTALL):
        caption = re.search(r"<caption>(.*?)</caption>", table, re.DOTALL).group(1)
        if any(words in caption for words in ("who plated", "Values of coalitions")):
            continue  # their baselines are v(nobody), the marks of the chart, and a table of the same figures
        assert "frozen" in table, caption
        assert "uniform" in table, caption


def test_without_baselines_the_report_asks_for_them(results):
    alone = replace(results, sets=results.sets[:1])
    html = render(alone, [])
    for name in ("frozen", "uniform"):
        assert f"potluck eval RUN --teams {name}" in html
        assert f"potluck eval RUN --teams {name}" not in render(results, [])


def test_credit_is_drawn_to_either_side_of_zero(results):
    rows = [Metric("coalition", "eval/trained", Estimate(v, v - 1, v + 1, 6), key=k, unit="soups")
            for v, k in ((1.0, ""), (3.0, "agent_0"), (0.0, "agent_1"), (2.0, "agent_0+agent_1"))]  # fmt: skip
    rows += [Metric("credit", "eval/trained", Estimate(v, v - 0.5, v + 0.5, 6), a, "noop", "soups")
             for a, v in (("agent_0", 2.0), ("agent_1", -1.0))]  # fmt: skip
    html = render(replace(results, metrics=[*results.metrics, *rows]), [])
    section = re.search(r'<section id="worth".*?</section>', html, re.DOTALL).group(0)
    assert "the credits sum to 1.00" in section
    assert "v(∅) = 1.00" in section
    bars = dict(re.findall(r'<rect x="([\d.]+)"[^>]*><title>credit of (agent_\d)', section))
    left, right = (next(float(x) for x, agent in bars.items() if agent == name) for name in ("agent_1", "agent_0"))
    assert left < right, "negative credit lies left of the bars that are earned"
    assert "\N{MINUS SIGN}1.00" in section


def test_every_seat_has_its_own_pattern(results):
    html = render(results, [])
    looks = dict(re.findall(r'<pattern id="(seat\d)"[^>]*>(.*?)</pattern>', html))
    assert len(looks) == len(set(looks.values())) == 8
    without_colour = {re.sub(r"--a\d", "", look) for look in looks.values()}
    assert len(without_colour) == 8, "patterns differ where colours are not seen"


def test_training_shows_reward_and_cooperation(results):
    html = render(results, [])
    training = re.search(r'<section id="training".*?</section>', html, re.DOTALL).group(0)
    assert training.index("<b>Reward:</b>") < training.index("<b>Cooperation:</b>")
    assert {t.metric.name for t in results.trends} >= {"return", "handoffs_per_soup", "soup_share", "option_share_time"}
    assert len({(t.first, t.last) for t in results.trends}) == 20
    assert 'class="level frozen"' in training
    assert len(ORDER) == 12
