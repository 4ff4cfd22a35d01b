"""`python -m gpu_runner doctor | verify`: the hands alone, in one process tree."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from gpu_runner import doctor, verify


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command and gives its exit status."""
    parser = argparse.ArgumentParser(prog="python -m gpu_runner", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="doctor | verify")
    commands.add_parser("doctor", help="what is here, what is missing, and the fix", add_help=False)
    verify.add_arguments(commands.add_parser("verify", help="judge and time one candidate", description=verify.__doc__))
    options, rest = parser.parse_known_args(argv)
    if options.command == "doctor":
        return doctor.main(rest)
    if rest:
        parser.error(f"unknown arguments: {' '.join(rest)}")
    from gpu_runner.local import LocalHands  # starts a pool of processes: not for --help

    return verify.run(options, LocalHands)


if __name__ == "__main__":
    sys.exit(main())
