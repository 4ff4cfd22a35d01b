"""The hands' settings: the only place of `gpu_runner` that reads the environment. A wrong value is refused with a sentence.

| variable | default | meaning |
| --- | --- | --- |
| `SANDBOX` | `bubblewrap` | the boundary of user code: `bubblewrap`, `landlock` (weaker, no namespaces) or `unsafe` (none) |
| `RUNNER_CACHE_DIR` | `~/.cache/stitchweb` | where built libraries are kept |
| `RUNNER_CACHE_MIB` | `2048` | how large that folder may grow |
| `RUNNER_RUNTIME_DIR` | a private folder in `$XDG_RUNTIME_DIR` (not for root) or `/tmp` | locks; emptied by a reboot |
| `RUNNER_THREADS` | the CPUs this process may use | threads a program computes with |
| `RUNNER_PACKAGES` | none | folders of further Python packages that programs may import, joined by `:` |
| `RUNNER_UID_BASE` | `61000` | first of the 1000 user ids that sandboxes take when the runner is root |
| `RUNNER_CXX` | `g++` | the C++ compiler |
| `RUNNER_NVCC` | `nvcc` | the CUDA compiler |
| `REDIS_URL` | none | the broker of a fleet; the hands alone need none |
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from gpu_runner.hands import HandsError

SandboxKind = Literal["bubblewrap", "landlock", "unsafe"]
SANDBOX_KINDS: tuple[SandboxKind, ...] = ("bubblewrap", "landlock", "unsafe")


class ConfigError(HandsError):
    """A setting that cannot be used. The message names the variable, its value and what would be right."""


@dataclass(frozen=True)
class Config:
    """Settings as read. Sizes in MiB, folders absolute and not yet created."""

    sandbox: SandboxKind
    cache_dir: Path
    cache_mib: int
    runtime_dir: Path
    threads: int
    packages: tuple[Path, ...]
    uid_base: int
    cxx: str
    nvcc: str
    broker_url: str


def _integer(environ: Mapping[str, str], name: str, default: int, low: int, high: int) -> int:
    text = environ.get(name, "").strip()
    if not text:
        return default
    try:
        value = int(text)
    except ValueError:
        raise ConfigError(f"{name}={text!r} is not a whole number; use one from {low} to {high}.") from None
    if not low <= value <= high:
        raise ConfigError(f"{name}={value} is out of range; use {low} to {high}.")
    return value


def _folder(environ: Mapping[str, str], name: str, default: Path) -> Path:
    text = environ.get(name, "").strip()
    path = Path(text).expanduser() if text else default
    if not path.is_absolute():
        raise ConfigError(f"{name}={text!r} is a relative path; use an absolute one.")
    return path


def _packages(environ: Mapping[str, str]) -> tuple[Path, ...]:
    folders = []
    for text in filter(None, environ.get("RUNNER_PACKAGES", "").split(":")):
        path = Path(text)
        if not path.is_absolute() or not path.is_dir():
            raise ConfigError(f"RUNNER_PACKAGES names {text!r}, which is not an existing folder with an absolute path.")
        folders.append(path)
    return tuple(folders)


def _word(environ: Mapping[str, str], name: str, default: str) -> str:
    text = environ.get(name, "").strip() or default
    if any(c.isspace() for c in text):
        raise ConfigError(f"{name}={text!r} contains a space; name one program, without options.")
    return text


def load(environ: Mapping[str, str]) -> Config:
    """The settings of `environ`. Raises ConfigError on the first value that cannot be used."""
    kind = environ.get("SANDBOX", "").strip() or "bubblewrap"
    if kind not in SANDBOX_KINDS:
        raise ConfigError(f"SANDBOX={kind!r} is unknown; use {' or '.join(SANDBOX_KINDS)}.")
    private = f"stitchweb-{os.getuid()}"
    # One place for all runners that root starts, however: locks on user ids lie there, and a shared id is no boundary.
    volatile = "/tmp" if os.getuid() == 0 else environ.get("XDG_RUNTIME_DIR", "") or tempfile.gettempdir()  # noqa: S108
    runtime = Path(volatile) / private
    cache = Path(environ.get("XDG_CACHE_HOME", "") or Path.home() / ".cache") / "stitchweb"
    return Config(
        sandbox=kind,
        cache_dir=_folder(environ, "RUNNER_CACHE_DIR", cache),
        cache_mib=_integer(environ, "RUNNER_CACHE_MIB", 2048, 16, 1 << 20),
        runtime_dir=_folder(environ, "RUNNER_RUNTIME_DIR", runtime),
        threads=_integer(environ, "RUNNER_THREADS", len(os.sched_getaffinity(0)), 1, 1024),
        packages=_packages(environ),
        uid_base=_integer(environ, "RUNNER_UID_BASE", 61000, 1000, 4_000_000_000),
        cxx=_word(environ, "RUNNER_CXX", "g++"),
        nvcc=_word(environ, "RUNNER_NVCC", "nvcc"),
        broker_url=environ.get("REDIS_URL", "").strip(),
    )


@lru_cache(maxsize=1)
def config() -> Config:
    """The settings of this process, read once."""
    return load(os.environ)


def private_folder(path: Path) -> Path:
    """Makes `path` if needed and returns it. Raises HandsError unless it is a real folder that only this user may write.

    A folder below `/tmp` could have been made by somebody else before us; what lies in it would then be theirs to change.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    state = path.lstat()
    if path.is_symlink() or state.st_uid != os.getuid() or state.st_mode & 0o022:
        raise HandsError(
            f"Others than this user may write to the folder {path}; remove it, or set RUNNER_RUNTIME_DIR and RUNNER_CACHE_DIR."
        )
    return path
