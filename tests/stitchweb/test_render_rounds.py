"""A run that writes several programs at once: what each lane does, the tree of all of them, and the branch that won."""

from __future__ import annotations

import re

import pytest

from agents.events import View, fold_all
from stitchweb.runs import charts, panels
from stitchweb.runs.charts.lanes import Node
from stitchweb.runs.render import RunRenderer, fragments
from tests.stitchweb.markup import apply, well_formed
from tests.stitchweb.test_render import comparable
from tests.stitchweb.wide_story import wide_story

EVENTS, BLOBS = wide_story()
RENDERER = RunRenderer(41, BLOBS)
DONE = fold_all(View(), EVENTS)


def words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def test_the_page_says_what_each_lane_does_and_how_many_programs_are_in_each_stage() -> None:
    view = fold_all(View(), wide_story("check.row", "c6")[0])
    panel = words(RENDERER.run_panel("run-state", view))
    assert "3 programs at once, from the best 2" in words(RENDERER.run_panel("run-head", view))
    assert "Round 2: checking c6, timing c4 and c5" in panel
    assert "Timing c4 against eager Timing c5 against eager Checking c6" in panel
    assert {s["name"]: s["text"] for s in panels.state(view)["stages"] if s["state"] == "now"} == {
        "check": "1 program", "time": "2 programs",
    }  # fmt: skip


def test_between_two_rounds_the_stages_are_those_of_the_one_candidate() -> None:
    deciding = next(i for i, e in enumerate(EVENTS, 1) if e.kind == "run.status" and e.payload["status"] == "deciding")
    view = fold_all(View(), EVENTS[:deciding])
    assert panels.state(view)["lanes"] == []
    assert view.status.candidate == "c1"
    assert {s["name"]: s["state"] for s in panels.state(view)["stages"]}["decide"] == "now"


def test_the_tree_names_parents_rounds_verdicts_speeds_and_the_branch_that_won() -> None:
    html = RENDERER.run_panel("candidates", DONE)
    told = words(html)
    assert panels.won(DONE) == ("c9", "c4", "c1")
    assert "the best stands on c4, c1" in told
    assert "c9 from c4, the best" in told
    assert "c4 from c1, the best stands on it" in told
    assert "c2 from the reference t1" in told
    assert "t2 · round 2 variance in registers" in told
    row = next(words(part) for part in html.split("<tr") if "?candidate=c9#" in part)
    assert "verified" in row
    assert "2.21" in row
    assert len(re.findall(r'class="e w"', html)) >= 4, "the edges of the branch that won"
    assert len(re.findall(r'class="n [av] w"', html)) == 3
    well_formed(html)


def test_a_page_that_lived_through_rounds_equals_one_loaded_after_them() -> None:
    def page_at(count: int) -> str:
        from django.template.loader import render_to_string

        view = fold_all(View(), EVENTS[:count])
        context = RENDERER.page(view, EVENTS[:count]) | {"run": 41, "may_steer": True}
        html = render_to_string("runs/run.html", context)
        return html[html.index("<main") : html.index("</main>") + 7]

    page = page_at(1)
    for start in range(1, len(EVENTS), 13):
        end = min(start + 13, len(EVENTS))
        before, after = fold_all(View(), EVENTS[:start]), fold_all(View(), EVENTS[:end])
        page = apply(page, fragments(41, before, after, EVENTS[start:end], BLOBS))
    assert comparable(page, len(EVENTS)) == comparable(page_at(len(EVENTS)), len(EVENTS))


@pytest.mark.parametrize("count", [2, 8, 20])
def test_siblings_stand_beside_each_other_within_the_cell(count: int) -> None:
    nodes = [Node("c1", None), *(Node(f"c{i}", "c1") for i in range(2, count + 1)), Node("end", "c2", "a", won=True)]
    cells = charts.lanes(nodes)
    places = {name: float(re.search(r'cx="([\d.]+)"', cell).group(1)) for name, cell in cells.items()}  # type: ignore[union-attr]
    assert all(0 < x <= 40 for x in places.values())
    assert len(set(places.values())) >= min(count - 1, 8)
    for cell in cells.values():
        well_formed(cell)


def test_a_long_tree_scrolls_in_its_own_place() -> None:
    candidate = DONE.candidates["c4"]
    many = {
        f"c{i}": candidate.model_copy(update={"id": f"c{i}", "parent": f"c{i - 3}" if i > 3 else None}) for i in range(1, 61)
    }
    long = DONE.model_copy(update={"candidates": many, "best": "c60"})
    html = RENDERER.run_panel("candidates", long)
    assert 'class="scroll tall" tabindex="0" role="region"' in html
    assert len(panels.won(long)) == 20
    assert "tall" not in RENDERER.run_panel("candidates", DONE)
