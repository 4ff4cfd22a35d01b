"""Twenty items from the first key to the last number: scored twice by keyboard alone, blind, three disputes settled.

What the page says of the agreement is computed here once more, from the levels that were typed and from the definitions.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import permutations
from statistics import fmean, pvariance

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.browsing import WAIT, opened
from tests.e2e.site import Site

pytestmark = pytest.mark.e2e

ITEMS = 20
MAKE = """
import sys, django; django.setup()
from stitchweb.review.models import Item, Rubric
from stitchweb.review.services.labels import set_adjudicators
from stitchweb.review.services.projects import Filters, create_project, fill, set_reviewers
from stitchweb.teams.models import Role, Team, User
from stitchweb.teams.services import create_user, set_role
owner, team = User.objects.get(email="ada@example.org"), Team.objects.get(name="Kernel team")
people = [create_user(f"{name}@example.org", name=name.title()) for name in ("wanda", "walter", "winston")]
for person in people:
    set_role(team, person, Role.REVIEWER)
project = create_project(owner, team, Rubric.objects.get(key="kernels", version=1), "Twenty")
set_reviewers(owner, project, [p.pk for p in people[:2]])
set_adjudicators(owner, project, [people[2].pk])
fill(owner, project, Filters())
some = list(project.items.all())
wanted = int(sys.argv[1])
Item.objects.bulk_create(
    Item(project=project, run_id=(of := some[i % len(some)]).run_id, candidate=of.candidate, sha256=f"{i:064x}", skill=of.skill,
         why=of.why, rank=2 + i, wanted=2) for i in range(wanted - len(some)))
print(project.pk)
"""

# Levels by item, in the order of the dimensions A E O S. The second person is a level off here and there, and two or
# three off on the items 4, 11 and 17.
FIRST = ["4433", "5324", "3342", "4245", "5433", "4254", "3333", "4425", "5244", "4332",
         "3454", "4343", "5425", "4334", "3243", "4454", "5335", "4423", "3344", "4252"]  # fmt: skip
SECOND = ["4433", "5334", "3332", "4245", "5413", "4253", "3343", "4325", "5244", "4332",
          "3454", "4345", "5424", "4334", "3243", "4354", "5335", "4153", "3344", "4242"]  # fmt: skip
APART = [4, 11, 17]
LETTERS = "aeos"


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def listens(page: Page) -> None:
    """Wait until the page's script hears keys: a text is there before it."""
    page.wait_for_load_state("domcontentloaded")


def begin(browser: Browser, site: Site, who: str, button: str) -> Page:
    """A person at their list of queues, who walks to a button or link with Tab and opens it with Enter."""
    page = opened(browser, site, who=who)
    page.goto(f"{site.base}/review/")
    for _ in range(40):
        press(page, "Tab")
        if re.search(button, page.evaluate("document.activeElement.textContent")):
            press(page, "Enter")
            return page
    raise AssertionError(f"no Tab leads to {button!r}")


def score(page: Page, levels: str, said: str) -> None:
    """One item by key: levels, a reason where level 1, 2 or 5 needs one, no hack, a comment."""
    for letter, level in zip(LETTERS, levels, strict=True):
        press(page, letter, level)
        if level in "125":
            press(page, "r")
            page.keyboard.insert_text(f"{said}, {letter}{level}")
            press(page, "Escape")
    press(page, "h")
    page.keyboard.type("none")
    press(page, "Enter", "Escape", "c")
    page.keyboard.insert_text(said)
    press(page, "Escape")
    expect(page.locator("#left")).to_have_text("complete", timeout=WAIT)
    press(page, "Control+Enter")
    page.get_by_text("What was hidden", exact=True).wait_for(timeout=WAIT)
    listens(page)


def score_all(browser: Browser, site: Site, who: str, table: list[str], peer: str) -> None:
    page = begin(browser, site, who, "Start")
    for place, levels in enumerate(table):
        page.locator("#review").wait_for(timeout=WAIT)
        listens(page)
        assert peer not in page.content()
        score(page, levels, f"{who} on item {place}")
        press(page, "n")
        page.wait_for_url(re.compile(r"/review/items/\d+/$" if place < ITEMS - 1 else r"/review/$"), timeout=WAIT)
    page.get_by_text("nothing is left for you").first.wait_for()
    assert page.complaints == []
    page.context.close()


def settle_all(browser: Browser, site: Site) -> None:
    page = begin(browser, site, "winston", "to settle")
    page.get_by_text("3 left for you").wait_for(timeout=WAIT)
    listens(page)
    press(page, "n")
    for place in range(len(APART)):
        page.get_by_text("hidden until you settle it").wait_for(timeout=WAIT)
        listens(page)
        text = page.locator("main").inner_text()
        assert "wanda on item" in text
        assert "walter on item" in text
        assert "reviewer 1" in text
        assert not re.search("Wanda|Walter|Ada Byron", text)
        for letter in LETTERS:
            press(page, letter, "3")
        press(page, "h", "Space", "r")
        page.keyboard.insert_text(f"settled {place}")
        press(page, "Escape", "Control+Enter")
        page.get_by_text("this one counts").wait_for(timeout=WAIT)
        listens(page)
        press(page, "n")
    page.get_by_text("No dispute is left for you.", exact=True).wait_for(timeout=WAIT)
    assert page.get_by_text("settled", exact=True).count() == len(APART)
    assert page.complaints == []
    page.context.close()


def alpha(units: list[tuple[int, int]]) -> float:
    """Krippendorff's alpha for ordinal data, from the definition: observed over expected squared distance of pairs."""
    values = [v for unit in units for v in unit]
    count = Counter(values)

    def apart(c: int, k: int) -> float:
        between = range(min(c, k), max(c, k) + 1)
        return float((sum(count[g] for g in between) - (count[c] + count[k]) / 2) ** 2)

    observed = fmean(apart(a, b) for a, b in units)
    expected = fmean(apart(a, b) for a, b in permutations(values, 2))
    return 1 - observed / expected


def kappa(units: list[tuple[int, int]]) -> float:
    """Quadratic weighted kappa by moments: what two people expect to differ is their variances and the gap of their means."""
    first, second = [a for a, _ in units], [b for _, b in units]
    expected = pvariance(first) + pvariance(second) + (fmean(first) - fmean(second)) ** 2
    return 1 - fmean((a - b) ** 2 for a, b in units) / expected


def test_two_score_twenty_items_by_key_one_settles_and_the_numbers_are_those_of_the_definitions(
    browser: Browser, site: Site
) -> None:
    pk = site._python(MAKE, str(ITEMS)).strip()
    score_all(browser, site, "wanda", FIRST, peer="walter on item")
    score_all(browser, site, "walter", SECOND, peer="wanda on item")
    settle_all(browser, site)
    page = opened(browser, site)
    page.goto(f"{site.base}/review/projects/{pk}/agreement/")
    panels = page.locator("section.panel:has(.agree)")
    assert panels.count() == len(LETTERS)
    for place in range(len(LETTERS)):
        units = [(int(a[place]), int(b[place])) for a, b in zip(FIRST, SECOND, strict=True)]
        panel = panels.nth(place)
        assert panel.locator(".agree .mid").inner_text() == f"{alpha(units):.2f}"
        assert panel.locator("table.line td b").inner_text() == f"{kappa(units):.2f}"
        assert f"{ITEMS} items" in panel.inner_text()
        assert "Few items" in panel.inner_text()
    page.context.close()
