"""Publishing a candidate, and taking it back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import Max
from django.utils import timezone
from django.utils.text import slugify

from agents.events import CandidateView, View
from gpu_runner.contracts import Label, digest
from stitchweb.runs.access import run_for
from stitchweb.runs.blobs import RunBlobs
from stitchweb.runs.dress import text_of
from stitchweb.runs.history import view_of
from stitchweb.runs.models import Run
from stitchweb.runs.panels import report_of
from stitchweb.sharing import search, signals
from stitchweb.sharing.access import publication_to_change, publications_for
from stitchweb.sharing.ground import device_name
from stitchweb.sharing.models import LICENCES, PRECISIONS, Content, Origin, Publication, PublicationTag
from stitchweb.sharing.permissions import PUBLISH
from stitchweb.sharing.sheet import texts_of
from stitchweb.teams.models import Team, User

SCHEMA = "stitchweb.publication/1"
MAX_NOTES = 40_000
MAX_TAGS = 12


class PublishRefused(Exception):
    """It cannot be published as it was asked for. The message says why and what to do."""


@dataclass(frozen=True)
class Wish:
    """What a person says of what they publish. `version_of`: a publication that this is the next version of."""

    name: str = ""
    notes: str = ""
    licence: str = "internal"
    tags: tuple[str, ...] = ()
    version_of: int | None = None


def publishable(view: View, cid: str) -> CandidateView:
    """The candidate, if it may be published now. PublishRefused with the reason."""
    candidate = view.candidates.get(cid)
    if candidate is None:
        raise PublishRefused(f"The run has no candidate {cid or 'of that name'}. Choose one on the run's page.")
    if candidate.verdict != "verified":
        what = candidate.verdict or "not judged yet"
        raise PublishRefused(
            f"{cid} is {what}. Only verified candidates can be published: fix it in the run, or choose another."
        )
    if not view.status.status.ended:
        raise PublishRefused(
            f"The run has not ended, and until then the verdict of {cid} can change. Wait for its end, or cancel it."
        )
    return candidate


def newest_of(user: User, run: Run) -> list[Publication]:
    """Publications that a candidate of this run can be the next version of: of the same program and target."""
    rows = publications_for(user, PUBLISH).filter(newest=True, team=run.team_id, program=run.revision.program_id)
    return list(rows.filter(target=run.target).order_by("name")[:50])


def publish(user: User, run_pk: int, cid: str, wish: Wish) -> Publication:
    """A version of a program out of a verified candidate of an ended run, with its numbers as they are now.

    PublishRefused with a sentence; Http404 and PermissionDenied as `run_for` for whom PUBLISH is not.
    """
    run = run_for(user, run_pk, PUBLISH)
    view = view_of(run.pk)
    candidate = publishable(view, cid)
    if wish.licence not in dict(LICENCES):
        raise PublishRefused("Choose one of the licences in the list.")
    if len(wish.notes) > MAX_NOTES:
        raise PublishRefused(f"The notes have {len(wish.notes)} characters; at most {MAX_NOTES} are kept. Shorten them.")
    texts = _texts(run, candidate)
    facts = facts_of(view, cid, run) | {"sha256": digest(texts)}
    with transaction.atomic():
        _lock(run.team_id)
        name, slug = _place(user, run, wish)
        versions = Publication.objects.filter(team=run.team_id, slug=slug)
        if double := versions.standing().filter(sha256=facts["sha256"]).first():
            raise PublishRefused(f"The same files are {double} already. Nothing was published.")
        last = versions.aggregate(last=Max("version"))["last"] or 0
        versions.filter(newest=True).update(newest=False)
        row = Publication(
            team_id=run.team_id, program=run.revision.program, revision=run.revision, run=run, candidate=cid, name=name,
            slug=slug, version=last + 1, notes=wish.notes.strip(), licence=wish.licence, author=user, parent=_parent(run),
            **facts,
        )  # fmt: skip
        row.save()
        _content(row, view, candidate).save()
        words = tags_of(wish.tags)
        PublicationTag.objects.bulk_create(PublicationTag(publication=row, word=word) for word in words)
        search.put(row.pk, name, words, row.notes, texts.values())
        signals.tell(signals.published, Publication, publication=row, by=user, place=row.get_absolute_url())
    return row


def _lock(team_id: int) -> None:
    """Numbers of versions, and which one is the newest, change one at a time."""
    Team.objects.select_for_update().get(pk=team_id)


def tags_of(words: Sequence[str]) -> list[str]:
    """Tags as they are kept: in lower case, words joined by a hyphen, each once."""
    made = (slugify(word, allow_unicode=True)[:40] for word in words)
    return list(dict.fromkeys(word for word in made if word))[:MAX_TAGS]


def _place(user: User, run: Run, wish: Wish) -> tuple[str, str]:
    """Name and slug: those of the publication it is a version of, else new ones that nothing else in the team has."""
    if wish.version_of is not None:
        earlier = next((row for row in newest_of(user, run) if row.pk == wish.version_of), None)
        if earlier is None:
            raise PublishRefused(
                "There is no such publication of this program and target any more. Choose another, or a new name."
            )
        return earlier.name, earlier.slug
    name = " ".join((wish.name or run.name).split())[:120]
    slug = slugify(name)[:110] or "program"
    if Publication.objects.standing().filter(team=run.team_id, slug=slug).exists():
        raise PublishRefused(
            f"The team has a publication named {name}. Publish this as its next version, or under another name."
        )
    return name, slug


def _parent(run: Run) -> Publication | None:
    origin = Origin.objects.filter(run=run).select_related("publication").first()
    return origin.publication if origin else None


def _texts(run: Run, candidate: CandidateView) -> dict[str, str]:
    blobs = RunBlobs(run.pk)
    texts = {path: text_of(blobs, ref) for path, ref in candidate.files.items()}
    if not texts or None in texts.values():
        raise PublishRefused("The files of this candidate are not stored here any more, so it cannot be published.")
    return {path: text for path, text in texts.items() if text is not None}


def facts_of(view: View, cid: str, run: Run) -> dict[str, Any]:
    """The columns that follow from the candidate's reports."""
    candidate, header = view.candidates[cid], view.header
    report = report_of(candidate)
    degenerate = bool(view.analysis and view.analysis.nulls)
    labels = [str(label) for label in (*candidate.labels, *(report.labels if report else ()))]
    labels += [str(Label.DEGENERATE)] if degenerate else []
    claimed = report is not None and report.speed != "not-claimed" and not degenerate
    facts: dict[str, Any] = {
        "reference": run.revision.sha256, "engineer": run.engineer, "target": run.target,
        "protocol": report.protocol if report else run.protocol, "device": device_name(report.device if report else None),
        "mode": str(header.mode) if header else "", "precision": str(header.precision) if header else "",
        "labels": list(dict.fromkeys(labels)), "own_kernels": str(Label.NO_OWN_KERNELS) not in labels, "degenerate": degenerate,
        "exactness": next((str(p) for p in PRECISIONS if str(p) in labels), ""),
        "coverage": (candidate.check or {}).get("coverage"), "confirmed": candidate.confirmed is not None,
        "synthetic": run.synthetic,
    }  # fmt: skip
    if report is None or not claimed:
        return facts
    facts |= {"speed": str(report.speed), "baseline": report.baseline}
    for key, ratio in (("ratio", report.over_baseline), ("eager", report.over_eager), ("compiled", report.over_compile)):
        if ratio is not None:
            facts |= {key: ratio.value, f"{key}_low": ratio.low, f"{key}_high": ratio.high}
    return facts


def _content(row: Publication, view: View, candidate: CandidateView) -> Content:
    report, header = report_of(candidate), view.header
    known = view.candidates
    chain: list[dict[str, str]] = []
    at = candidate.parent
    while at in known and len(chain) < 100:
        chain.append({"id": at, "title": known[at].title})
        at = known[at].parent
    facts = {
        "schema": SCHEMA,
        "title": candidate.title,
        "sentence": candidate.sentence,
        "ancestors": chain[::-1],
        "engineers": dict(header.engineers) if header else {},
        "models": dict(header.models) if header else {},
        "timing": report.model_dump(mode="json", exclude={"evidence"}) if report else None,
        "check": candidate.check,
    }
    source = header.source if header else None
    return Content(
        publication=row, files={path: ref.model_dump(mode="json") for path, ref in candidate.files.items()}, facts=facts,
        source=source.model_dump(mode="json") if source else None,
        profile=candidate.profile.model_dump(mode="json") if candidate.profile else None,
    )  # fmt: skip


def describe(user: User, pk: int, notes: str, licence: str, tags: Sequence[str]) -> Publication:
    """Other notes, licence and tags; what was measured stays as it is. PublishRefused, Http404, PermissionDenied."""
    row = publication_to_change(user, pk)
    if licence not in dict(LICENCES):
        raise PublishRefused("Choose one of the licences in the list.")
    if len(notes) > MAX_NOTES:
        raise PublishRefused(f"The notes have {len(notes)} characters; at most {MAX_NOTES} are kept. Shorten them.")
    row.notes, row.licence = notes.strip(), licence
    words, files = tags_of(tags), texts_of(row, Content.objects.get(publication=row))
    with transaction.atomic():
        row.save(update_fields=["notes", "licence"])
        row.tags.exclude(word__in=words).delete()
        PublicationTag.objects.bulk_create((PublicationTag(publication=row, word=w) for w in words), ignore_conflicts=True)
        search.put(row.pk, row.name, words, row.notes, files.values())
    return row


@transaction.atomic
def withdraw(user: User, pk: int) -> Publication:
    """Take a version out of every list, and out of reach of its links. Its page stays for the team and says so."""
    row = publication_to_change(user, pk)
    _lock(row.team_id)
    row.refresh_from_db(fields=["newest", "withdrawn_at"])
    if row.withdrawn_at is None:
        was_newest, row.newest, row.withdrawn_at = row.newest, False, timezone.now()
        row.save(update_fields=["newest", "withdrawn_at"])
        before = Publication.objects.standing().filter(team=row.team_id, slug=row.slug).order_by("-version").first()
        if was_newest and before is not None:
            before.newest = True
            before.save(update_fields=["newest"])
    return row
