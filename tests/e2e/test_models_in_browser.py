"""Models in a real browser: from a provider's key over a test to a run that streams; everything between browser and model real.

Only the model is a script, and the measurements are played.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.agents.model_server import ModelServer, Say
from tests.e2e.browsing import WAIT, opened, violations
from tests.e2e.site import ROOT, Site, told_site, wait_until_served, web_process
from tests.stitchweb import model_story
from tests.stitchweb.test_models_pages import doctored

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("litellm")]
KEY = "sk-browser-4c2a9e7f10b3d586"
PAGES = [
    "models", "models-none", "provider-new", "provider", "model", "model-new", "prompts", "prompt", "run-asked", "questions",
    "question",
]  # fmt: skip


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (360, "dark")])
def test_the_pages_about_models_fit_are_quiet_and_accessible(browser: Browser, site: Site, width: int, theme: str) -> None:
    people: dict[str, Page] = {}
    for name in PAGES:
        who, place = site.everybody[name]
        page = people.get(who) or people.setdefault(who, opened(browser, site, width=width, theme=theme, who=who))
        page.goto(site.base + place)
        assert page.evaluate("document.documentElement.scrollWidth") == width, name
        assert violations(page) == [], name
        assert page.complaints == [], name
    for page in people.values():
        page.context.close()


def test_a_prompt_is_previewed_with_a_runs_data_saved_compared_and_reset(browser: Browser, site: Site) -> None:
    page = opened(browser, site)
    page.goto(site.base + site.pages["prompts"])
    page.get_by_role("link", name="Coder", exact=True).click()
    text = page.get_by_role("textbox", name="Text of the prompt")
    shipped = text.input_value()
    text.fill(shipped.replace("You are the Coder", "You are the strictest Coder"))
    page.get_by_label("Data of").select_option(label=f"run {site.pages['run-asked'].split('/')[2]}, layernorm_gelu")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("region", name="The system's text")).to_contain_text("strictest Coder", timeout=WAIT)
    expect(page.get_by_role("region", name="Changes")).to_contain_text("strictest")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("is saved", timeout=WAIT)
    text.fill("You judge {{everything}}.")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text(
        "Nothing fills {{everything}}. What is filled in this prompt: {{target}}."
    )
    assert text.input_value() == "You judge {{everything}}.", "what was typed stays"
    page.get_by_role("button", name="Back to the shipped text").click()
    expect(page.get_by_role("status")).to_contain_text("comes with StitchWeb", timeout=WAIT)
    assert text.input_value().strip() == shipped.strip()
    assert [said for said in page.complaints if "422" not in said] == []
    page.context.close()


@contextmanager
def _process(command: list[str], env: dict[str, str], log: IO[str]) -> Iterator[None]:
    process = subprocess.Popen([sys.executable, *command], cwd=ROOT, env=env, stdout=log, stderr=subprocess.STDOUT)
    try:
        yield
    finally:
        process.terminate()
        process.wait(20)


@contextmanager
def working_site(folder: Path) -> Iterator[Site]:
    """Web, agent worker and a played runner; what they say lies in `folder`."""
    with told_site(web=False) as site, ExitStack() as stack:
        site.env |= {"MODEL_SERVERS": "127.0.0.1", "ALLOWED_HOSTS": "127.0.0.1,testserver", "LOG_LEVEL": "DEBUG"}
        log = stack.enter_context((folder / "said.txt").open("w"))
        stack.enter_context(web_process(int(site.base.rsplit(":", 1)[1]), site.env))
        stack.enter_context(_process(["manage.py", "agent"], site.env, log))
        stack.enter_context(_process(["-m", "tests.e2e.fake_runner"], site.env, log))
        wait_until_served(site.base)
        yield site


def of_a_run(body: dict[str, Any]) -> bool:
    """Whether one of a run's roles asks, and not the test of a model."""
    first = body["messages"][0]
    return bool(first["role"] == "system" and "You are the" in first["content"])


def test_a_key_a_test_and_a_run_that_streams_from_wrong_code_to_a_faster_program(browser: Browser, tmp_path: Path) -> None:
    story = model_story.scripted(pause_s=0.05, wrong=True)

    def model(body: dict[str, Any]) -> Say:
        return story(body) if of_a_run(body) else doctored(body)

    with ModelServer([model]) as server, working_site(tmp_path) as site:
        page = opened(browser, site)
        page.goto(f"{site.base}/models/")
        page.get_by_role("link", name="Add a provider").first.click()
        page.get_by_label("Name in this team").fill("House")
        page.get_by_label("Base URL").fill(server.url)
        page.get_by_label("Key, empty").fill(KEY)
        page.get_by_role("button", name="Add it").click()
        page.get_by_label("Name, as House calls it").fill("scripted-1")
        page.get_by_label("A million tokens in").fill("1")
        page.get_by_label("A million tokens out").fill("2")
        page.get_by_role("button", name="Save").click()
        test = page.get_by_role("button", name="Test scripted-1")
        test.focus()
        page.keyboard.press("Enter")
        expect(page.locator(".tested")).to_contain_text("works", timeout=2 * WAIT)
        expect(test).to_be_focused()

        page.goto(site.base + site.pages["program"])
        for role in ("Planner", "Coder", "Verifier"):
            page.get_by_role("combobox", name=role).select_option(label="scripted-1")
        page.get_by_label("Tokens, thousand").fill("50")
        page.get_by_label("Cost, USD").fill("1")
        page.get_by_role("button", name="Start the run").click()
        page.wait_for_selector("#live-state.ok-t", timeout=WAIT)
        begun = "() => { const said = document.querySelector('#output').textContent; return said.includes('I would') && said; }"
        assert "look again." not in page.wait_for_function(begun, timeout=WAIT).json_value(), "tokens are shown as they come"
        expect(page.locator("#output")).to_contain_text("look again.", timeout=WAIT)
        spent = page.locator(".budget div", has_text="Cost").locator("b")
        expect(spent).not_to_have_text("0.00 USD", timeout=WAIT)
        early = spent.inner_text()
        for verdict in ("incorrect", "build-failed"):
            expect(page.locator("#candidates")).to_contain_text(verdict, timeout=WAIT)
        expect(page.locator("#diff-c4")).to_contain_text("#pragma omp simd", timeout=2 * WAIT)
        expect(page.locator("#run-head")).to_contain_text("verified", timeout=WAIT)
        questions, (tokens_in, tokens_out) = model_story.QUESTIONS + 2, model_story.TOKENS
        expect(spent).to_have_text(f"{questions * (tokens_in + 2 * tokens_out) / 1e6:.4f}\xa0USD")
        assert early < spent.inner_text()
        assert "2.00" in page.locator(".best").inner_text()
        live = page.locator("#usage").inner_text()
        assert "5 questions" in live
        asked = [body for body in server.requests if of_a_run(body)]
        assert len(asked) == questions
        assert set(server.keys) == {f"Bearer {KEY}"}

        run = page.url
        told = [row.inner_text() for row in page.locator("#candidates tbody tr").all()]
        for row, word in zip(told, ("incorrect", "build-failed", "0.80", "2.00"), strict=True):
            assert word in row
        coder = [body["messages"][1]["content"] for body in asked if "You are the Coder" in body["messages"][0]["content"]]
        for question, word in zip(coder[3:], (model_story.ERROR, model_story.BOUND), strict=True):
            assert word in question
        changes = {"c1": "= -x[i]", "c2": "out[i] = x[i] }", "c3": "out[i] = x[i]; }", "c4": "#pragma omp simd"}
        for candidate, change in changes.items():
            page.goto(f"{run}?candidate={candidate}&file=kernels/k.cpp")
            expect(page.locator(f"#diff-{candidate} tr.add").filter(has_text=change)).to_be_visible()

        page.get_by_role("link", name="Questions and answers").click()
        page.get_by_role("link", name="Coder, ").last.click()
        expect(page.get_by_role("region", name="The answer")).to_contain_text("Another way.")
        assert page.complaints == []
        page.context.close()
        files = [path for path in (*Path(site.env["DATA_DIR"]).rglob("*"), *tmp_path.rglob("*")) if path.is_file()]
        assert len(files) > 5
        assert [path.name for path in files if KEY.encode() in path.read_bytes()] == []
