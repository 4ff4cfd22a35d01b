"""User ids for sandboxes when the runner is root: one per running sandbox, never shared by two at once.

With an id of its own a sandbox cannot reach another one's processes even if a namespace failed.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from gpu_runner.config import Config, private_folder
from gpu_runner.hands import HandsError

SLOTS = 1000


class Slot:
    """Holds one id until `release`; a lock on a file tells other runners of this machine, and dies with this process."""

    def __init__(self, uid: int, fd: int) -> None:
        self.uid = uid
        self.fd = fd  # a copy of it, in the keeper, holds the id while this process cannot

    def release(self) -> None:
        if self.fd >= 0:
            # Closing alone would not do: a process forked meanwhile may hold a copy of the descriptor.
            fcntl.flock(self.fd, fcntl.LOCK_UN)
            os.close(self.fd)
            self.fd = -1


def _in_use(uid: int) -> bool:
    """Whether any process runs as `uid`: a slot is never given out while something of its last job could be left."""
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                if entry.stat().st_uid == uid:
                    return True
            except OSError:
                continue
    return False


def take(config: Config) -> Slot:
    """A free slot. Raises HandsError when all are taken."""
    folder = private_folder(config.runtime_dir)
    for number in range(SLOTS):
        fd = os.open(Path(folder) / f"slot-{number}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            continue
        if not _in_use(config.uid_base + number):
            return Slot(config.uid_base + number, fd)
        os.close(fd)
    raise HandsError(f"All {SLOTS} user ids for sandboxes are in use; end some jobs, or look for processes left by a crash.")
