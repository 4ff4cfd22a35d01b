"""`python -m agents.training.learning JOB.json`. Exit status: 0 done, 2 something is missing, 4 the stage had to stop."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from agents.training.job import DONE, FAILED, Job
from agents.training.learning.telling import Teller
from agents.training.service.client import NoService
from agents.training.service.process import ends_with_input

BAD_INPUT, BROKEN = 2, 4
NEEDED = ("torch", "transformers", "datasets", "trl")


def main() -> int:
    teller = Teller.of_this_process()
    ends_with_input(lambda: os.kill(os.getpid(), signal.SIGKILL))  # whoever started this has gone, and nobody wants the rest
    job = Job.model_validate_json(Path(sys.argv[1]).read_bytes())
    try:
        import datasets  # noqa: F401
        import transformers  # noqa: F401
        import trl  # noqa: F401
    except ImportError as error:
        teller.tell(FAILED, sentence=f"Training needs {', '.join(NEEDED)}, and {error.name} is not here: `make setup-train`.")
        return BAD_INPUT
    from agents.training.learning.stages import StageFailed, carry_out

    try:
        carry_out(job, teller)
    except (StageFailed, NoService) as error:
        teller.tell(FAILED, sentence=str(error))
        return BROKEN
    teller.tell(DONE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
