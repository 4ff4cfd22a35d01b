"""A runner for a site in its browser's tests, with hands that play a story: `python -m tests.e2e.fake_runner`.

It takes jobs out of the table, as the broker would bring them, and reports at the job endpoint. Runs in the site's settings.
"""

from __future__ import annotations

import time

import django

django.setup()

from stitchweb.runs.jobbook import token_of  # noqa: E402
from stitchweb.runs.models import Job, JobState  # noqa: E402
from tests.stitchweb import model_story  # noqa: E402
from tests.stitchweb.conveyor import Runner  # noqa: E402


def main() -> None:
    """Works until it is ended."""
    hands, taken = model_story.hands(wrong=True), set[int]()
    while True:
        for job in Job.objects.filter(state=JobState.QUEUED, queue__startswith="run.").exclude(pk__in=taken):
            taken.add(job.pk)
            Runner({"id": job.pk, "token": token_of(job.pk)}).work(hands)
        time.sleep(0.05)


if __name__ == "__main__":
    main()
