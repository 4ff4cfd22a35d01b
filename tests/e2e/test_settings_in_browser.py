"""Notifications, tokens, web hooks and the page about the API in a real browser: accessible, quiet, within a telephone."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.browsing import opened, violations
from tests.e2e.site import Site

pytestmark = pytest.mark.e2e
PAGES = ["notifications", "notification-settings", "tokens", "hooks", "hook", "api-docs"]


@pytest.fixture(scope="module")
def wide(browser: Browser, site: Site) -> Page:
    return opened(browser, site)


def test_the_pages_are_quiet_and_accessible_and_fit(browser: Browser, site: Site, wide: Page) -> None:
    narrow = opened(browser, site, width=360, theme="dark")
    for page in (wide, narrow):
        for name in PAGES:
            page.complaints.clear()
            page.goto(site.base + site.pages[name])
            assert violations(page) == [], name
            assert page.complaints == [], name
            if page is narrow:
                assert page.evaluate("document.documentElement.scrollWidth") == 360, name
    narrow.close()


def test_the_bell_counts_and_a_notification_leads_on(site: Site, wide: Page) -> None:
    wide.goto(site.base + site.pages["notification-settings"])
    bell = wide.get_by_role("link", name=re.compile(r"Notifications, \d+ unread"))
    unread = int(bell.inner_text())
    bell.click()
    wide.get_by_role("button", name="Run 12").click()
    assert wide.url.endswith("/runs/")
    expect(wide.get_by_role("link", name=f"Notifications, {unread - 1} unread")).to_be_visible()


def test_a_token_is_made_by_key_alone_and_shown_once(site: Site, wide: Page) -> None:
    wide.goto(site.base + site.pages["tokens"])
    wide.get_by_label("Name: what it is for").focus()
    wide.keyboard.type("by key")
    wide.keyboard.press("Enter")
    expect(wide.locator("#secret")).to_contain_text("stw_")
    assert violations(wide) == []
    wide.goto(site.base + site.pages["tokens"])
    expect(wide.locator("#secret")).to_have_count(0)
    wide.get_by_role("button", name="Revoke by key").click()
    expect(wide.get_by_role("status").first).to_contain_text("is revoked")
