"""The whole job as a person does it: sign in by the link, upload, watch, lose the connection, take home what was verified.

Nothing stands in for anything: the processes of `manage.py up`, the sandbox, the offline engineer, a compiler, a browser.
"""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.processes import ROOT, Site, whole_site
from tests.e2e.wire import Wire, wire
from tests.stitchweb.markup import comparable

pytestmark = pytest.mark.e2e
WAIT = 20_000  # ms for what a loaded machine may take
STEP = 120_000  # ms for a step of the loop there

# A dozen pointwise operations that become one: its gain is many times whatever another load on the machine makes of it.
PROGRAM = (ROOT / "examples" / "elementwise_chain.py").read_text().replace("4096, 1024", "2048, 1024")

# What a watcher sees, each with what shows it; written down by the page itself, so that a reload would lose it.
SIGHTS = {
    "todo": "#plan .todo",
    "diff": "#at-diff table.diff tr.add",
    "check": "#at-checks .checks .ok-t",
    "timing": "#at-timing table.timing tr.on",
    "profile": "#at-profile:has(.kern tbody tr) .sol",  # rows, and the share of own kernels, which a reference has not
}
WATCH = """sights => {
  window.sights = {};
  const look = () => {
    for (const [name, selector] of Object.entries(sights))
      if (!(name in window.sights) && document.querySelector(selector))
        window.sights[name] = Number(document.getElementById("live").dataset.since);
  };
  new MutationObserver(look).observe(document.getElementById("main"), {childList: true, subtree: true, attributes: true});
  look();
}"""


def seen(page: Page, sight: str) -> None:
    page.wait_for_function("name => name in window.sights", arg=sight, timeout=STEP)


def last_event(site: Site, run: int) -> int:
    return int(site.rows("select last_seq from runs_run where id = ?", run)[0][0])


def upload(page: Page, site: Site) -> int:
    """Paste the program, choose the quick protocol, start; the number of the run whose page opens."""
    page.get_by_role("link", name="Upload").click()
    page.get_by_label("Source text of the program").fill(PROGRAM)
    page.get_by_label("Name", exact=True).fill("Gated chain")
    page.get_by_role("radio", name=re.compile("^quick")).check()
    page.get_by_label("Attempts").fill("3")
    page.get_by_role("button", name="Analyse and start").click()
    page.wait_for_url(re.compile(r"/runs/\d+/$"), timeout=WAIT)
    return int(page.url.rstrip("/").rsplit("/", 1)[1])


def lose_the_connection(page: Page, site: Site, line: Wire, run: int) -> None:
    """Away until the run has told more, then back: the page says so, stands still, and catches up."""
    line.cut()
    page.wait_for_selector("#live-state.warn-t", timeout=WAIT)
    stood = int(page.inner_text("#live-seq"))
    site.until(lambda: last_event(site, run) >= stood + 3, STEP / 1000, "more events while the page is away")
    assert page.inner_text("#live-seq") == str(stood)
    line.mend()
    page.wait_for_selector("#live-state.ok-t", timeout=WAIT)
    page.wait_for_function(
        "stood => Number(document.getElementById('live').dataset.since) >= stood + 3", arg=stood, timeout=WAIT
    )


def test_a_program_is_uploaded_watched_through_a_lost_connection_and_taken_home_verified(
    browser: Browser, tmp_path: Path
) -> None:
    with whole_site() as site, wire(site.port) as line:
        page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
        complaints: list[str] = []
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(line.base + urlsplit(site.link()).path)
        # Its runner is starting, which is not the same as none being there.
        told = site.rows("select payload from runs_event where kind = 'run.status'")
        assert not [payload for (payload,) in told if "No runner" in payload]
        # The example that a fresh site starts by itself would share the machine with this run.
        page.get_by_role("button", name="Cancel").click()
        expect(page.locator("#run-head")).to_contain_text("cancelled", timeout=STEP)

        run = upload(page, site)
        page.wait_for_selector("#live-state.ok-t", timeout=WAIT)
        page.evaluate(WATCH, SIGHTS)
        seen(page, "todo")
        seen(page, "diff")
        lose_the_connection(page, site, line, run)
        for sight in ("check", "timing", "profile"):
            seen(page, sight)
        download = page.get_by_role("link", name=re.compile(r"^Download c\d+$"))
        expect(page.locator("#run-head")).to_contain_text("verified", timeout=STEP)
        expect(page.locator("#live-seq")).to_have_text(str(last_event(site, run)), timeout=WAIT)

        at = page.evaluate("window.sights")  # gone, had the page been loaded again
        # Equal where one batch brought both: a quick step after another, or what was told while the page was away.
        assert at["todo"] <= at["diff"] <= at["check"] <= at["timing"] <= last_event(site, run)
        assert at["todo"] < at["timing"]
        [(verdict, best)] = site.rows("select verdict, best from runs_run where id = ?", run)
        assert verdict == "verified", page.inner_text("#run-state")

        live = comparable(page.evaluate("document.getElementById('main').outerHTML"))
        page.reload()
        page.wait_for_selector("#live-state.ok-t", timeout=WAIT)
        assert comparable(page.evaluate("document.getElementById('main').outerHTML")) == live

        replay_by_key(page)
        [(after,)] = site.rows("select verdict from runs_run where id = ?", run)
        assert after == verdict

        with page.expect_download(timeout=WAIT) as waiting:
            download.click()
        assert f"-{run}-{best}.zip" in waiting.value.suggested_filename
        waiting.value.save_as(tmp_path / "taken.zip")
        assert complaints == []
        page.context.close()
    verify(tmp_path / "taken.zip", tmp_path / "home")


def replay_by_key(page: Page) -> None:
    """Have the first draw made again, from the keyboard: the runner's sandbox finds the same numbers, and a reader is told."""
    button = page.get_by_role("button", name="Replay declared draw 1", exact=True)
    button.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".checks .again")).to_contain_text("replayed: the same to the bit", timeout=STEP)
    expect(page.locator("#live-say")).to_have_text("declared draw 1: replay the same to the bit")
    expect(button).to_be_focused()


def verify(archive: Path, folder: Path) -> None:
    """Unpack what was taken home and have it check itself; the site is gone by then."""
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(folder)
    [script] = folder.rglob("verify.py")
    done = subprocess.run(
        [sys.executable, "-I", str(script), "--draws", "2", "--rounds", "4", "--samples", "2"],
        cwd="/", capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
