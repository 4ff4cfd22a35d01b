"""Reading what happened: events by number, and their fold."""

from __future__ import annotations

from agents.events import Event as EventContract
from agents.events import View, fold_all, storable
from stitchweb.runs.models import Event, Run, Snapshot

PAGE = 200
SNAPSHOT_EVERY = 200  # events between two snapshots of a run: opening a page folds fewer than that, plus one step


def events_after(run_id: int, seq: int, limit: int = PAGE) -> list[EventContract]:
    """The run's next events after `seq`, in order, at most `limit`. One query on the primary key."""
    rows = Event.objects.filter(run_id=run_id, seq__gt=seq).order_by("seq")[:limit]
    return [row.contract for row in rows]


def last_seq(run_id: int) -> int:
    """The number of the run's last event, 0 when the run is gone. One query on the primary key."""
    return Run.objects.filter(pk=run_id).values_list("last_seq", flat=True).first() or 0


def view_of(run_id: int, upto: int | None = None, marks: dict[int, View] | None = None) -> View:
    """The fold of the run's events, up to and with `upto`, by default all. Two queries and one per further page of events.

    `marks`: folds by their last event. The nearest one is where it begins, and those that it comes through are added.
    """
    view, marks = View(), {} if marks is None else marks
    known = max((seq for seq in marks if upto is None or seq <= upto), default=0)
    useful = Snapshot.objects.filter(run_id=run_id, seq__gt=known)
    if snapshot := (useful if upto is None else useful.filter(seq__lte=upto)).first():
        view = marks[snapshot.seq] = View.model_validate(snapshot.view)
    elif known:
        view = marks[known]
    while True:
        limit = PAGE if upto is None else min(PAGE, upto - view.seq)
        events = events_after(run_id, view.seq, limit) if limit > 0 else []
        if events:
            view = fold_all(view, events)
        if len(events) < PAGE:
            return view
        marks[view.seq] = view


def refresh_snapshot(run: Run) -> None:
    """Store the fold when enough has happened since the last one. Called at the end of a step; losing it costs time alone."""
    seq = Snapshot.objects.filter(run=run).values_list("seq", flat=True).first() or 0
    if run.last_seq - seq < SNAPSHOT_EVERY and not (run.ended and run.last_seq > seq):
        return
    view = view_of(run.pk)
    Snapshot.objects.update_or_create(run=run, defaults={"seq": view.seq, "view": storable(view.model_dump(mode="json"))})
