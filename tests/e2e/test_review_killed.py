"""The web process dies by SIGKILL while somebody types a review: nothing that was typed is lost."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.browsing import WAIT, opened
from tests.e2e.site import Site, told_site, wait_until_served, web_process
from tests.e2e.test_review_in_browser import press, started
from tools.screens import pages_of

pytestmark = pytest.mark.e2e


@pytest.fixture
def bare_site() -> Iterator[Site]:
    """A site without a web process, with a review project in it."""
    with told_site(web=False) as site:
        site.everybody = pages_of(site)
        yield site


def killed(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait(10)


def test_what_is_typed_before_and_after_the_death_of_the_web_process_is_there(browser: Browser, bare_site: Site) -> None:
    site, port = bare_site, int(bare_site.base.rsplit(":", 1)[1])
    with web_process(port, site.env) as first:
        wait_until_served(site.base)
        page = started(browser, site, "raj")
        press(page, "e", "3", "c")
        page.keyboard.insert_text("before. ")
        expect(page.locator("#saved")).to_contain_text("Draft saved", timeout=WAIT)
        page.keyboard.insert_text("at that moment. ")  # on its way, or not yet sent
        killed(first)
        page.keyboard.insert_text("after.")
        press(page, "Escape", "o", "4")
        expect(page.locator("#saved")).to_contain_text("Not saved", timeout=WAIT)
    with web_process(port, site.env):
        wait_until_served(site.base)
        expect(page.locator("#saved")).to_contain_text("Draft saved", timeout=WAIT)
        other = opened(browser, site, who="raj")  # another device: what it shows comes from the site alone
        other.goto(page.url)
        assert other.input_value("#comment") == "before. at that moment. after."
        expect(other.locator("#cuda_engineering-3")).to_be_checked()
        expect(other.locator("#operator_coverage-4")).to_be_checked()
        other.context.close()
        page.context.close()


@pytest.mark.parametrize(("name", "opens"), [("review-revealed", "v"), ("review-settle", "")])
def test_a_label_given_with_open_eyes_survives_it_too(browser: Browser, bare_site: Site, name: str, opens: str) -> None:
    """A revision and a final label: typed before, at and after the death of the process, and seen on another device."""
    site, port = bare_site, int(bare_site.base.rsplit(":", 1)[1])
    who, path = site.everybody[name]
    with web_process(port, site.env) as first:
        wait_until_served(site.base)
        page = opened(browser, site, who=who)
        page.goto(f"{site.base}{path}")
        press(page, *opens, "a", "2", "r")
        page.keyboard.insert_text("before. ")
        expect(page.locator("#saved")).to_have_text("Draft saved", timeout=WAIT)
        page.keyboard.insert_text("at that moment. ")
        killed(first)
        page.keyboard.insert_text("after.")
        press(page, "Escape", "e", "4")
        expect(page.locator("#saved")).to_contain_text("Not saved", timeout=WAIT)
    with web_process(port, site.env):
        wait_until_served(site.base)
        expect(page.locator("#saved")).to_have_text("Draft saved", timeout=WAIT)
        other = opened(browser, site, who=who)
        other.goto(page.url)
        assert other.input_value("#reason") == "before. at that moment. after."
        expect(other.locator("#anti_hacking-2")).to_be_checked()
        expect(other.locator("#cuda_engineering-4")).to_be_checked()
        assert other.locator("#saved").inner_text() == "Draft kept"
        other.context.close()
        page.context.close()


def test_a_draft_is_there_when_process_and_browser_died_together(browser: Browser, bare_site: Site) -> None:
    site, port = bare_site, int(bare_site.base.rsplit(":", 1)[1])
    with web_process(port, site.env) as first:
        wait_until_served(site.base)
        page = started(browser, site, "raj")
        press(page, "a", "4", "c")
        page.keyboard.insert_text("half a thought")
        expect(page.locator("#saved")).to_contain_text("Draft saved", timeout=WAIT)
        address = page.url
        killed(first)
        page.context.close()
    with web_process(port, site.env):
        wait_until_served(site.base)
        other = opened(browser, site, who="raj")
        other.goto(address)
        assert other.input_value("#comment") == "half a thought"
        expect(other.locator("#anti_hacking-4")).to_be_checked()
        other.context.close()
