"""Several programs at once in a real browser: written at the same time, each lane told live, the tree by keyboard."""

from __future__ import annotations

import json
import threading
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.agents.model_answers import KERNEL, MODEL, fenced
from tests.agents.model_server import ModelServer, Say
from tests.e2e.browsing import WAIT, opened, violations
from tests.e2e.test_models_in_browser import working_site
from tests.stitchweb.model_story import PLAN, TOKENS

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("litellm")]
WIDTH = 4
_MODEL = (
    "import sys, django; django.setup()\n"
    "from stitchweb.teams.models import Team, User\n"
    "from stitchweb.llm.services import add_provider, save_model\n"
    "owner = User.objects.get(email='ada@example.org')\n"
    "team = Team.objects.get(name='Kernel team')\n"
    "provider = add_provider(owner, team, 'House', 'server', sys.argv[1], 'sk-rounds-1234567890abcdef')\n"
    "save_model(provider, None, {'name': 'scripted-1', 'max_tokens': 2000, 'price_in': 1.0, 'price_out': 2.0})\n"
)


def together() -> Any:
    """A model whose Coder answers only when as many questions are open as the round is wide."""
    barrier, numbers = threading.Barrier(WIDTH, timeout=30), count(2)

    def reply(body: dict[str, Any]) -> Say:
        system = body["messages"][0]["content"]
        if "You are the Planner" in system:
            return Say(json.dumps(PLAN), usage=TOKENS)
        if "You are the Coder" in system:
            barrier.wait()
            kernel = KERNEL.replace("x[i];", f"x[i] * {next(numbers)}.0f;")
            text = "Mine goes like this.\n\n" + fenced(MODEL, "python model_new.py") + fenced(kernel, "cpp kernels/k.cpp")
            return Say(text, usage=TOKENS, pause_s=0.1)
        return Say(json.dumps({"route": "stop", "bottleneck": "memory", "sentence": "As the numbers say."}), usage=TOKENS)

    return reply


def test_several_programs_are_written_at_once_and_the_tree_shows_which_won(browser: Browser, tmp_path: Path) -> None:
    with ModelServer([together()]) as server, working_site(tmp_path) as site:
        site._python(_MODEL, server.url)
        page = opened(browser, site)
        page.goto(site.base + site.pages["program"])
        for role in ("Planner", "Coder", "Verifier"):
            page.get_by_role("combobox", name=role).select_option(label="scripted-1")
        page.get_by_label("Programs at once").fill(str(WIDTH))
        page.get_by_label("Cost, USD").fill("1")
        page.get_by_role("button", name="Start the run").click()
        expect(page.locator("#run-head")).to_contain_text(f"{WIDTH} programs at once", timeout=WAIT)
        expect(page.get_by_role("list", name="At once in round 1").get_by_role("listitem")).to_have_count(WIDTH, timeout=WAIT)
        for lane in range(1, WIDTH + 1):
            expect(page.locator("#output")).to_contain_text(f"engineer {lane}", timeout=WAIT)
        expect(page.locator("#run-head")).to_contain_text("verified", timeout=2 * WAIT)

        tree = page.get_by_role("region", name="Candidate tree")
        rows = tree.locator("tbody tr")
        expect(rows).to_have_count(WIDTH)
        verdicts = sorted(rows.nth(i).locator(".chip").inner_text() for i in range(WIDTH))
        assert verdicts == ["build-failed", "incorrect", "verified", "verified"]
        best = tree.locator("tr[aria-current]")
        expect(best).to_contain_text("2.00")
        assert best.locator("svg .n.a.w").count() == 1
        spent = page.locator(".budget div", has_text="Cost").locator("b").inner_text()
        assert spent == f"{(WIDTH + 2) * (TOKENS[0] + 2 * TOKENS[1]) / 1e6:.4f}\xa0USD"
        assert len(server.requests) == WIDTH + 2

        name = best.locator("th a").inner_text()
        tree.focus()
        for _ in range(WIDTH):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.textContent") == name:
                break
        page.keyboard.press("Enter")
        expect(page.locator("#pinned")).to_contain_text(f"{name} against the reference", timeout=WAIT)
        assert violations(page) == []
        page.set_viewport_size({"width": 360, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        assert page.complaints == []
        page.context.close()
