"""The page of one item: blind while it is scored, with everything that was hidden once it is."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from gpu_runner.hacks.classes import FAMILIES, WORDS
from stitchweb.review.access import assignment_for
from stitchweb.review.blind import Subject, scored_files, subject_of
from stitchweb.review.code import VIEWS
from stitchweb.review.code import code_panel as panel_of
from stitchweb.review.content import SIDES, Content, Lines, Problem, mark_of, problems, read_form
from stitchweb.review.disputes import verdicts_now
from stitchweb.review.label import GivenLabel, first_label, read_label
from stitchweb.review.models import Assignment, Held
from stitchweb.review.reveal import revealed
from stitchweb.review.rubric import RubricContent
from stitchweb.review.services.labels import revise
from stitchweb.review.services.queue import SKIP_REASONS, QueueRefused, skip
from stitchweb.review.services.remarks import remark_of_reviewer
from stitchweb.review.services.reviews import NotComplete, content_of, save_draft, submit, undo
from stitchweb.review.services.typed import keep_revision, typed
from stitchweb.review.views.requests import SignedIn, done, kept, number
from stitchweb.review.views.settling import relabel
from stitchweb.runs.permissions import START
from stitchweb.runs.spread import WISHES
from stitchweb.teams.access import may

ACTS = (
    ("j", "next line"), ("k", "previous line"), ("]", "next change"), ("[", "previous change"), ("f", "next file"),
    ("d", "code or changes"), ("h", "hack palette"), ("r", "reason"), ("c", "comment"), ("u", "undo"), ("x", "skip"),
    ("t", "test a hunch"),
)  # fmt: skip
SURES = ((1, "low"), (2, "medium"), (3, "high"))


def _address(pk: int) -> Any:
    def address(anchor: str, **wishes: str) -> str:
        return f"{reverse('review-item', args=[pk])}?{urlencode(wishes)}#{anchor}"

    return address


def _subject(request: SignedIn, row: Assignment, *, profile: bool = True) -> Subject:
    wishes = {key: request.GET[key] for key in WISHES if key in request.GET}
    subject = subject_of(row.item, _address(row.pk), wishes, profile=profile)
    if subject is None:
        raise QueueRefused("The candidate of this item is not stored here any more: skip it.")
    return subject


@require_http_methods(["GET", "HEAD", "POST"])
def item_page(request: SignedIn, pk: int) -> HttpResponse:
    """The item to score, or what became of it. POST `act`: save, undo, mark, unmark, skip, submit; `Accept: application/json`
    answers in JSON."""
    row = assignment_for(request.user, pk)
    if request.method == "POST":
        return _act(request, row)
    if row.state == Held.SUBMITTED:
        return _done(request, row, typed(request.user, row.item, "revise") or first_label(row), [])
    if row.state == Held.SKIPPED:
        messages.info(request, "You skipped this item, so it went to others.")
        return redirect("review")
    try:
        return _page(request, row, [])
    except QueueRefused as refusal:
        context = {"section": "review", "row": row, "reason": str(refusal), "skip_reasons": SKIP_REASONS.items()}
        return render(request, "review/gone.html", context, status=410)


def _done(request: SignedIn, row: Assignment, label: GivenLabel, found: list[Problem], status: int = 200) -> HttpResponse:
    """What was hidden. `label`: what stands in the form of the one revision."""
    context = {
        "section": "review",
        "row": row,
        "remark_at": reverse("review-remark", args=[row.pk]),
        "works": may(request.user, row.item.project.team_id, START),
        **revealed(row),
        **relabel(row.review.rubric.parsed, row.item.skill, label, found),
    }
    return render(request, "review/done.html", context, status=status)


@require_POST
def revise_page(request: SignedIn, pk: int) -> HttpResponse:
    """Keep the one revision of a submitted review, with its reason."""
    row = assignment_for(request.user, pk)
    label = read_label(request.POST, row.item.project.rubric.parsed)
    try:
        revise(request.user, row.pk, label)
        messages.success(request, "Kept beside your first label, which stays as it is.")
    except QueueRefused as refusal:
        messages.error(request, str(refusal))
    except NotComplete as missing:
        return _done(request, row, label, missing.problems, status=422)
    return redirect("review-item", row.pk)


@require_POST
def revise_draft(request: SignedIn, pk: int) -> JsonResponse:
    """Keep what is typed of the revision, for the page that sends it."""
    row = assignment_for(request.user, pk)
    label = read_label(request.POST, row.item.project.rubric.parsed)
    return kept(lambda: keep_revision(request.user, row.pk, label))


@require_POST
def remark(request: SignedIn, pk: int) -> HttpResponse:
    """Add to the discussion of an item that the person has scored."""
    row = assignment_for(request.user, pk)

    def work() -> None:
        remark_of_reviewer(request.user, row, request.POST.get("text", ""))

    return done(request, work, "review-item", row.pk)


@require_safe
def code_panel(request: SignedIn, pk: int) -> HttpResponse:
    """The code alone, of another file or against another side."""
    row = assignment_for(request.user, pk)
    try:
        subject = _subject(request, row)
    except QueueRefused as refusal:
        raise Http404(str(refusal)) from None
    context = _code(request, row, subject, content_of(row))
    return render(request, "review/code.html", context | {"row": row, "subject": subject})


@require_safe
def profile_panel(request: SignedIn, pk: int) -> HttpResponse:
    """The profile alone, for the page that came without it."""
    row = assignment_for(request.user, pk)
    try:
        subject = _subject(request, row)
    except QueueRefused as refusal:
        raise Http404(str(refusal)) from None
    return render(request, "review/profile.html", {"subject": subject})


def _code(request: SignedIn, row: Assignment, subject: Subject, content: Content) -> dict[str, Any]:
    against = request.GET.get("against") or ("parent" if row.item.skill == "feedback" else "nothing")
    rubric = row.item.project.rubric.parsed
    return {
        "views": VIEWS,
        "code": panel_of(subject, against, request.GET.get("file", ""), content.marks),
        "letters": {d.key: d.letter for d in rubric.dimensions},
        "here": reverse("review-item", args=[row.pk]),
        "code_at": reverse("review-code", args=[row.pk]),
    }


def page_alone(request: SignedIn, pk: int) -> HttpResponse | None:
    """The page of an item without its frame, for a script that puts it in place of the page before; None when the candidate is
    gone. The profile is left out: the page asks for it when it already listens."""
    try:
        return _page(request, assignment_for(request.user, pk), [], alone=True)
    except QueueRefused:
        return None


def _page(request: SignedIn, row: Assignment, found: list[Problem], status: int = 200, *, alone: bool = False) -> HttpResponse:
    rubric, content = row.item.project.rubric.parsed, content_of(row)
    subject = _subject(request, row, profile=not alone)
    done = row.item.project.items.filter(assignments__user=row.user_id, assignments__state=Held.SUBMITTED).count()
    context = {
        "layout": "review/alone.html" if alone else "base.html",
        "section": "review",
        "row": row,
        "project": row.item.project,
        "subject": subject,
        "rubric": rubric,
        "dimensions": [_dimension(d, content, row.item.skill) for d in rubric.dimensions],
        "content": content,
        "left": problems(content, rubric, subject.files),
        "found": found,
        "families": [(f, [(str(k), WORDS[k].does) for k in f.kinds]) for f in FAMILIES],
        "skip_reasons": SKIP_REASONS.items(),
        "sides": SIDES,
        "acts": ACTS,
        "sures": SURES,
        "done": done,
        # A page that comes alone may be made ready before its person comes for it, and then has its whole time.
        "minutes": row.item.project.reservation_minutes if alone else _minutes(row),
        "ran_out": row.state == Held.EXPIRED,
        **_code(request, row, subject, content),
    }
    return render(request, "review/item.html", context, status=status)


def _dimension(dimension: Any, content: Content, skill: str) -> dict[str, Any]:
    score = content.scores.get(dimension.key)
    return {
        "d": dimension,
        "level": score.level if score else None,
        "sure": score.sure if score else None,
        "reason": score.reason if score else "",
        "checks": score.checks if score else (),
        "marks": [m for m in content.marks if m.dimension == dimension.key],
        "skill": skill,
    }


def _act(request: SignedIn, row: Assignment) -> HttpResponse:
    act = request.POST.get("act", "save")
    in_place = request.headers.get("Accept") == "application/json"
    overtaken = False
    try:
        if act == "skip":
            skip(request.user, row.pk, request.POST.get("reason", ""), request.POST.get("note", ""))
            messages.info(request, "Skipped. It went back to the queue for others.")
            return redirect("review")
        if act == "undo":
            undo(request.user, row.pk)
        else:
            overtaken = _save(request, row, row.item.project.rubric.parsed, act)
        if act == "submit":
            files, verdict = scored_files(row.item), verdicts_now([row.item])[row.item_id]
            submit(request.user, row.pk, files, verdict=verdict)
            return redirect("review-item", row.pk)
    except QueueRefused as refusal:
        if in_place:
            return JsonResponse({"refused": str(refusal)}, status=409)
        messages.error(request, str(refusal))
        return redirect("review-item", row.pk)
    except NotComplete as missing:
        return _page(request, assignment_for(request.user, row.pk), missing.problems, status=422)
    return _told(request, row.pk, overtaken) if in_place else _back(request, row.pk)


def _save(request: SignedIn, row: Assignment, rubric: RubricContent, act: str) -> bool:
    content = read_form(request.POST, rubric)
    if act == "mark" and (mark := _typed_mark(request, rubric)):
        content = content.model_copy(update={"marks": tuple(dict.fromkeys((*content.marks, mark)))})
    if act.startswith("unmark "):
        content = content.model_copy(update={"marks": tuple(m for m in content.marks if m.word != act[7:])})
    based, spent = request.POST.get("draft", ""), request.POST.get("active", "")
    saved = save_draft(
        request.user,
        row.pk,
        content,
        based_on=number(based),
        active_s=float(spent) if spent.isdecimal() and len(spent) < 7 else 0.0,
    )
    return saved.overtaken


def _typed_mark(request: SignedIn, rubric: RubricContent) -> Lines | None:
    """The mark that the plain form describes in fields of its own."""
    said = [request.POST.get(f"new-{key}", "").strip() for key in ("dimension", "side", "first", "last", "file")]
    said[3] = said[3] or said[2]
    mark = mark_of("|".join(said))
    if mark is None or mark.dimension not in rubric.by_key:
        messages.error(request, "A mark names a file and its first and last line, as numbers.")
        return None
    return mark


def _back(request: SignedIn, pk: int) -> HttpResponse:
    """The page anew, with the file that was open."""
    at = {key: request.POST[f"at-{key}"] for key in ("file", "against") if request.POST.get(f"at-{key}")}
    return redirect(f"{reverse('review-item', args=[pk])}?{urlencode(at)}")


def _told(request: SignedIn, pk: int, overtaken: bool) -> JsonResponse:
    """What stands now, for the page that saved."""
    row = assignment_for(request.user, pk)
    content, rubric = content_of(row), row.item.project.rubric.parsed
    return JsonResponse({
        "draft": row.draft_id,
        "overtaken": overtaken,
        "content": content.model_dump(mode="json"),
        "minutes": _minutes(row),
        "ran_out": row.state == Held.EXPIRED,
        "left": [p.sentence for p in problems(content, rubric)],
    })  # fmt: skip


def _minutes(row: Assignment) -> int:
    return max(0, int((row.expires_at - timezone.now()).total_seconds() // 60))
