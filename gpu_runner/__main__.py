"""`python -m gpu_runner doctor | verify | judge | profile | hacks`: the hands alone, in one process tree."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from gpu_runner import doctor, verify
from gpu_runner.hacks import command as hacks
from gpu_runner.profile import command as profile


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command and gives its exit status."""
    parser = argparse.ArgumentParser(prog="python -m gpu_runner", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="doctor | verify | judge | profile | hacks")
    commands.add_parser("doctor", help="what is here, what is missing, and the fix", add_help=False)
    verify.add_arguments(commands.add_parser("verify", help="judge and time one candidate", description=verify.__doc__))
    verify.add_judge_arguments(commands.add_parser("judge", help="the verdict again, from recorded evidence alone"))
    profile.add_arguments(commands.add_parser("profile", help="read a report of nsys, ncu or torch.profiler"))
    hacks.add_arguments(commands.add_parser("hacks", help="known cheats before the Verifier", description=hacks.__doc__))
    options, rest = parser.parse_known_args(argv)
    if options.command == "doctor":
        return doctor.main(rest)
    if rest:
        parser.error(f"unknown arguments: {' '.join(rest)}")
    if options.command == "profile":
        return profile.run(options)
    if options.command == "judge":
        return verify.judge(options)
    from gpu_runner.local import LocalHands  # starts a pool of processes: not for --help

    if options.command == "hacks":
        return hacks.run(options, LocalHands)
    return verify.run(options, LocalHands)


if __name__ == "__main__":
    sys.exit(main())
