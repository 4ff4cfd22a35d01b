"""Starts a runner: `python -m gpu_runner.serve run.cpu`. Not in the worker's module, which Celery must find under one name."""

from __future__ import annotations

import argparse
import re
import sys

from gpu_runner.config import config

_QUEUE = re.compile(r"^(?:run\.(?:cpu|sm_\d{2,3}a?)|build\.cuda)$")


def main(arguments: list[str]) -> int:
    """Serve queues until told to stop. Exit status 2 for a queue that cannot exist or a broker that is not named."""
    parser = argparse.ArgumentParser(prog="python -m gpu_runner.serve", description="Serves the jobs of one device.")
    parser.add_argument("queue", nargs="+", help="run.cpu, run.sm_90, … or build.cuda")
    parser.add_argument("--name", default="runner", help="told to people when a step waits for it")
    options = parser.parse_args(arguments)
    wrong = [queue for queue in options.queue if not _QUEUE.match(queue)]
    if wrong:
        print(f"There is no queue {wrong[0]!r}: use run.cpu, run.sm_NN of a CUDA device, or build.cuda.", file=sys.stderr)
        return 2
    if not config().broker_url:
        print("REDIS_URL is not set: a runner takes its jobs from the broker of the site it serves.", file=sys.stderr)
        return 2
    from gpu_runner.worker import serve  # here, so that a wrong call answers at once and without Celery

    serve(options.queue, options.name)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
