"""What a judge says stands on a run's page by itself, goes where the run goes, and stands there without scripts as a link."""

from __future__ import annotations

from dataclasses import replace

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.browsing import WAIT, opened, violations
from tests.e2e.site import Site

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (360, "dark")])
def test_a_runs_page_and_a_comparison_show_it_and_stay_quiet(browser: Browser, site: Site, width: int, theme: str) -> None:
    page = opened(browser, site, width=width, theme=theme, who="june")
    for name, words in (
        ("judged-run", "Chance of a major hack"), ("judged-compare", "Judge on c2 of run"), ("judged-broken", "It broke"),
        ("judged-not-yet", "has not scored"), ("judged-upload", "A judge between equals"),
    ):  # fmt: skip
        page.goto(site.base + site.everybody[name][1])
        expect(page.get_by_text(words).first).to_be_visible(timeout=WAIT)
        assert page.evaluate("document.documentElement.scrollWidth") == width, name
        assert violations(page) == [], name
    assert page.complaints == []
    page.context.close()


def test_it_follows_the_run_to_the_next_candidate(browser: Browser, site: Site) -> None:
    place = site.everybody["judged-live"][1]
    page = opened(browser, site, who="june")
    page.goto(site.base + place)
    page.wait_for_selector("#live-state.ok-t", timeout=WAIT)
    shown = str(page.get_attribute("#focus", "data-candidate"))
    expect(page.locator("#judged h2")).to_have_text(f"Judge on {shown}", timeout=WAIT)
    replace(site, live_pk=int(place.split("/")[2])).tell()
    expect(page.locator("#focus")).not_to_have_attribute("data-candidate", shown, timeout=WAIT)
    now = str(page.get_attribute("#focus", "data-candidate"))
    expect(page.locator("#judged h2")).to_have_text(f"Judge on {now}", timeout=WAIT)
    assert page.complaints == []
    page.context.close()


def test_without_scripts_a_link_leads_to_it(browser: Browser, site: Site) -> None:
    page = opened(browser, site, who="june", script=False)
    page.goto(site.base + site.everybody["judged-run"][1])
    page.get_by_role("link", name="What the local judge 3 says of c5").click()
    expect(page.get_by_role("heading", name="Judge on c5")).to_be_visible()
    page.context.close()


def test_a_reviewer_reads_why_an_item_stands_where_it_does_and_no_score(browser: Browser, site: Site) -> None:
    page = opened(browser, site, who="rhea")
    page.goto(site.base + site.everybody["judged-item"][1])
    expect(page.get_by_text("a judge").first).to_be_visible()
    assert "handles its own memory" not in page.content()
    answer = page.goto(site.base + site.everybody["judged-closed"][1])
    assert answer is not None
    assert answer.status == 403
    page.context.close()
