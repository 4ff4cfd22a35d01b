"""What there is to do with runs, and which page, socket and task does it."""

from __future__ import annotations

from stitchweb.core.permissions import MANAGERS, RUNNERS, SIGNED_IN, TEAM, WORKERS, Action, Route, form, get, post
from stitchweb.programs.permissions import SEE as SEE_PROGRAM
from stitchweb.programs.permissions import UPLOAD
from stitchweb.teams.permissions import USE_SITE

SEE = Action(
    "run.see", "See a run with all that it measured, watch it live, take its files home", TEAM,
    "Not while one scores candidates of its program blind",
)  # fmt: skip
START = Action("run.start", "Start a run", WORKERS)
STEER = Action("run.steer", "Steer a run: controls, plan, hints, candidates by hand, checks again, a run again", WORKERS)
SEE_QUESTIONS = Action(
    "run.see-questions", "Read what a run asked its models and what they answered", TEAM,
    "Those below a maintainer: of the runs that they started",
)  # fmt: skip
SEE_ALL_QUESTIONS = Action("run.see-all-questions", "The same of everybody's runs", MANAGERS)
OWN_PROFILES = Action("profile.own", "Import profiler reports, read and delete them", SIGNED_IN, "One's own alone")
JOIN = Action("runner.join", "Join a runner to the site", RUNNERS, "With a token that an operator made, once")
BE_THERE = Action("runner.present", "Say that a runner is there", RUNNERS, "With the secret that it got by joining")
REPORT = Action(
    "job.report", "Do a job: claim, progress, files, the library built for it, result", RUNNERS,
    "The job that the token names alone",
)  # fmt: skip

ROUTES = {
    "library": get(USE_SITE),
    "program": Route(get=SEE_PROGRAM, post=START),
    "program-source": get(SEE_PROGRAM),
    "suite": get(SEE_PROGRAM),
    "upload": Route(get=USE_SITE, post=UPLOAD, limit="upload", refuses_nulls=True),
    "status": get(USE_SITE),
    "profiles": form(OWN_PROFILES),
    "profile": get(OWN_PROFILES),
    "profile-delete": post(OWN_PROFILES),
    "profile-file": get(OWN_PROFILES),
    "runs": get(USE_SITE),
    "run": get(SEE),
    "run-events": get(SEE),
    "run-control": post(STEER),
    "run-replay": post(STEER),
    "run-again": post(STEER),
    "run-plan": form(STEER),
    "run-diff": get(SEE),
    "run-edit": form(STEER),
    "run-zip": get(SEE),
    "run-log": get(SEE),
    "run-profile-file": get(SEE),
    "run-file": get(SEE),
    "job-claim": Route(post=REPORT, by_token=True),
    "job-progress": Route(post=REPORT, by_token=True),
    "job-report": Route(post=REPORT, by_token=True),
    "job-artifact": Route(post=REPORT, by_token=True),
    "job-library": Route(get=REPORT, by_token=True),
    "runner-join": Route(post=JOIN, by_token=True),
    "runner-present": Route(post=BE_THERE, by_token=True),
}
SOCKETS = {"ws/runs/<int:pk>/": SEE}
TASKS = {"stitchweb.advance": START, "stitchweb.think": START}
