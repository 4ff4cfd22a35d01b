"""The main navigation on a phone: a menu below the bar that fits, opens without a script, and is used by key."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.browsing import opened, violations
from tests.e2e.site import Site

pytestmark = pytest.mark.e2e

PLACES = ["Library", "Runs", "Published", "Upload", "Review", "Datasets", "Models", "Profiles", "Status"]
OWN = ["", "All teams", "Ada", "Sign out"]  # the bell has no word, and a number where there is news


def focused(page: Page) -> str:
    return str(page.evaluate("document.activeElement.textContent.trim()"))


@pytest.mark.parametrize(("theme", "script"), [("light", True), ("dark", False)])
def test_the_menu_opens_and_closes_by_key_and_leads_on(browser: Browser, site: Site, theme: str, script: bool) -> None:
    page = opened(browser, site, width=360, theme=theme, script=script)
    page.goto(site.base + site.pages["profiles"])
    button, places = page.get_by_role("button", name="Menu"), page.get_by_role("navigation", name="Main")
    expect(places).to_be_hidden()
    button.focus()
    page.keyboard.press("Enter")
    expect(places).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert places.evaluate("e => e.scrollWidth <= e.clientWidth"), "all of them fit"
    if script:
        assert violations(page) == []
    seen = []
    for _ in [*PLACES, *OWN]:
        page.keyboard.press("Tab")
        seen.append(focused(page).strip("0123456789"))
    assert seen == [*PLACES, *OWN]
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Escape")
    expect(places).to_be_hidden()
    assert focused(page) == "Menu"
    page.keyboard.press("Space")
    page.get_by_role("link", name="Runs", exact=True).click()
    expect(page).to_have_url(f"{site.base}/runs/")
    assert page.complaints == []


def test_a_wide_bar_has_the_places_in_it_and_a_turned_phone_gets_them(browser: Browser, site: Site) -> None:
    page = opened(browser, site, width=360)
    page.get_by_role("button", name="Menu").click()
    page.set_viewport_size({"width": 900, "height": 400})
    current = page.get_by_role("navigation", name="Main").get_by_role("link", name="Library")
    expect(current).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Menu")).to_be_hidden()
    bar, link = page.locator(".top").bounding_box(), current.bounding_box()
    assert bar is not None
    assert link is not None
    assert bar["y"] <= link["y"] < link["y"] + link["height"] <= bar["y"] + bar["height"]
