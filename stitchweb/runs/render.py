"""From a View to markup: a whole page, or just the panels that events changed.

A panel is a pure function of what `panels.py` picks for it. `fragments` compares that pick before and after a batch of events
and renders what differs, so a page that applied every fragment equals a page loaded now. Everybody who watches gets the same
fragments: what a viewer may not do is hidden by the page's class and refused by the server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from django.template.loader import render_to_string
from django.utils.safestring import SafeString, mark_safe

from agents.events import Event, View
from gpu_runner.contracts import BlobRef
from stitchweb.runs import dress, panels
from stitchweb.runs.lines import QUIET, EventLine, lines_of

MAX_LINES = 200  # rows of the event log on a page; the browser drops older ones too


class Blobs(Protocol):
    """Where texts and profiles lie. `get` raises KeyError for an unknown address."""

    def get(self, ref: BlobRef) -> bytes: ...


@dataclass(frozen=True)
class Panel:
    """`pick` chooses the data, which is the panel's identity; `dress` adds charts and blobs when it is rendered."""

    template: str
    pick: Callable[..., dict[str, Any]]
    dress: Callable[[dict[str, Any], Blobs], dict[str, Any]] = lambda picked, blobs: {}


RUN_PANELS: dict[str, Panel] = {
    "run-head": Panel("runs/panels/head.html", panels.head),
    "run-controls": Panel("runs/panels/controls.html", panels.controls),
    "run-state": Panel("runs/panels/state.html", panels.state, dress.state),
    "plan": Panel("runs/panels/plan.html", panels.plan, dress.plan),
    "hints": Panel("runs/panels/hints.html", panels.hints),
    "usage": Panel("runs/panels/usage.html", panels.usage),
    "device": Panel("runs/panels/device.html", panels.device),
    "analysis": Panel("runs/panels/analysis.html", panels.analysis),
    "candidates": Panel("runs/panels/candidates.html", panels.candidates, dress.candidates),
    "output": Panel("runs/panels/output.html", panels.output),
}
CANDIDATE_PANELS: dict[str, Panel] = {
    "bar": Panel("runs/panels/bar.html", panels.bar),
    "diff": Panel("runs/panels/diff.html", panels.diff, dress.diff),
    "profile": Panel("runs/panels/profile.html", panels.profile, dress.profile),
    "timing": Panel("runs/panels/timing.html", panels.timing, dress.timing),
    "checks": Panel("runs/panels/checks.html", panels.checks),
    "build": Panel("runs/panels/build.html", panels.build, dress.build),
}


@dataclass(frozen=True)
class RunRenderer:
    """Renders the run `pk`; texts and profiles come from `blobs`."""

    pk: int
    blobs: Blobs

    def run_panel(self, name: str, view: View) -> SafeString:
        """A panel of the run as a whole; its element's id is its name."""
        panel = RUN_PANELS[name]
        return self._render(panel, name, panel.pick(view), {})

    def candidate_panel(self, name: str, view: View, cid: str, **wishes: str) -> SafeString:
        """A panel of one candidate, or of the `reference`; its element's id is `name-cid`. `wishes`: a reader's choices,
        such as `against` and `file` of a diff, or the `focus` and `sort` of a profile."""
        panel = CANDIDATE_PANELS[name]
        return self._render(panel, f"{name}-{cid}", panel.pick(view, cid), wishes)

    def focus(self, view: View, cid: str = "", **wishes: str) -> SafeString:
        """All panels of the candidate that the page shows: the one asked for, else the one the run is about."""
        shown = cid or panels.focus_of(view)
        parts = {name: self.candidate_panel(name, view, shown, **wishes) for name in CANDIDATE_PANELS}
        # A page that shows one asked-for candidate has another id here, so that fragments of the moving focus pass it by.
        return self._template("runs/panels/focus.html", {"id": "pinned" if cid else "focus", "cid": shown, "parts": parts})

    def lines(self, view: View, events: Iterable[Event]) -> list[EventLine]:
        """Rows of the event log, newest first."""
        return lines_of(view, [e for e in events if e.kind not in QUIET])[::-1][:MAX_LINES]

    def page(self, view: View, events: Iterable[Event], cid: str = "", **wishes: str) -> dict[str, Any]:
        """Everything `runs/run.html` needs. `events`: the last loud ones (`QUIET` are not shown), oldest first."""
        return {
            "panels": {name: self.run_panel(name, view) for name in RUN_PANELS},
            "focus": self.focus(view, cid, **wishes),
            "shown": cid or panels.focus_of(view),
            "pinned": bool(cid),
            "lines": self.lines(view, events),
            "view": view,
        }

    def fragments(self, before: View, after: View, events: Sequence[Event]) -> str:
        """What watching pages must change to go from `before` to `after`: elements with ids, then new rows of the log."""
        parts: list[str] = []
        for name, panel in RUN_PANELS.items():
            if (picked := panel.pick(after)) != panel.pick(before):
                parts.append(self._render(panel, name, picked, {}))
        moved = panels.focus_of(before) != panels.focus_of(after)
        if moved:
            parts.append(self.focus(after))
        for cid in (panels.REFERENCE, *_touched(before, after)):
            for name, panel in CANDIDATE_PANELS.items():
                if (picked := panel.pick(after, cid)) != panel.pick(before, cid):
                    parts.append(self._render(panel, f"{name}-{cid}", picked, {}))
        if rows := self.lines(after, events):
            parts.append(self._template("runs/panels/lines.html", {"lines": rows}))
        return "".join(parts)

    def _render(self, panel: Panel, ident: str, picked: dict[str, Any], wishes: Mapping[str, str]) -> SafeString:
        context = {**picked, **wishes, "id": ident, "run": self.pk}
        return self._template(panel.template, context | panel.dress(context, self.blobs))

    def _template(self, name: str, context: dict[str, Any]) -> SafeString:
        return mark_safe(render_to_string(name, {"run": self.pk, **context}).strip())  # noqa: S308  a rendered template


def _touched(before: View, after: View) -> list[str]:
    """The candidates of `before` whose panels may have changed: those of which something is another object by now, of all
    that the panels of a candidate pick. A fold makes new objects of what changes alone, so this is quick where there are
    hundreds."""

    def common(view: View) -> tuple[object, ...]:
        shared = (view.header, view.analysis, view.reference_timing, view.replays, view.profiles.get(panels.REFERENCE))
        return (view.best, view.status.status, *map(id, shared))

    def own(view: View, cid: str) -> tuple[int, ...]:
        candidate = view.candidates[cid]
        parent = view.candidates.get(candidate.parent or "")
        return tuple(map(id, (candidate, parent, *(of.get(cid) for of in (view.live_rows, view.live_timing, view.profiles)))))

    if common(before) != common(after):
        return list(before.candidates)
    return [cid for cid in before.candidates if own(before, cid) != own(after, cid)]


def fragments(pk: int, before: View, after: View, events: Sequence[Event], blobs: Blobs) -> str:
    """`RunRenderer.fragments` for callers that keep no renderer."""
    return RunRenderer(pk, blobs).fragments(before, after, events)
