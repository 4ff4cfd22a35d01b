"""A profile in a real browser: zoomed and sorted in place, walked by key, followed from evidence to picture."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.browsing import WAIT, opened
from tests.e2e.site import Site
from tests.gpu_runner.profile_files import SAMPLES, iteration, trace

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def page(browser: Browser, site: Site) -> Page:
    return opened(browser, site)


def cells_of(page: Page, flame: str) -> list[tuple[str, str]]:
    """("name time", share) of each cell, as its title says them."""
    cells = page.locator(f"#{flame} rect.c")
    titles = cells.evaluate_all("cells => cells.map(c => c.parentNode.querySelector('title').textContent)")
    found = [re.fullmatch(r"(.*), ([^,]+) of all(?:, zoom out)?", title.split("\n")[0]) for title in titles]
    return [(match[1], match[2]) for match in found if match]


def rows_of(page: Page, flame: str) -> list[tuple[str, str]]:
    """("name time", share) of each row of the table below it."""
    rows = page.locator(f".picture:has(> #{flame}) tbody tr").evaluate_all(
        "rows => rows.map(r => [...r.cells].map(c => c.textContent.trim()))"
    )
    return [(f"{name} {time}", share) for name, _, time, share in rows]


def focused(page: Page) -> str:
    return page.evaluate("document.activeElement.id")


def test_a_finished_runs_flame_view_zooms_in_place_and_says_what_its_table_says(page: Page, site: Site) -> None:
    page.complaints.clear()
    page.goto(site.base + site.pages["run-done"])
    assert cells_of(page, "c5-flame") == rows_of(page, "c5-flame")
    assert len(cells_of(page, "c5-flame")) == 3
    page.locator("#c5-flame-n0").click()
    expect(page.locator("#c5-flame-n0 title")).to_contain_text("zoom out", timeout=WAIT)
    assert cells_of(page, "c5-flame") == rows_of(page, "c5-flame")
    assert page.url.endswith(site.pages["run-done"])  # a page that follows its run goes on following it
    assert focused(page) == "c5-flame-n0"
    page.keyboard.press("Enter")
    expect(page.locator("#c5-flame-n0 title")).not_to_contain_text("zoom out", timeout=WAIT)
    assert focused(page) == "c5-flame-n0"
    assert page.complaints == []


def test_the_flame_view_is_walked_by_the_arrow_keys(page: Page, site: Site) -> None:
    page.goto(site.base + site.pages["run-done"])
    page.locator("#c5-was-flame-n0").focus()
    seen = []
    for key in ("ArrowRight", "ArrowLeft", "ArrowUp", "Enter"):
        page.keyboard.press(f"{key}")
        seen.append(focused(page))
    assert seen[:3] == ["c5-was-flame-n1", "c5-was-flame-n0", "c5-was-flame-n0"]  # the root leads nowhere while all is shown
    expect(page.locator("#c5-was-flame-n0 title")).to_contain_text("zoom out", timeout=WAIT)
    page.keyboard.press("ArrowUp")
    assert focused(page) == "c5-was-flame-n"


def test_the_kernel_table_sorts_in_place_and_keeps_the_focus(page: Page, site: Site) -> None:
    page.goto(site.base + site.pages["run-gpu"])
    names = page.locator(".kernels tbody th .t1")
    assert names.all_inner_texts() == ["gemm f32 64x64x8", "ln_gelu_rows"]
    page.get_by_role("link", name="Median").click()
    expect(page.locator("th[aria-sort=descending]")).to_have_text("Median", timeout=WAIT)
    page.keyboard.press("Enter")
    expect(page.locator("th[aria-sort=ascending]")).to_have_text("Median", timeout=WAIT)
    assert names.all_inner_texts() == ["ln_gelu_rows", "gemm f32 64x64x8"]
    assert focused(page) == "c5-sort-median"


def test_a_row_of_evidence_leads_to_the_part_of_the_picture_that_shows_it(page: Page, site: Site) -> None:
    page.goto(site.base + site.pages["run-gpu"])
    page.get_by_role("link", name="GPU idle, host waited").click()
    assert page.evaluate("document.querySelector(':target').id") == "c5-causes-sync"
    part = page.locator("#c5-causes-sync")
    expect(part).to_be_in_viewport(timeout=WAIT)
    said = page.locator("li", has=page.get_by_role("link", name="GPU idle, host waited")).inner_text()
    shown = part.locator("title").text_content() or ""
    assert re.search(r"44\.1\s%", said)
    assert re.search(r"44\.1\s%", shown)


def test_without_a_script_the_links_lead_to_the_same(browser: Browser, site: Site) -> None:
    page = opened(browser, site, script=False)
    page.goto(site.base + site.pages["run-gpu"])
    page.locator(".kernels").get_by_role("link", name="Median").click()
    assert "sort=-median" in page.url
    page.locator("#c5-flame-n0").click()
    assert "focus=0" in page.url
    assert "sort=-median" in page.url
    assert page.locator("#c5-flame-n0 title").text_content().endswith("zoom out")  # type: ignore[union-attr]
    page.context.close()


def test_a_profile_opens_in_speedscope_from_the_site_itself(page: Page, site: Site) -> None:
    page.complaints.clear()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(site.base + site.pages["run-done"])
    page.get_by_role("link", name="Open in speedscope").click()
    page.get_by_text("c5 of run").first.wait_for(timeout=WAIT)
    page.get_by_text("Sandwich").click()
    expect(page.get_by_text("ln_gelu").first).to_be_visible(timeout=WAIT)
    assert any(url.endswith("/candidates/c5/profile/speedscope.json") for url in asked)
    assert all(url.startswith((site.base, "data:", "blob:")) for url in asked)
    # Its demangler is WebAssembly, which the policy refuses and our names do not need; and drawing without a GPU is slow.
    assert [c for c in page.complaints if not re.search("WebAssembly|ReadPixels", c)] == []


def test_a_report_that_is_dropped_is_read_and_drawn_and_one_that_is_none_says_why(page: Page, site: Site) -> None:
    page.complaints.clear()
    page.goto(f"{site.base}/profiles/")
    text = json.dumps(trace([row for n in range(4) for row in iteration(1000.0 * n, n)]))
    page.locator("#drop").evaluate(
        "(drop, text) => { const bag = new DataTransfer(); bag.items.add(new File([text], 'dropped.json'));"
        "drop.dispatchEvent(new DragEvent('drop', { dataTransfer: bag, bubbles: true, cancelable: true })); }",
        text,
    )
    expect(page.locator("#picked")).to_have_text("dropped.json")
    page.get_by_role("button", name="Read").click()
    page.get_by_role("heading", name="dropped.json", exact=True).wait_for(timeout=WAIT)
    assert page.locator("svg.pic").count() >= 3
    page.get_by_role("button", name="Delete").click()
    page.get_by_text("dropped.json is deleted").wait_for(timeout=WAIT)
    assert page.complaints == []
    page.set_input_files("#files", SAMPLES / "README.md")
    page.get_by_role("button", name="Read", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("README.md is no report that is read here", timeout=WAIT)
