"""A reader at work in the browser: signed in, listening to what the console and the policy complain about, with axe at hand."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, Page

from tests.e2e.site import Site

AXE = (Path(__file__).resolve().parents[1] / "vendor" / "axe.min.js").read_text()
WAIT = 20_000  # ms for what a loaded machine may take


def opened(
    browser: Browser,
    site: Site,
    width: int = 1280,
    theme: str = "light",
    who: str = "ada",
    script: bool = True,
    motion: str = "reduce",
) -> Page:
    """A signed-in page that remembers what its console and its policy complained about."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=theme, java_script_enabled=script, reduced_motion=motion
    )
    page = context.new_page()
    page.complaints = []
    complaints = page.complaints
    page.on("console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(site.base + site.login(who))
    return page


def violations(page: Page) -> list[str]:
    """What axe finds, one line per element. The debugger evaluates it, which the page's policy does not bind."""
    page.evaluate(AXE)
    found = page.evaluate(
        "() => axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})"
    )
    return [f"{v['id']}: {n['target']} {n['failureSummary'][:160]}" for v in found["violations"] for n in v["nodes"]]
