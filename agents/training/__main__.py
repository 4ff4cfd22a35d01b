"""`python -m agents.training run | serve | tasks | …`: training without Django, for hosts with GPUs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from agents.training import command, curve
from agents.training.service import command as service
from agents.training.tasks import command as tasks
from agents.training.verl import rows as verl_rows


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command and gives its exit status."""
    parser = argparse.ArgumentParser(prog="python -m agents.training", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="run | serve | tasks | recipes | curve | verl-rows")
    run = commands.add_parser("run", help="train by a recipe", description=command.work.__doc__)
    command.add_arguments(run)
    run.set_defaults(work=command.work)
    listed = commands.add_parser("recipes", help="what recipes there are", description=command.recipes.__doc__)
    listed.set_defaults(work=command.recipes)
    serve = commands.add_parser("serve", help="the reward service alone", description=service.run.__doc__)
    service.add_arguments(serve)
    serve.set_defaults(work=service.run)
    drawn = commands.add_parser("curve", help="draw recorded runs", description=curve.run.__doc__)
    curve.add_arguments(drawn)
    drawn.set_defaults(work=curve.run)
    made = commands.add_parser("tasks", help="compose new references to train on", description=tasks.run.__doc__)
    tasks.add_arguments(made)
    made.set_defaults(work=tasks.run)
    tooled = commands.add_parser("verl-rows", help="rows of a release for verl's agent", description=verl_rows.run.__doc__)
    verl_rows.add_arguments(tooled)
    tooled.set_defaults(work=verl_rows.run)
    given = parser.parse_args(argv)
    status: int = given.work(given)
    return status


if __name__ == "__main__":
    sys.exit(main())
