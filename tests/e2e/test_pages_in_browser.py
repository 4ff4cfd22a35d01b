"""The pages in a real browser: quiet consoles, the policy kept, readable by machines, usable by key and on a phone, alive."""

from __future__ import annotations

import gzip
import json
import re
import time
import urllib.request
from dataclasses import replace

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.browsing import WAIT, opened, violations
from tests.e2e.site import Site
from tests.e2e.wire import wire
from tests.stitchweb.markup import comparable

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def narrow(browser: Browser, site: Site) -> Page:
    return opened(browser, site, width=360, theme="dark")


@pytest.fixture(scope="module")
def wide(browser: Browser, site: Site) -> Page:
    return opened(browser, site)


PAGES = [
    "library", "library-none", "runs", "upload", "upload-example", "program", "suite", "status", "run-done", "run-live",
    "run-waiting", "run-refused", "run-pinned", "run-plan", "run-edit", "run-failed", "run-long", "program-long", "status-busy",
    "run-replayed", "run-caught", "gallery", "gallery-filtered", "gallery-none", "gallery-class", "gallery-honest",
    "profiles", "profile-compared", "profile-long",
]  # fmt: skip


@pytest.mark.parametrize("name", PAGES)
def test_a_wide_light_page_is_quiet_and_accessible(wide: Page, site: Site, name: str) -> None:
    wide.complaints.clear()
    wide.goto(site.base + site.pages[name])
    assert violations(wide) == []
    assert wide.complaints == []


@pytest.mark.parametrize("name", PAGES)
def test_a_narrow_dark_page_fits_is_quiet_and_accessible(narrow: Page, site: Site, name: str) -> None:
    narrow.complaints.clear()
    narrow.goto(site.base + site.pages[name])
    assert narrow.evaluate("document.documentElement.scrollWidth") == 360
    assert violations(narrow) == []
    assert narrow.complaints == []


def test_the_login_page_is_accessible(browser: Browser, site: Site) -> None:
    page = browser.new_page()
    page.goto(f"{site.base}/login/")
    assert violations(page) == []
    page.close()


@pytest.mark.parametrize("name", ["run-live", "run-replayed", "gallery", "gallery-class", "profile-compared"])
def test_everything_that_acts_is_reached_by_key_with_a_visible_focus(wide: Page, site: Site, name: str) -> None:
    wide.goto(site.base + site.pages[name])
    if name.startswith("run"):
        wide.wait_for_selector("#live-state.ok-t", timeout=WAIT)
    wanted = wide.evaluate(
        "() => [...document.querySelectorAll('a[href], button:not([disabled]), input, select, textarea')]"
        ".filter(e => e.getClientRects().length && e.type !== 'hidden').length"
    )
    reached = set()
    for _ in range(wanted + 40):
        wide.keyboard.press("Tab")
        place = wide.evaluate(
            "() => { const e = document.activeElement; const s = getComputedStyle(e);"
            "return [[...document.querySelectorAll('*')].indexOf(e), e.matches('a, button, input, select, textarea'),"
            "s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 1] }"
        )
        if place[1]:
            assert place[2], "an element has focus and does not show it"
            reached.add(place[0])
    assert len(reached) >= wanted


def test_the_first_load_weighs_less_than_the_budget(wide: Page, site: Site) -> None:
    sizes: dict[str, int] = {}

    def weigh(response: object) -> None:
        sizes[response.url] = len(gzip.compress(response.body()))

    page = wide.context.new_page()
    page.on("response", weigh)
    page.goto(site.base + site.pages["run-done"], wait_until="networkidle")
    page.close()
    assert sum(sizes.values()) <= 250_000, sizes
    assert all(url.startswith(site.base) for url in sizes)


def test_without_a_script_the_run_page_shows_everything_and_steers(browser: Browser, site: Site) -> None:
    page = opened(browser, site, script=False)
    page.goto(site.base + site.pages["run-done"])
    for heading in ("Plan v1", "Candidates", "c5 against c3", "Timing of c5", "Checks of c5", "Build of c5", "Profile of c5"):
        assert page.get_by_role("heading", name=heading).is_visible()
    assert page.get_by_role("link", name="Reload").is_visible()
    page.get_by_role("link", name="reference", exact=True).click()
    assert page.get_by_role("heading", name="c5 against the reference").is_visible()
    page.goto(site.base + site.pages["run-waiting"])
    page.get_by_role("textbox", name="To the Planner and the Coder").fill("a hint without a script")
    page.get_by_role("button", name="Send hint").click()
    assert page.url.endswith(site.pages["run-waiting"])
    page.context.close()


def test_the_file_chooser_puts_one_file_into_the_form(wide: Page, site: Site) -> None:
    wide.goto(site.base + "/upload/")
    wide.set_input_files("#files", {"name": "mine.py", "mimeType": "text/x-python", "buffer": b"import torch\n# mine\n"})
    expect(wide.locator("#text")).to_have_value(re.compile("# mine"), timeout=WAIT)
    assert wide.input_value("input[name=name]") == "mine"
    wide.get_by_text("Build them from shapes and types").click()
    wide.get_by_role("button", name="Add an argument").click()
    assert wide.get_by_role("textbox", name="Shape of argument 2").is_visible()


def test_a_diff_changes_side_in_place(wide: Page, site: Site) -> None:
    wide.complaints.clear()
    wide.goto(site.base + site.pages["run-done"])
    wide.get_by_role("link", name="reference", exact=True).click()
    wide.get_by_role("heading", name="c5 against the reference").wait_for(timeout=WAIT)
    assert wide.url.endswith(site.pages["run-done"])
    assert wide.complaints == []


def main_part(page: Page) -> str:
    return comparable(page.evaluate("document.getElementById('main').outerHTML"))


def test_a_page_that_lost_its_socket_ends_as_a_fresh_load(browser: Browser, site: Site) -> None:
    port = int(site.base.rsplit(":", 1)[1])
    with wire(port) as line:
        page = opened(browser, replace(site, base=line.base))
        page.goto(line.base + site.pages["run-live"])
        page.wait_for_selector("#live-state.ok-t", timeout=WAIT)
        page.fill("#main textarea[name=text]", "half a hint")
        before = int(page.inner_text("#live-seq"))

        last = site.tell(6)
        expect(page.locator("#live-seq")).to_have_text(str(last), timeout=WAIT)
        assert last == before + 6

        line.cut()
        page.wait_for_selector("#live-state.warn-t", timeout=WAIT)
        assert f"showing up to event {last}" in page.inner_text("#live-state")
        assert f"showing up to event {last}" in page.inner_text("#live-lost")
        missed = site.tell(8)
        assert page.inner_text("#live-seq") == str(last)

        line.mend()
        expect(page.locator("#live-seq")).to_have_text(str(missed), timeout=WAIT)
        expect(page.locator("#live-lost")).to_be_hidden()
        end = site.tell()
        expect(page.locator("#live-seq")).to_have_text(str(end), timeout=WAIT)
        assert page.input_value("#main textarea[name=text]") == "half a hint"
        seqs = page.evaluate("[...document.querySelectorAll('#event-rows li')].map(e => Number(e.id.slice(3)))")
        assert seqs == sorted(set(seqs), reverse=True)

        live = main_part(page)
        page.reload()
        page.wait_for_selector("#live-state.ok-t", timeout=WAIT)
        assert main_part(page) == live
        assert page.get_by_text("2.01×").first.is_visible()
        page.context.close()


AN_HOUR_AHEAD = """{
  const now = Date.now, origin = performance.timeOrigin;
  Date.now = () => now.call(Date) + 3600000;
  Object.defineProperty(performance, "timeOrigin", { value: origin + 3600000 });
}"""


def spent(page: Page) -> float:
    """Seconds of wall time as the page shows them."""
    units = {"h": 3600, "min": 60, "s": 1}
    return sum(float(n) * units[unit] for n, unit in re.findall(r"([\d.]+)\s(h|min|s)\b", page.inner_text("[data-ticks] b")))


@pytest.mark.parametrize("script", ["{}", AN_HOUR_AHEAD])
def test_wall_time_ticks_by_the_servers_clock_whatever_the_readers_says(browser: Browser, site: Site, script: str) -> None:
    page = opened(browser, site, motion="no-preference")
    page.add_init_script(script)
    page.goto(site.base + site.pages["run-building"])
    box = page.locator("[data-ticks]")
    left = float(box.get_attribute("data-spent") or "") - float(box.get_attribute("data-from") or "")
    before = left + time.time()
    page.wait_for_function(
        "had => document.querySelector('[data-ticks] b').textContent !== had", arg=box.locator("b").inner_text()
    )
    shown = spent(page)
    assert before - 1 <= shown <= left + time.time() + 1
    share = float(page.get_attribute("[data-ticks] + .bar rect:last-child", "width").rstrip("%"))  # type: ignore[union-attr]
    assert share == pytest.approx(min(100.0, 100 * shown / float(box.get_attribute("data-bound") or "")), abs=0.3)
    page.context.close()


def test_wall_time_stands_still_in_tens_for_who_wants_less_motion_and_when_the_run_has_ended(wide: Page, site: Site) -> None:
    wide.goto(site.base + site.pages["run-building"])
    wide.wait_for_function("/0\\s*s$|min$/.test(document.querySelector('[data-ticks] b').textContent)")
    wide.goto(site.base + site.pages["run-done"])
    assert wide.locator("[data-ticks]").count() == 0


def test_a_replay_is_asked_for_and_cancelled_in_place_and_without_a_script(browser: Browser, site: Site) -> None:
    page = opened(browser, site)
    page.goto(site.base + site.pages["run-replayed"])
    page.wait_for_selector("#live-state.ok-t", timeout=WAIT)
    page.get_by_role("button", name="Cancel the replay of draw 4").click()
    expect(page.locator("#steer-answer")).to_contain_text("no such replay", timeout=WAIT)  # the told world has no jobs
    page.context.close()
    page = opened(browser, site, script=False)
    page.goto(site.base + site.pages["run-replayed"])
    assert page.get_by_text("replayed: the same to the bit").is_visible()
    page.get_by_role("button", name="Replay draw 1").click()
    assert "not stored here any more" in page.inner_text("[role=alert].note")
    page.context.close()


def test_the_gallery_filters_by_form_and_a_program_is_reached_by_its_anchor(wide: Page, site: Site) -> None:
    wide.goto(site.base + "/gallery/")
    wide.get_by_label("Class").select_option("output_cache")
    wide.get_by_label("Target").select_option("cpu")
    wide.get_by_role("button", name="Show programs").click()
    wide.get_by_role("link", name="by shape").click()
    assert wide.url.endswith("/gallery/output_cache/#by_shape")
    assert wide.locator("#by_shape table.code").first.is_visible()


def test_a_viewer_sees_no_controls(browser: Browser, site: Site) -> None:
    page = opened(browser, site, who="vera")
    page.goto(site.base + site.pages["run-waiting"])
    assert page.get_by_role("button", name="Cancel").count() == 0
    assert page.get_by_text("you can watch, not steer").is_visible()
    page.context.close()


def test_a_socket_of_somebody_outside_is_told_that_the_run_is_gone(browser: Browser, site: Site) -> None:
    page = opened(browser, site, who="oscar")
    code = page.evaluate(
        "path => new Promise(done => { const s = new WebSocket(location.origin.replace('http', 'ws') + path);"
        "s.onclose = event => done(event.code); })",
        f"/ws/runs/{site.live_pk}/?since=0",
    )
    assert code == 4404
    page.context.close()


def test_static_files_carry_their_content_in_their_name(site: Site) -> None:
    html = urllib.request.urlopen(f"{site.base}/login/").read().decode()
    sheets = re.findall(r'href="(/static/css/[^"]+)"', html)
    assert sheets
    assert all(re.search(r"\.[0-9a-f]{12}\.css$", sheet) for sheet in sheets), json.dumps(sheets)
