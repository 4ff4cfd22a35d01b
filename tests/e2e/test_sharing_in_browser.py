"""Publications in a real browser: quiet, accessible, on a phone, seen by strangers, with a password and without a script."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.browsing import WAIT, opened, violations
from tests.e2e.site import Site

pytestmark = pytest.mark.e2e

PAGES = [
    "published", "published-found", "published-none", "publish", "publication", "publication-diff", "publication-edit",
    "shares", "collections", "collection", "compare", "compare-two", "compare-apart", "leaderboard", "leaderboard-reference",
]  # fmt: skip
STRANGE = ["shared", "shared-locked", "shared-gone"]


@pytest.fixture(scope="module")
def wide(browser: Browser, site: Site) -> Page:
    return opened(browser, site)


@pytest.fixture(scope="module")
def narrow(browser: Browser, site: Site) -> Page:
    return opened(browser, site, width=360, theme="dark")


@pytest.fixture
def stranger(browser: Browser) -> Page:
    page = browser.new_context(viewport={"width": 360, "height": 900}, color_scheme="dark").new_page()
    page.complaints = []
    page.on("console", lambda m: page.complaints.append(m.text) if m.type in ("error", "warning") else None)
    yield page
    page.context.close()


def path(site: Site, name: str) -> str:
    return site.base + site.everybody[name][1]


def test_wide_light_pages_are_quiet_and_accessible(wide: Page, site: Site) -> None:
    for name in PAGES:
        wide.complaints.clear()
        wide.goto(path(site, name))
        assert violations(wide) == [], name
        assert wide.complaints == [], name


def test_narrow_dark_pages_fit_are_quiet_and_accessible(narrow: Page, site: Site) -> None:
    for name in PAGES:
        narrow.complaints.clear()
        narrow.goto(path(site, name))
        assert narrow.evaluate("document.documentElement.scrollWidth") == 360, name
        assert violations(narrow) == [], name
        assert narrow.complaints == [], name


def test_what_strangers_see_is_quiet_accessible_and_fits_a_phone(stranger: Page, site: Site) -> None:
    for name in STRANGE:
        stranger.complaints.clear()
        stranger.goto(path(site, name))
        assert stranger.evaluate("document.documentElement.scrollWidth") == 360, name
        assert violations(stranger) == [], name
        assert [c for c in stranger.complaints if "410" not in c] == [], name


def test_a_file_is_shown_in_place(wide: Page, site: Site) -> None:
    wide.goto(path(site, "publication"))
    wide.locator("#code").get_by_role("link", name="model_new.py", exact=True).click()
    expect(wide.get_by_role("region", name="Text of model_new.py")).to_be_visible(timeout=WAIT)
    wide.locator("#code").get_by_role("link", name="from the reference").click()
    expect(wide.locator("#code table.diff")).to_be_visible(timeout=WAIT)


def test_a_link_is_made_opened_with_its_password_and_revoked_without_a_script(browser: Browser, site: Site) -> None:
    page = opened(browser, site, script=False)
    page.goto(path(site, "shares"))
    page.get_by_label("Code, the reference and a wheel to install").check()
    page.get_by_label("Password, of at least 8 characters; empty for none").fill("correct horse")
    page.get_by_role("button", name="Make the link").click()
    address = page.inner_text("#made-page")
    guest = browser.new_context(java_script_enabled=False).new_page()
    guest.goto(site.base + "/s/" + address.split("/s/")[1])
    guest.get_by_label("Password").fill("wrong horse")
    guest.get_by_role("button", name="Open").click()
    expect(guest.get_by_text("That is not the password of this link.")).to_be_visible()
    guest.get_by_label("Password").fill("correct horse")
    guest.get_by_role("button", name="Open").click()
    assert guest.get_by_role("heading", name="LayerNorm + GELU v2").is_visible()
    assert guest.get_by_role("region", name="Text of kernels/ln_gelu.cpp").is_visible()
    page.get_by_role("button", name="Revoke").first.click()
    guest.reload()
    assert guest.get_by_role("heading", name="Nothing is shared here any more").is_visible()
    guest.context.close()
    page.context.close()
