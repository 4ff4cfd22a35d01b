"""Accounts and teams in a real browser: quiet, accessible, on a phone; a passkey that is made and lets in; the switch."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.browsing import opened, violations
from tests.e2e.site import Site

pytestmark = pytest.mark.e2e

MINE = [
    "account", "addresses", "password-set", "factors", "app-add", "passkeys", "passkey-add", "elsewhere", "account-delete",
    "teams", "team", "team-delete",
]  # fmt: skip
ENTRANCES = ["login", "password-reset", "code", "signup-closed", "invitation-stranger"]

GUARDED = """import django; django.setup()
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP
from stitchweb.teams.services import create_user
mia = create_user("mia@example.org", name="Mia")
TOTP.activate(mia, "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP")
RecoveryCodes.activate(mia)
print(Authenticator.objects.create(user=mia, type="webauthn", data={"name": "This laptop", "credential": {}}).pk)
"""


@pytest.fixture(scope="module", params=[(1280, "light"), (360, "dark")], ids=["wide", "narrow"])
def mine(browser: Browser, site: Site, request: pytest.FixtureRequest) -> Page:
    width, theme = request.param
    return opened(browser, site, width=width, theme=theme)


def looks_well(page: Page) -> None:
    width = page.viewport_size["width"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert violations(page) == []


def test_ones_own_pages_are_quiet_and_accessible(mine: Page, site: Site) -> None:
    for name in MINE:
        mine.complaints.clear()
        mine.goto(site.base + site.pages[name])
        looks_well(mine)
        assert mine.complaints == [], name


@pytest.mark.parametrize("width", [1280, 360])
def test_entrances_are_accessible(browser: Browser, site: Site, width: int) -> None:
    page = browser.new_context(viewport={"width": width, "height": 900}, color_scheme="dark").new_page()
    for name in ENTRANCES:
        page.goto(site.base + site.everybody[name][1])
        looks_well(page)


def test_a_passkey_is_made_and_lets_in(browser: Browser, site: Site) -> None:
    base = site.base.replace("127.0.0.1", "localhost")  # a passkey belongs to a name
    page = browser.new_context().new_page()
    page.goto(base + site.login("ada"))
    wire = page.context.new_cdp_session(page)
    wire.send("WebAuthn.enable")
    key = {
        "protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True,
        "isUserVerified": True, "automaticPresenceSimulation": True,
    }  # fmt: skip
    wire.send("WebAuthn.addVirtualAuthenticator", {"options": key})
    page.goto(f"{base}/account/2fa/webauthn/add/")
    page.fill("input[name=name]", "This laptop")
    page.get_by_role("checkbox").check()
    page.get_by_role("button", name="Add it").click()
    page.wait_for_url(lambda url: "/add/" not in url)
    page.goto(f"{base}/account/")
    expect(page.get_by_text("passkey", exact=True)).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    page.goto(f"{base}/login/?next=/teams/")
    page.get_by_role("button", name="With a passkey").click()
    page.wait_for_url(f"{base}/teams/")
    expect(page.get_by_role("heading", name="Teams", exact=True)).to_be_visible()


def test_factors_are_seen_and_each_is_ended_by_a_button_in_sight(browser: Browser, site: Site) -> None:
    key = site._python(GUARDED).strip()
    page = opened(browser, site, who="mia", width=360, theme="dark")
    for place in ("", "webauthn/", f"webauthn/keys/{key}/edit/", "recovery-codes/"):
        page.goto(f"{site.base}/account/2fa/{place}")
        looks_well(page)
    expect(page.locator("#codes li")).to_have_count(10)
    for place, name in (
        ("recovery-codes/generate/", "Make them"), (f"webauthn/keys/{key}/remove/", "Remove it"),
        ("totp/deactivate/", "Turn it off"),
    ):  # fmt: skip
        page.goto(f"{site.base}/account/2fa/{place}")
        looks_well(page)
        page.get_by_role("button", name=name).click()
        page.wait_for_url(lambda url, place=place: place not in url)
    page.goto(f"{site.base}/account/2fa/")
    expect(page.get_by_text("off", exact=True)).to_be_visible()
    assert page.complaints == []
    page.context.close()


def test_wide_tables_of_the_operator_scroll_in_their_frame(browser: Browser, site: Site) -> None:
    page = opened(browser, site, who="opal", width=360)
    for name in ("operate-teams", "operate-queue"):
        page.goto(site.base + site.everybody[name][1])
        looks_well(page)
    page.context.close()


def test_a_passkey_at_a_number_is_refused_with_the_way_out(browser: Browser, site: Site) -> None:
    page = opened(browser, site, who="vera")
    page.goto(f"{site.base}/account/2fa/webauthn/add/")
    page.get_by_role("button", name="Add it").click()
    expect(page.get_by_role("alert")).to_contain_text("localhost")


def test_the_switch_opens_in_the_bar_and_chooses(browser: Browser, site: Site) -> None:
    page = opened(browser, site)
    page.get_by_role("button", name="All teams").click()
    page.get_by_role("button", name="Kernel team").click()
    page.wait_for_url(site.base + "/")
    expect(page.get_by_role("button", name="Kernel team")).to_be_visible()
