"""`python -m agents.training run | serve | tasks | judge | recipes`: training without Django, for hosts with GPUs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from agents.training import command
from agents.training.service import command as service


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command and gives its exit status."""
    parser = argparse.ArgumentParser(prog="python -m agents.training", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="run | serve | tasks | judge | recipes")
    run = commands.add_parser("run", help="train by a recipe", description=command.work.__doc__)
    command.add_arguments(run)
    run.set_defaults(work=command.work)
    listed = commands.add_parser("recipes", help="what recipes there are", description=command.recipes.__doc__)
    listed.set_defaults(work=command.recipes)
    serve = commands.add_parser("serve", help="the reward service alone", description=service.run.__doc__)
    service.add_arguments(serve)
    serve.set_defaults(work=service.run)
    given = parser.parse_args(argv)
    status: int = given.work(given)
    return status


if __name__ == "__main__":
    sys.exit(main())
