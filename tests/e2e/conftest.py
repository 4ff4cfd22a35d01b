"""A real browser for whole sites."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.e2e.site import CHROMIUM, FLAGS, Site, told_site
from tools.screens import pages_of


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    """The told world with every state of its pages. Shared: who changes something there makes it first."""
    with told_site() as site:
        site.everybody = pages_of(site)
        site.pages |= {name: place for name, (who, place) in site.everybody.items() if who == "ada"}
        yield site
