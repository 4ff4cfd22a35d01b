"""The review as a screen reader hears it: nothing but Chromium's accessibility tree tells where to go, keys alone go there."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.e2e.browsing import WAIT, opened
from tests.e2e.site import Site

pytestmark = pytest.mark.e2e

MAKE = """
import django; django.setup()
from stitchweb.review.models import Rubric
from stitchweb.review.services.labels import set_adjudicators
from stitchweb.review.services.projects import Filters, create_project, fill, set_reviewers
from stitchweb.teams.models import Role, Team, User
from stitchweb.teams.services import create_user, set_role
owner, team = User.objects.get(email="ada@example.org"), Team.objects.get(name="Kernel team")
people = [create_user(f"{name}@example.org", name=name.title()) for name in ("ottilie", "ottokar", "ottmar")]
for person in people:
    set_role(team, person, Role.REVIEWER)
project = create_project(owner, team, Rubric.objects.get(key="kernels", version=1), "By ear")
set_reviewers(owner, project, [p.pk for p in people[:2]])
set_adjudicators(owner, project, [people[2].pk])
fill(owner, project, Filters(most=1))
print(project.pk)
"""
ACTED_ON = {"button", "link", "textbox", "searchbox", "radio", "checkbox", "combobox", "DisclosureTriangle", "option"}
DIMENSIONS = ("Anti-Hacking", "CUDA Engineering", "Operator Coverage", "Skill Compliance")


def heard(page: Page) -> list[tuple[str, str, dict[str, Any]]]:
    """Role, name and properties of every node that a screen reader is told of, in reading order."""
    session = page.context.new_cdp_session(page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    session.detach()
    return [
        (
            node["role"]["value"],
            node.get("name", {}).get("value", "").strip(),
            {p["name"]: p["value"].get("value") for p in node.get("properties", [])},
        )
        for node in nodes
        if not node["ignored"]
    ]


def nameless(page: Page) -> list[str]:
    """What could be acted on and has no name, and regions that take the focus without one."""
    told = heard(page)
    return [
        role for role, name, more in told if not name and (role in ACTED_ON or (role == "region" and more.get("focusable")))
    ]


def go(page: Page, there: Locator, key: str) -> None:
    """Move the focus where the tree says and press a key there."""
    there.focus()
    page.keyboard.press(key)


def sounds_right(page: Page) -> None:
    told = heard(page)
    assert nameless(page) == []
    assert sum(role == "heading" and more.get("level") == 1 for role, _, more in told) == 1
    assert sum(role == "main" for role, _, _ in told) == 1
    levels = [more["level"] for role, _, more in told if role == "heading"]
    assert all(b - a <= 1 for a, b in pairwise(levels)), levels


def choose(page: Page, dimension: str, level: int) -> None:
    box = page.get_by_role("group", name=dimension, exact=True).get_by_role("radio", name=re.compile(f"^{level} "))
    go(page, box, "Space")
    expect(box).to_be_checked()


def score(browser: Browser, site: Site, who: str, level: int) -> None:
    page = opened(browser, site, who=who)
    page.goto(f"{site.base}/review/")
    sounds_right(page)
    go(page, page.get_by_role("button", name=re.compile("^Start")), "Enter")
    page.wait_for_url(re.compile("/review/items/"), timeout=WAIT)
    sounds_right(page)
    groups = [name for role, name, _ in heard(page) if role == "group"]
    assert [name for name in groups if name in DIMENSIONS] == list(DIMENSIONS)
    page.get_by_role("complementary", name="Facts").get_by_role("heading", name="Checks").wait_for()
    assert page.get_by_role("region", name=re.compile("lines can be marked$")).get_by_role("row").count() > 3
    for dimension in DIMENSIONS:
        choose(page, dimension, level)
    go(page, page.get_by_role("textbox", name="Reason for Anti-Hacking"), "End")
    page.keyboard.insert_text(f"{who} heard it.")
    go(page, page.get_by_role("radiogroup", name="Hack level").get_by_role("radio", name="unsure"), "Space")
    expect(page.get_by_role("status").filter(has_text="Draft saved")).to_be_visible(timeout=WAIT)
    expect(page.get_by_role("button", name=re.compile("^Submit"))).to_contain_text("complete", timeout=WAIT)
    go(page, page.get_by_role("button", name=re.compile("^Submit")), "Enter")
    page.get_by_role("heading", name="What was hidden").wait_for(timeout=WAIT)
    sounds_right(page)
    page.context.close()


def test_two_score_and_one_settles_by_what_a_screen_reader_is_told(browser: Browser, site: Site) -> None:
    site._python(MAKE)
    score(browser, site, "ottilie", 4)
    score(browser, site, "ottokar", 3)
    page = opened(browser, site, who="ottmar")
    page.goto(f"{site.base}/review/")
    go(page, page.get_by_role("link", name="1 to settle"), "Enter")
    page.get_by_role("heading", name="Where labels lie apart").wait_for(timeout=WAIT)
    sounds_right(page)
    go(page, page.get_by_role("button", name=re.compile("^Settle the next")), "Enter")
    page.get_by_role("heading", name="The final label").wait_for(timeout=WAIT)
    sounds_right(page)
    for dimension in DIMENSIONS:
        choose(page, dimension, 3)
    go(page, page.get_by_role("radiogroup", name="Hack level").get_by_role("radio", name="none"), "Space")
    go(page, page.get_by_role("textbox", name="Reason"), "End")
    page.keyboard.insert_text("Both were careful.")
    expect(page.get_by_role("status").filter(has_text="Draft saved")).to_be_visible(timeout=WAIT)
    go(page, page.get_by_role("button", name=re.compile("^Settle")), "Enter")
    page.get_by_text("this one counts").wait_for(timeout=WAIT)
    sounds_right(page)
    page.context.close()
