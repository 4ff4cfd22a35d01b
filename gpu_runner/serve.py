"""Starts a runner. Not in the worker's module, which Celery must find under one name.

    python -m gpu_runner.serve --join https://SITE TOKEN     joins the site, then takes jobs
    python -m gpu_runner.serve                               takes jobs, joined before

Joining spends the token, which the site's operator made for certain queues, and leaves the account in the cache folder.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from gpu_runner.broker import runner_name
from gpu_runner.config import config
from gpu_runner.hands import HandsError
from gpu_runner.remote import Account, NotTaken, join


def main(arguments: list[str]) -> int:
    """Serve until told to stop. Exit status 2 for a call or an account that cannot be used, 3 after this runner was removed."""
    parser = argparse.ArgumentParser(prog="python -m gpu_runner.serve", description="Serves the jobs of one device.")
    parser.add_argument(
        "--join", nargs=2, metavar=("SITE", "TOKEN"),
        help="the site's address and a token from its operator, or the absolute path of a file with one; no effect once joined",
    )  # fmt: skip
    parser.add_argument("--name", default="runner", help="told to people when a step waits for it")
    parser.add_argument("--account", type=Path, help="the file that keeps the account (default: in RUNNER_CACHE_DIR)")
    options = parser.parse_args(arguments)
    try:
        path = options.account or config().cache_dir / f"runner-{options.name}.json"
        account = Account.read(path) if path.exists() else _joined(options.join, options.name, path)
    except (OSError, ValueError, HandsError, NotTaken) as error:
        print(f"This runner cannot start: {error}", file=sys.stderr)
        return 2
    if not (account.broker or config().broker_url):
        print("REDIS_URL is not set and the account names no broker: a runner takes its jobs from one.", file=sys.stderr)
        return 2
    from gpu_runner.worker import serve  # here, so that a wrong call answers at once and without Celery

    status = serve(account)
    if status == 3:
        path.unlink(missing_ok=True)  # it opens nothing any more; a restart with a fresh token joins again
    return status


def _joined(where: list[str] | None, name: str, path: Path) -> Account:
    if where is None:
        raise ValueError(f"there is no account in {path}. Join a site first: --join https://SITE TOKEN.")
    site, token = where
    if token.startswith("/"):
        token = Path(token).read_text().strip()
    account = join(site, token, runner_name(name))
    account.write(path)
    return account


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
