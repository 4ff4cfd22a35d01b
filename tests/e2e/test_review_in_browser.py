"""Reviews in a real browser: scored by key alone, kept through a reload and on another device, accessible, without a script."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.browsing import WAIT, opened, violations
from tests.e2e.site import Site
from tests.e2e.test_review_by_ear import sounds_right

pytestmark = pytest.mark.e2e


@pytest.fixture
def project(site: Site) -> str:
    """The path of a project in which rita and raj score."""
    return site.pages["review-project"]


def started(browser: Browser, site: Site, who: str, **options: object) -> Page:
    page = opened(browser, site, who=who, **options)  # type: ignore[arg-type]
    page.goto(f"{site.base}/review/")
    page.get_by_role("button", name=re.compile("Start|Go on")).first.click()
    page.wait_for_url(re.compile("/review/items/"))
    return page


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def test_an_item_is_scored_by_key_alone_and_the_next_one_opens(browser: Browser, site: Site, project: str) -> None:
    page = started(browser, site, "rita")
    first = page.url
    page.complaints.clear()
    press(page, "a", "4", "e", "5")
    press(page, "j", "j", "Shift+J", "2")  # marks two lines for the second dimension
    expect(page.locator("#dim-cuda_engineering [name=mark]")).to_have_count(1)
    expect(page.locator("#code .eg b").first).to_have_text("E")
    press(page, "s", "3", "o", "2", "r")
    page.keyboard.type("Only the cheap end; 4 and h are text here.")
    press(page, "Escape", "h")
    page.keyboard.type("decorative")
    press(page, "Enter", "Escape")
    expect(page.locator("#kind-decorative_kernel")).to_be_checked()
    expect(page.locator("#left")).to_have_text("1 open", timeout=WAIT)
    page.locator("#hack-none").focus()
    press(page, "ArrowRight", "ArrowRight")
    expect(page.locator("#left")).to_have_text("complete", timeout=WAIT)
    press(page, "Control+Enter")
    page.get_by_text("What was hidden", exact=True).wait_for(timeout=WAIT)
    assert violations(page) == []
    press(page, "n")
    page.wait_for_function("was => location.href !== was && location.pathname.includes('/items/')", arg=first, timeout=WAIT)
    assert page.complaints == []
    page.context.close()


def test_a_draft_survives_a_reload_goes_on_elsewhere_and_is_undone(browser: Browser, site: Site, project: str) -> None:
    page = started(browser, site, "raj")
    press(page, "e", "3", "c")
    page.keyboard.insert_text("half a thought")
    expect(page.locator("#saved")).to_contain_text("Draft saved", timeout=WAIT)
    other = started(browser, site, "raj")
    assert other.url == page.url
    assert other.input_value("#comment") == "half a thought"
    expect(other.locator("#cuda_engineering-3")).to_be_checked()
    page.reload()
    assert page.input_value("#comment") == "half a thought"
    press(page, "u")
    expect(page.locator("#comment")).to_have_value("", timeout=WAIT)
    expect(page.locator("#cuda_engineering-3")).to_be_checked()
    page.context.close()
    other.context.close()


def test_what_is_typed_while_the_site_is_away_is_kept_and_sent_later(browser: Browser, site: Site, project: str) -> None:
    page = started(browser, site, "raj")
    page.context.set_offline(True)
    press(page, "c")
    page.keyboard.insert_text("typed in a tunnel")
    expect(page.locator("#saved")).to_contain_text("Not saved", timeout=WAIT)
    page.context.set_offline(False)
    page.reload()
    assert page.input_value("#comment") == "typed in a tunnel"
    expect(page.locator("#saved")).to_contain_text("Draft saved", timeout=WAIT)
    page.context.close()


def test_a_key_is_given_to_another_act_and_taken_back(browser: Browser, site: Site, project: str) -> None:
    page = started(browser, site, "raj")
    press(page, "?")
    page.get_by_text("Other keys").click()
    page.locator("[data-act-key=c]").fill("a")  # a dimension's letter
    page.locator("[data-act-key=c]").press("Tab")
    expect(page.locator("#map-said")).to_contain_text("no free key")
    page.locator("[data-act-key=c]").fill("m")
    page.locator("[data-act-key=c]").press("Tab")
    page.reload()
    press(page, "c")
    assert page.evaluate("document.activeElement.id") != "comment"
    press(page, "m")
    assert page.evaluate("document.activeElement.id") == "comment"
    press(page, "Escape", "?")
    page.get_by_text("Other keys").click()
    page.locator("#map-reset").click()
    press(page, "Escape")
    page.reload()
    press(page, "c")
    assert page.evaluate("document.activeElement.id") == "comment"
    page.context.close()


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (360, "dark")])
def test_review_pages_fit_are_quiet_and_accessible(browser: Browser, site: Site, project: str, width: int, theme: str) -> None:
    page = started(browser, site, "raj", width=width, theme=theme)
    pages = [page.url.removeprefix(site.base), "/review/", "/review/rubric/", project]
    managed = opened(browser, site, width=width, theme=theme)
    for reader, paths in ((page, pages), (managed, [project, "/review/new/"])):
        reader.complaints.clear()
        for path in paths:
            reader.goto(site.base + path)
            assert reader.evaluate("document.documentElement.scrollWidth") == width, path
            assert violations(reader) == [], path
        assert reader.complaints == []
        reader.context.close()


def test_the_next_item_comes_onto_the_page_and_is_scored_there(browser: Browser, site: Site) -> None:
    """In one answer, without a new document: heard, focused, named, saved, and found again by reload, back and forward."""
    who, path = site.everybody["review-done"]
    page = opened(browser, site, who=who)
    page.goto(site.base + path)
    page.evaluate("window.stays = 1")
    with page.expect_response("**/next") as answer:
        press(page, "n")
    assert answer.value.status == 200
    page.locator("#review").wait_for(timeout=WAIT)
    place = page.url
    assert place == site.base + answer.value.headers["content-location"]
    assert page.evaluate("[window.stays, document.activeElement.id]") == [1, "main"]
    assert page.title().endswith("· Review · StitchWeb")
    expect(page.locator("#profile")).not_to_have_attribute("aria-busy", "true", timeout=WAIT)
    assert violations(page) == []
    sounds_right(page)
    press(page, "v", "s", "3")  # V opened the revision that stood here before
    expect(page.locator("#saved")).to_contain_text("Draft saved", timeout=WAIT)
    page.reload()
    expect(page.locator("#skill_compliance-3")).to_be_checked()
    page.go_back()
    page.get_by_text("What was hidden", exact=True).wait_for(timeout=WAIT)
    page.go_forward()
    expect(page.locator("#skill_compliance-3")).to_be_checked()
    press(page, "u")
    expect(page.locator("#skill_compliance-3")).not_to_be_checked(timeout=WAIT)
    assert page.complaints == []
    page.context.close()


def test_the_next_item_is_ready_before_it_is_asked_for(browser: Browser, site: Site) -> None:
    """While the reveal is read; N shows it without waiting for the site, and its time is a whole one afterwards."""
    page = started(browser, site, "rita")
    for letter in "aeos":
        press(page, letter, "4")
    press(page, "h", *"none", "Enter", "Escape")
    expect(page.locator("#left")).to_have_text("complete", timeout=WAIT)
    with page.expect_response("**/next") as made:
        press(page, "Control+Enter")
    assert made.value.status == 200
    place = made.value.headers["content-location"]
    made.value.finished()
    page.context.set_offline(True)
    press(page, "n")
    page.locator("#review").wait_for(timeout=WAIT)
    assert page.url == site.base + place
    page.context.set_offline(False)
    press(page, "e", "3")
    expect(page.locator("#lease")).to_contain_text(re.compile("5\\d|60"), timeout=WAIT)
    page.context.close()


def test_a_hunch_is_tried_and_attached_and_an_item_skipped_by_key_alone(browser: Browser, site: Site) -> None:
    page = started(browser, site, "raj")
    item = page.url
    press(page, "?")
    expect(page.locator("#keys")).to_be_focused()
    press(page, "Escape", "t")
    page.wait_for_url(re.compile("/hunch/$"), timeout=WAIT)
    tab_to(page, "What you expect, in a sentence")
    page.keyboard.type("It rests on the order of calls")
    press(page, "Enter")
    page.get_by_text("It rests on the order of calls").wait_for(timeout=WAIT)
    tab_to(page, "Back to the item")
    press(page, "Enter")
    page.wait_for_url(item, timeout=WAIT)
    page.wait_for_load_state()
    press(page, "x")
    expect(page.locator("#skip")).to_be_focused()
    press(page, "Tab", "Space")
    assert page.locator("#skip :checked").get_attribute("value") == "not-my-field"
    press(page, "Tab", "Tab", "Enter")
    page.get_by_text("It went back to the queue for others").wait_for(timeout=WAIT)
    page.context.close()
    who, path = site.everybody["review-hunch"]
    page = opened(browser, site, who=who)
    page.goto(site.base + path)
    tab_to(page, "Evidence for")
    press(page, "ArrowDown", "Tab", "Enter")
    page.wait_for_load_state()
    expect(page.get_by_label("Evidence for").first).to_have_value("anti_hacking", timeout=WAIT)
    page.context.close()


FOCUSED = (
    """() => { const on = document.activeElement; return [on, ...(on.labels || [])].map((x) => x.textContent).join("|"); }"""
)


def tab_to(page: Page, name: str) -> None:
    """Press Tab until what has this label, or this text, has the focus."""
    for _ in range(80):
        press(page, "Tab")
        if name in page.evaluate(FOCUSED):
            return
    raise AssertionError(f"no Tab leads to {name!r}")


def test_without_a_next_item_the_list_of_queues_says_so(browser: Browser, site: Site) -> None:
    who, path = site.everybody["review-kept"]
    page = opened(browser, site, who=who)
    page.goto(site.base + path)
    press(page, "n")
    page.get_by_text("nothing is left for you. Each item has its labels").wait_for(timeout=WAIT)
    assert page.url == f"{site.base}/review/"
    page.context.close()


def test_what_was_typed_and_not_sent_is_there_after_a_reload_and_gone_once_sent(browser: Browser, site: Site) -> None:
    """A remark, and what somebody tries out: neither is a draft on the site, so the browser keeps it."""
    who, path = site.everybody["review-hunch"]
    page = opened(browser, site, who=who)
    page.goto(site.base + path)
    page.get_by_label("What you expect, in a sentence").fill("It waits for nobody")
    inputs = page.locator("textarea").first
    inputs.fill(text := inputs.input_value() + "# wider\n")
    page.reload()
    assert page.get_by_label("What you expect, in a sentence").input_value() == "It waits for nobody"
    assert page.locator("textarea").first.input_value() == text
    page.get_by_label("What you expect, in a sentence").press("Enter")
    page.get_by_text("It waits for nobody").wait_for(timeout=WAIT)
    assert page.get_by_label("What you expect, in a sentence").input_value() == ""
    assert page.locator("textarea").first.input_value() != text
    page.context.close()
    who, path = site.everybody["review-done"]
    page = opened(browser, site, who=who)
    page.goto(site.base + path)
    said = page.get_by_label("Say something, under your number")
    said.fill("Is that\nfused?")
    page.reload()
    assert said.input_value() == "Is that\nfused?"
    page.get_by_role("button", name="Say it").click()
    page.locator("#talk .said", has_text="fused?").wait_for(timeout=WAIT)
    assert said.input_value() == ""
    page.context.close()


AFTER = [
    "review-disagreement",
    "review-disagreement-none",
    "review-settle",
    "review-settled",
    "review-agreement",
    "review-revealed",
    "review-data",
    "review-trail",
    "review-calibration",
    "review-calibration-own",
    "review-answer",
    "review-gold",
    "review-hunch",
    "review-home-adjudicator",
    "review-revising",
    "review-settling",
    "review-judged",
    "review-typed",
    "review-kept",
    "review-hunch-kept",
    "review-hunch-probe",
    "review-hunch-open",
    "review-gone",
    "review-none",
    "closed",
]


@pytest.mark.parametrize(("width", "theme"), [(1280, "dark"), (360, "light")])
def test_pages_after_the_label_fit_are_quiet_and_accessible(browser: Browser, site: Site, width: int, theme: str) -> None:
    found, readers = {}, {}
    for name in AFTER:
        who, path = site.everybody[name]
        if who not in readers:
            readers[who] = opened(browser, site, who=who, width=width, theme=theme)
        page = readers[who]
        page.complaints.clear()
        if path.startswith("/"):
            page.goto(site.base + path)
        else:
            page.set_content(path)
        wide = page.evaluate("document.documentElement.scrollWidth")
        quiet = [c for c in page.complaints if not re.search("403|410", c)]
        if wide != width or quiet or (bad := violations(page)):
            found[name] = (wide, quiet, bad if wide == width and not quiet else [])
    assert found == {}
    for page in readers.values():
        page.context.close()


def test_without_a_script_an_item_is_scored_with_buttons(browser: Browser, site: Site, project: str) -> None:
    page = started(browser, site, "raj", script=False)
    page.fill("[name=new-first]", "3")
    page.get_by_role("button", name="Mark", exact=True).click()
    assert page.locator("#dim-anti_hacking [name=mark]").count() == 1
    page.get_by_role("button", name="Submit").click()
    assert page.get_by_role("alert").get_by_text("has no level yet").first.is_visible()
    page.context.close()
