"""Runs a command beside a PostgreSQL of its own, which is gone afterwards: `python tools/with_postgres.py COMMAND…`.

The command finds `DATABASE_URL`. The server keeps its data in a temporary folder, listens on a socket in it and nowhere else,
and writes nothing through to the disk, since nothing of it is kept. Where this is root it runs as `nobody`.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

QUICK = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "listen_addresses=")
MISSING = "PostgreSQL's server is not installed here: install the package postgresql (`make test` does) and run this again."


def binary(name: str) -> str:
    """A program of the server: on the PATH, or in the newest of Debian's folders, which are not on it."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: float(folder.parent.name), reverse=True)
    found = [shutil.which(name), *(shutil.which(name, path=str(folder)) for folder in versions)]
    if not any(found):
        raise SystemExit(MISSING)
    return next(filter(None, found))


def main(command: list[str]) -> int:
    """The command's exit status."""
    if not command:
        raise SystemExit(__doc__)
    initdb, pg_ctl = binary("initdb"), binary("pg_ctl")
    owner = pwd.getpwnam("nobody" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name)
    with tempfile.TemporaryDirectory(prefix="stitchweb-postgres-") as folder:
        os.chmod(folder, 0o711)  # noqa: S103 - the client is another user where this is root
        home = Path(folder, "server")
        home.mkdir(mode=0o711)
        os.chown(home, owner.pw_uid, owner.pw_gid)
        data, log = home / "data", home / "log"

        def server(*arguments: str) -> subprocess.CompletedProcess[str]:
            user = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}
            return subprocess.run(arguments, cwd=home, capture_output=True, text=True, check=False, **user)

        made = server(initdb, "-D", str(data), "-U", "stitchweb", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "-N")
        options = " ".join([f"-k {home}", *(f"-c {setting}" for setting in QUICK)])
        if made.returncode or server(pg_ctl, "-D", str(data), "-l", str(log), "-w", "-o", options, "start").returncode:
            why = log.read_text() if log.is_file() else made.stderr
            raise SystemExit(f"PostgreSQL did not start:\n{why[-2000:]}")
        try:
            address = f"postgresql://stitchweb@/postgres?host={quote(str(home), safe='')}"
            return subprocess.run(["env", f"DATABASE_URL={address}", *command], check=False).returncode
        finally:
            server(pg_ctl, "-D", str(data), "-m", "immediate", "-w", "stop")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
