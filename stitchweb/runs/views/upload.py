"""The upload page: a text, a file, a batch or an example becomes programs, and at wish runs."""

from __future__ import annotations

import logging
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.core.files.uploadedfile import UploadedFile
from django.db import DatabaseError, transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from stitchweb.core.once import once
from stitchweb.core.trouble import trouble
from stitchweb.llm.access import defaults_of, models_to_run
from stitchweb.programs.access import program_for
from stitchweb.programs.forms import ProgramForm, form_problems, input_choices, input_rows, input_specs
from stitchweb.programs.gallery import example, examples
from stitchweb.programs.intake import Batch, Item, read_files, read_zip
from stitchweb.programs.models import Revision
from stitchweb.programs.permissions import UPLOAD
from stitchweb.programs.services import Upload, UploadRefused, add_revision, create_program, create_suite
from stitchweb.programs.uploads import Problem, check_source, decode, outline, with_inputs
from stitchweb.runs.access import run_to_steer
from stitchweb.runs.forms import OptionsForm
from stitchweb.runs.jobbook import create_analysis
from stitchweb.runs.judged import judges_of
from stitchweb.runs.services import RunRefused, runs_left, start_run
from stitchweb.teams.access import Person, teams_for
from stitchweb.teams.models import Team

logger = logging.getLogger(__name__)

MAX_SHOWN = 300  # characters of a line that is shown beside its mistake
MAX_SUITE_RUNS = 40  # started at once from an upload; more are started from the suite's page


@require_http_methods(["GET", "HEAD", "POST"])
def upload(request: HttpRequest) -> HttpResponse:
    """GET: an empty form, or one with `?example=NAME`, `?program=PK` or `?run=PK` in it. POST: create, then run or analyse.

    Whatever is refused is shown beside the text that was sent, which stays in the form.
    """
    if request.method == "POST":
        intake = _Intake(request)
        try:
            return once(request, intake.answer)
        except (OSError, DatabaseError) as error:
            if (cause := trouble(error)) is None:
                raise
            logger.exception("an upload met a machine in trouble")
            return intake.refuse([Problem("trouble", cause.sentence, cause.way_out)], status=cause.status)
    text, name, program = "", "", ""
    if chosen := example(request.GET.get("example", "")):
        text, name = chosen.text, chosen.title
    elif revision := _revision_to_change(request):
        text, name, program = revision.text, revision.program.name, str(revision.program_id)
    form = ProgramForm(initial={"text": text, "name": name})
    return _page(request, form, _options(request.user), example=request.GET.get("example", ""), program=program)


def _revision_to_change(request: HttpRequest) -> Revision | None:
    """What a new revision starts from: that of the named run, else the newest one of the named program."""
    run, program = (request.GET.get(key, "")[:18] for key in ("run", "program"))
    if run.isdecimal():
        return run_to_steer(request.user, int(run)).revision
    if program.isdecimal():
        found = program_for(request.user, int(program), UPLOAD)
        return Revision.objects.filter(program=found).select_related("program").order_by("-number").first()
    return None


def _options(user: Person, data: Any = None) -> OptionsForm:
    """The options with the models of all teams that the person starts runs in, and the defaults of the first of them."""
    models, teams = list(models_to_run(user)), list(teams_for(user, UPLOAD).order_by("pk"))
    judge = next((judge.name for judge in judges_of([team.pk for team in teams]).values()), "")
    return OptionsForm(data, models, defaults_of(teams[0]) if models else {}, name_teams=len(teams) > 1, judge=judge)


def _page(request: HttpRequest, form: ProgramForm, options: OptionsForm, status: int = 200, **more: Any) -> HttpResponse:
    teams = list(teams_for(request.user, UPLOAD))
    context = {
        "section": "upload",
        "form": form,
        "values": {name: form[name].value() or "" for name in form.fields},
        "options": options,
        "choices": options.choices(),
        "chosen": options.values(),
        "ticked": options.ticked(),
        "teams": teams,
        "team": teams[0] if len(teams) == 1 else None,
        "examples": examples(),
        "rows": [{"shape": "", "dtype": "float32", "high": ""}],
        **input_choices(),
        **more,
    }
    return render(request, "programs/upload.html", context, status=status)


class _Intake:
    """One POST of the upload form, from its fields to an answer."""

    def __init__(self, request: HttpRequest) -> None:
        self.request = request
        self.form = ProgramForm(request.POST)
        self.options = _options(request.user, request.POST)
        self.rows = input_rows(request.POST)
        self.filename = ""
        self.text: str | None = None  # once it is known, also that of a file

    def answer(self) -> HttpResponse:
        if not (self.form.is_valid() and self.options.is_valid()):
            return self.refuse(form_problems(self.form, self.options))
        files = self.request.FILES.getlist("files")
        if self._is_batch(files):
            return self.take_batch(files)
        text = self.form.cleaned_data["text"]
        if files:
            self.filename = str(files[0].name)
            text, problems = decode(self._bytes_of(files[0]), self.filename)
            if problems:
                return self.refuse(problems)
        return self.take_text(text)

    @staticmethod
    def _is_batch(files: list[UploadedFile]) -> bool:
        return len(files) > 1 or (len(files) == 1 and str(files[0].name).lower().endswith(".zip"))

    @staticmethod
    def _bytes_of(file: UploadedFile) -> bytes:
        """The file, or just more of it than is taken: a large one is not held in memory to be refused."""
        return bytes(file.read(settings.MAX_UPLOAD_KB * 1024 + 1))

    def take_text(self, text: str) -> HttpResponse:
        entry = self.form.cleaned_data["entry"].strip()
        problems = check_source(text, self.filename, entry)
        if [p.code for p in problems] == ["no-inputs"] and any(row["shape"].strip() for row in self.rows):
            try:
                text = with_inputs(text, entry, input_specs(self.rows), self.request.POST.get("init", ""))
            except ValueError as error:
                return self.refuse([Problem("inputs", str(error), "Correct it in the inputs form.")], text, asks_inputs=True)
            problems = check_source(text, self.filename, entry)
        if problems:
            return self.refuse(problems, text)
        self.text = text
        try:
            with transaction.atomic():
                return self._made(text, entry)
        except UploadRefused as refusal:
            return self.refuse(refusal.problems, text)
        except RunRefused as refusal:
            way_out = "Only analyse keeps the program; its page can start a run later."
            return self.refuse([Problem("run", str(refusal), way_out)], text)

    def _made(self, text: str, entry: str) -> HttpResponse:
        revision = self._revision(text, entry)
        if self.request.POST.get("action") == "save":
            create_analysis(revision)
            return redirect("program", revision.program_id)
        run = start_run(self.request.user, revision, self.options.options())
        return redirect("run", run.pk)

    def _revision(self, text: str, entry: str) -> Revision:
        program = self.request.POST.get("program", "")
        if program:
            if not program.isdecimal():
                raise Http404("There is no such program, or it is not shared with you.")
            return add_revision(self.request.user, program_for(self.request.user, int(program[:18]), UPLOAD), text, entry)
        form = self.form.cleaned_data
        upload = Upload(text, self.filename, entry, form["name"].strip(), form["description"].strip(), self.form.tag_words)
        return create_program(self.request.user, self.team(), upload)

    def take_batch(self, files: list[UploadedFile]) -> HttpResponse:
        batch = self._batch(files)
        try:
            form = self.form.cleaned_data
            suite = create_suite(self.request.user, self.team(), batch, form["name"].strip(), form["description"].strip())
        except UploadRefused as refusal:
            return self.refuse(refusal.problems[:20])
        left = [item for item in batch.items if item.problems]
        if left:
            told = " ".join(_told(item) for item in left[:10])
            messages.warning(self.request, f"{len(left)} of {len(batch.items)} files were left out. {told}")
        if self.request.POST.get("action") != "save":
            newest = Revision.objects.filter(program__suite=suite).select_related("program__team").order_by("program__path")
            room = runs_left(self.request.user)
            try:
                for revision in newest[: min(MAX_SUITE_RUNS, room)]:
                    start_run(self.request.user, revision, self.options.options())
            except RunRefused as refusal:
                messages.error(self.request, f"The suite is there, but no run was started. {refusal}")
            if room < min(MAX_SUITE_RUNS, newest.count()):
                most = f"one person may have {settings.RUNS_AT_ONCE} at once"
                messages.warning(self.request, f"{room} runs were started: {most}. Start the others when some have ended.")
        return redirect("suite", suite.pk)

    def _batch(self, files: list[UploadedFile]) -> Batch:
        if len(files) == 1:
            return read_zip(files[0], str(files[0].name))
        # Browsers send a folder's files with bare names; the page's script sends their paths beside them.
        paths = self.request.POST.get("paths", "").split("\n")
        names = paths if len(paths) == len(files) else [str(f.name) for f in files]
        return read_files([(name, self._bytes_of(file)) for name, file in zip(names, files, strict=True)])

    def team(self) -> Team:
        return team_to_write(self.request.user, self.request.POST.get("team", ""))

    def refuse(
        self, problems: list[Problem], text: str | None = None, asks_inputs: bool = False, status: int = 422
    ) -> HttpResponse:
        """The form again, with what was sent, the reasons, and the lines around the first of them."""
        if text is None:
            text = self.form.data.get("text", "") if self.text is None else self.text
        form = ProgramForm(initial={**{k: self.form.data.get(k, "") for k in self.form.fields}, "text": text})
        line = next((p.line for p in problems if p.line), None)
        lines = text.split("\n")
        around = range(max(line - 2, 1), min(line + 3, len(lines) + 1)) if line else ()
        codes = {p.code for p in problems}
        return _page(
            self.request, form, self.options, status=status,
            problems=problems, filename=self.filename, rows=self.rows, init=self.request.POST.get("init", ""),
            around=[(n, lines[n - 1][:MAX_SHOWN], n == line) for n in around],
            asks_inputs=asks_inputs or "no-inputs" in codes,
            modules=outline(text).modules if codes & {"which-module", "no-entry"} else (),
            program=self.request.POST.get("program", ""),
        )  # fmt: skip


def _told(item: Item) -> str:
    """Why a file of a batch is left out, with its place."""
    problem = item.problems[0]
    place = f" Line {problem.line}." if problem.line and problem.code != "not-python" else ""
    named = problem.sentence if item.path in problem.sentence else f"{item.path}: {problem.sentence}"
    return f"{named}{place}"


def team_to_write(user: Person, slug: str) -> Team:
    """The team that takes the upload: the named one; the person's first when none is named. PermissionDenied without it."""
    teams = teams_for(user, UPLOAD)
    team = teams.filter(slug=slug).first() if slug else teams.order_by("pk").first()
    if team is None and slug:
        raise PermissionDenied("You are not a member of the team that you chose, so nothing was uploaded.")
    if team is None:
        raise PermissionDenied("You are in no team as a member, so nothing can be uploaded. Ask an owner of a team.")
    return team
