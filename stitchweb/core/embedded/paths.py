"""Where the embedded parts keep what must survive a restart or be found by another process."""

from __future__ import annotations

import hashlib
import os
import secrets
import tempfile
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured


def kept_secret(path: Path, setting: str = "SECRET_KEY") -> str:
    """The secret in this file; made on first use, readable by its owner alone. Safe when two processes come at once.

    `setting`: what could be set instead, for the sentence of a folder that takes no file.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        if not path.exists():
            fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(fd, "w") as file:
                file.write(secrets.token_urlsafe(64))
            try:
                os.link(fresh, path)  # fails when another process was quicker, which is fine
            except FileExistsError:
                pass
            finally:
                fresh.unlink()
        return path.read_text().strip()
    except OSError as error:
        raise ImproperlyConfigured(
            f"No {setting} is set and none can be kept in {path}: {error.strerror}. Set {setting} or a writable DATA_DIR."
        ) from error


def runtime_dir(data_dir: Path) -> Path:
    """A short folder for sockets, the same for every process that uses `data_dir`. Not created here.

    Unix socket paths end at about 107 bytes, so it cannot lie in the data folder, whose path may be long.
    """
    mark = hashlib.sha256(str(data_dir).encode()).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"stitchweb-{os.getuid()}-{mark}"


def socket_path(data_dir: Path) -> Path:
    """The socket of the embedded broker of this data folder."""
    return runtime_dir(data_dir) / "broker.sock"
