"""A page that lived through events shows what a page loaded after them shows."""

from __future__ import annotations

import re

import pytest
from django.template.loader import render_to_string

from agents.events import Event, View
from agents.events.folding import fold_all
from agents.events.shrink import plain
from stitchweb.runs.lines import lines_of
from stitchweb.runs.panels import focus_of
from stitchweb.runs.render import RunRenderer, fragments
from tests.stitchweb.markup import apply, squeezed, well_formed
from tests.stitchweb.parts_for_tests import KERNEL, REFERENCE, Teller, build_facts, candidate
from tests.stitchweb.views_for_tests import NoBlobs, refused_story, story, view_at

EVENTS, BLOBS = story()
RENDERER = RunRenderer(41, BLOBS)


def page_at(count: int, cid: str = "") -> str:
    """The main part of a page loaded after `count` events."""
    events = EVENTS[:count]
    view = fold_all(View(), events)
    context = RENDERER.page(view, events, cid) | {"run": 41, "may_steer": True}
    html = render_to_string("runs/run.html", context)
    return html[html.index("<main") : html.index("</main>") + 7]


def comparable(page: str, seq: int) -> str:
    """Without what the page's script keeps itself (the last event, the status that each message carries) and words of forms."""
    page = re.sub(r' name="once" value="[^"]*"', "", page)
    page = re.sub(r'data-status="[a-z-]+" data-path', "data-path", page)
    page = re.sub(r'data-since="\d+"', f'data-since="{seq}"', page)
    return squeezed(re.sub(r'<b id="live-seq">\d+</b>', f'<b id="live-seq">{seq}</b>', page))


def between(start: int, end: int) -> str:
    before, after = fold_all(View(), EVENTS[:start]), fold_all(View(), EVENTS[:end])
    return fragments(41, before, after, EVENTS[start:end], BLOBS)


@pytest.mark.parametrize("step", [1, 7, len(EVENTS)])
def test_a_page_that_applied_every_batch_equals_a_page_loaded_now(step: int) -> None:
    page = page_at(1)
    for start in range(1, len(EVENTS), step):
        end = min(start + step, len(EVENTS))
        page = apply(page, between(start, end))
        if end % 8 == 0 or end == len(EVENTS):
            assert comparable(page, end) == comparable(page_at(end), end), f"differs after event {end}: {EVENTS[end - 1].kind}"


def test_a_fold_that_goes_on_tells_the_same_as_one_from_the_beginning() -> None:
    """What a fold left as it was is not even looked at, which must hide nothing."""
    before, step = fold_all(View(), EVENTS[:9]), 3
    for start in range(9, len(EVENTS), step):
        end = min(start + step, len(EVENTS))
        after = fold_all(before, EVENTS[start:end])
        assert fragments(41, before, after, EVENTS[start:end], BLOBS) == between(start, end)
        before = after


def test_a_page_pinned_to_a_candidate_keeps_showing_it_and_stays_current() -> None:
    born = next(i for i, e in enumerate(EVENTS, 1) if e.kind == "candidate.changed" and e.payload["id"] == "c3")
    page = page_at(born, "c3")
    for end in range(born + 1, len(EVENTS) + 1):
        page = apply(page, between(end - 1, end))
    assert 'data-candidate="c3"' in page
    assert comparable(page, len(EVENTS)) == comparable(page_at(len(EVENTS), "c3"), len(EVENTS))


def test_a_batch_that_is_applied_twice_changes_nothing_more() -> None:
    once = apply(page_at(20), between(20, 30))
    assert apply(once, between(20, 30)) == once


def test_events_touch_only_the_panels_they_are_about() -> None:
    at = next(i for i, e in enumerate(EVENTS) if e.kind == "usage.changed" and i > 20)
    html = between(at, at + 1)
    assert 'id="usage"' in html
    assert 'id="run-state"' in html
    assert 'id="candidates"' not in html
    assert 'id="diff-' not in html


@pytest.mark.parametrize("count", range(1, len(EVENTS) + 1, 8))
def test_every_moment_of_a_run_is_well_formed_without_inline_styles_or_scripts(count: int) -> None:
    page = page_at(count)
    well_formed(page)
    assert " style=" not in page
    assert "<script" not in page
    assert not re.search(r"\son[a-z]+=", page)
    assert not re.search(r"[>\"]None[<\"]", page)
    assert "{{" not in page


def test_what_programs_and_compilers_say_is_never_markup() -> None:
    page = page_at(len(EVENTS))
    assert "<erf>" not in page
    assert "&lt;erf&gt;" in page
    assert "declare rstd &lt;b&gt;" in page
    events, blobs = refused_story()
    view = view_at(events)
    panel = RunRenderer(42, blobs).run_panel("run-state", view)
    assert "<script>" not in panel
    assert "&lt;script&gt;" in panel


def test_a_refused_program_shows_the_sentence_the_way_out_and_the_log() -> None:
    events, blobs = refused_story()
    panel = RunRenderer(42, blobs).run_panel("run-state", view_at(events))
    assert "cannot be multiplied" in panel
    assert "Correct line 11" in panel
    assert "Traceback" in panel


def test_a_run_whose_blobs_are_gone_still_has_a_page_that_says_so() -> None:
    view = view_at(EVENTS)
    html = str(RunRenderer(41, NoBlobs()).focus(view))
    well_formed(html)
    assert "not stored here any more" in html


def test_the_focus_follows_the_work_and_ends_with_the_best() -> None:
    seen = [focus_of(fold_all(View(), EVENTS[:n])) for n in range(1, len(EVENTS) + 1)]
    order = list(dict.fromkeys(seen))
    assert order[:4] == ["reference", "c1", "c2", "c3"]
    assert seen[-1] == "c5"


def test_no_speed_is_shown_without_its_interval_and_baseline() -> None:
    state = RENDERER.run_panel("run-state", view_at(EVENTS))
    assert "1.39<i>×</i>" in state
    assert "1.36 to 1.41" in state
    assert "over compile default" in state
    assert "strict/4" in state


def test_a_candidate_that_is_not_verified_has_no_speed() -> None:
    view = view_at(EVENTS)
    bad = view.candidates["c5"].model_copy(update={"verdict": "hack:output_cache"})
    view = view.model_copy(update={"candidates": view.candidates | {"c5": bad}, "result": None})
    assert "1.39" not in RENDERER.run_panel("run-state", view)
    assert "2.00" not in RENDERER.run_panel("candidates", view)


def test_a_profile_of_the_reference_is_not_told_as_the_candidates() -> None:
    at = next(i for i, e in enumerate(EVENTS) if e.kind == "candidate.changed")
    view = fold_all(View(), EVENTS[: at + 1])
    panel = RENDERER.candidate_panel("profile", view, "c1")
    assert "Two passes over memory" not in panel
    assert "Waits for its turn" in panel
    assert "profile of the reference" in panel


def test_an_item_of_the_plan_leads_to_the_rows_of_the_profile_that_it_answers() -> None:
    view = view_at(EVENTS)
    links = re.findall(r'Answers <a href="/runs/41/\?candidate=reference#([^"]+)">', RENDERER.run_panel("plan", view))
    assert links == ["reference-kernels-GeluKernel"]
    assert f'<tr id="{links[0]}">' in RENDERER.candidate_panel("profile", view, "reference")


def test_a_request_is_shown_until_it_is_applied() -> None:
    def asked(event: Event) -> bool:
        return event.kind == "control.changed" and event.payload["id"] == "3"

    before = RENDERER.run_panel("run-controls", view_at(EVENTS, asked))
    after = RENDERER.run_panel("run-controls", view_at(EVENTS, lambda e: asked(e) and e.payload["state"] == "applied"))
    assert "asked by Ada" in before
    assert "asked" not in after


def test_the_line_of_a_status_says_what_happens_once_and_why_it_waits() -> None:
    lines = {line.seq: line.text for line in lines_of(view_at(EVENTS), EVENTS) if line.kind == "run.status"}
    told = list(lines.values())
    assert all(told)
    assert "Paused by Ada, before the next to-do." in told[-3]
    assert "Queued: Second in line for cpu: the one runner works on run 40." in told


HOSTILE = (
    "\x1b[31;1mkernels/a.cpp:3: error: red\x1b[0m\x1b]0;owned\x07\r\n"
    "<script>alert(1)</script> a\0b \u202etxt.exe \x9b2J\x1b(B end"
)


def test_terminal_commands_null_bytes_and_scripts_in_logs_are_text_that_can_be_read() -> None:
    t = Teller()
    how = {"mode": "eval", "precision": "as-reference", "engineers": {"coder": "offline"}, "budget": {"attempts": 12}}
    t.tell("run.created", {"run": "43", "name": "r", "target": "cpu", "protocol": "quick/4", "source": t.put(REFERENCE)} | how)
    facts = build_facts(t, ok=False) | {"log": t.put(HOSTILE), "diagnostics": [HOSTILE]}
    more = {"status": "done", "verdict": "build-failed", "build": facts}
    t.tell("candidate.changed", candidate(t, "c1", "Fuse", parent="reference", todo=None, kernel=KERNEL, **more))
    t.tell("log.lines", plain({"stream": "build", "text": HOSTILE}))
    view = view_at(t.events)
    renderer = RunRenderer(43, t.blobs)
    html = render_to_string("runs/run.html", renderer.page(view, t.events, "c1") | {"run": 43, "may_steer": True})
    page = html[html.index("<main") : html.index("</main>") + 7]
    well_formed(page)
    assert page.count("kernels/a.cpp:3: error: red\n&lt;script&gt;alert(1)&lt;/script&gt; a\ufffdb \ufffdtxt.exe  end") == 3
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", page)
    assert "<script" not in page
