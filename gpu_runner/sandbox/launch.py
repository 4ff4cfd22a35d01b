"""Starts one process behind the boundary, and says why when there is none."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gpu_runner.config import Config
from gpu_runner.contracts import Limits
from gpu_runner.sandbox import cgroup, recipe, seccomp, slots, template
from gpu_runner.sandbox.channel import ANSWER_BYTES, Channel
from gpu_runner.sandbox.errors import SandboxUnavailable
from gpu_runner.sandbox.keeper import landlock
from gpu_runner.sandbox.keeper.enter import HOLDER
from gpu_runner.sandbox.memory import Memory
from gpu_runner.sandbox.spec import Tool
from gpu_runner.sandbox.template import Keeper, Kind

_FIRST_FD = 10  # the numbers by which an order knows its descriptors


@dataclass
class Launched:
    """A started process and all that has to be given back after it. Descriptors are ours to close.

    `keeper` ends when nothing of the sandbox is left, and its exit status is the program's.
    """

    keeper: Keeper
    channel: Channel
    answer: Memory
    output: int  # read end of its standard output and error
    group: cgroup.Group
    slot: slots.Slot | None
    folder: str  # where the job's files go, as the process sees it

    def give_back(self, patience_s: float) -> None:
        """Gives back everything that was held for it; after the keeper's end was waited for."""
        emptied = self.group.remove(patience_s) and self.keeper.wait(0) is not None
        self.channel.close()
        self.keeper.close()
        os.close(self.output)
        # A user id whose last job may have left something stays taken until this runner ends.
        if self.slot is not None and emptied:
            self.slot.release()


@dataclass
class Order:
    """What the keeper is told, as JSON. Descriptors have numbers of the order's own, from `first_fd` on.

    `argv`: what is started, bubblewrap or a program; none where the keeper's fork becomes the `program` (a script with its
    arguments). With `entered` it becomes that in the namespaces that `argv` makes and holds. `env`: the program's. `handed`:
    for what is started; `kept`: for the keeper, first the socket that it watches; `program_fds`: for the program. `staging`:
    host path and where to show it; `covered`: folders to be covered for that. `kill_user`: the user's processes are all the
    sandbox's. `rlimits`: of every process of the sandbox. `filter`: of the calls that they may make.
    """

    argv: list[str] = field(default_factory=list)
    program: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    entered: bool = False
    uid: int | None = None
    kill_user: bool = False
    groups: list[str] = field(default_factory=list)
    rlimits: dict[str, int] = field(default_factory=dict)
    staging: list[list[str]] = field(default_factory=list)
    covered: list[str] = field(default_factory=list)
    scratch: str = ""
    scratch_bytes: int = 0
    landlock: dict[str, Any] | None = None
    filter: int = -1
    first_fd: int = _FIRST_FD
    handed: list[int] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    program_fds: list[int] = field(default_factory=list)


@dataclass
class _Job:
    """One launch under way: what the three kinds of boundary need to write their order. `inside`: the program's arguments."""

    config: Config
    limits: Limits
    threads: int
    devices: tuple[str, ...]
    tool: Tool
    undo: contextlib.ExitStack
    handed_over: contextlib.ExitStack
    fds: list[int] = field(default_factory=list)
    inside: list[str] = field(default_factory=list)

    def number(self, fd: int) -> int:
        """The order's number for a descriptor of ours."""
        self.fds.append(fd)
        return _FIRST_FD + len(self.fds) - 1

    def filter(self, sockets: bool) -> int:
        pipes = bool(self.tool.prefix) or self.tool.talks
        program = seccomp.program(sockets=sockets, pipes=pipes, loopback=sockets and self.tool.talks)
        return self.number(self.handed_over.enter_context(Memory.of(program, "stitchweb-filter")).fd)

    @property
    def env(self) -> dict[str, str]:
        return recipe.environment(self.threads) | dict(self.tool.environment)

    @property
    def started(self) -> list[str]:
        """The command before the child's script where it is started: since a tool must be there from the first instruction on,
        or since none may be forked; else none."""
        wanted = self.tool.prefix or self.tool.environment or not template.forkable()
        return [*self.tool.prefix, sys.executable, "-I", "-u"] if wanted else []


def launch(
    config: Config, limits: Limits, threads: int, devices: tuple[str, ...], tool: Tool | None = None, kind: Kind = "plain"
) -> Launched:
    """Starts a child that will say "ready". `kind`: of what it is forked from."""
    with contextlib.ExitStack() as undo, contextlib.ExitStack() as handed_over:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        undo.callback(ours.close)
        handed_over.callback(theirs.close)
        hold, held = socket.socketpair()
        undo.callback(hold.close)
        handed_over.callback(held.close)
        output, output_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        undo.callback(os.close, output)
        handed_over.callback(os.close, output_end)
        os.set_blocking(output_end, True)
        answer = Memory.create(ANSWER_BYTES, "stitchweb-answer")
        undo.callback(answer.close)
        slot = slots.take(config) if os.getuid() == 0 and config.sandbox != "unsafe" else None
        if slot is not None:
            undo.callback(slot.release)
        group = cgroup.Group("none") if config.sandbox == "unsafe" else cgroup.make(limits)
        undo.callback(group.remove)
        own_uid = config.sandbox == "bubblewrap" or slot is not None
        rlimits = recipe.rlimits(limits, os.cpu_count() or 1, unbounded=bool(devices) or tool is not None, own_uid=own_uid)
        job = _Job(config, limits, threads, devices, tool or Tool(), undo, handed_over)
        channel = job.number(theirs.fileno())
        job.inside = [str(channel), json.dumps({"rlimits": rlimits})]
        order, folder = _ORDERS[config.sandbox](job)
        order.uid = slot.uid if slot is not None else None
        order.groups = group.procs
        order.rlimits = recipe.rlimits_outside(rlimits, own_user=slot is not None)
        order.handed += [channel]
        order.program_fds = [channel]
        order.kept = [job.number(fd) for fd in (held.fileno(), *((slot.fd,) if slot is not None else ()))]
        order_file = handed_over.enter_context(Memory.of(json.dumps(asdict(order)).encode(), "stitchweb-order"))
        os.lseek(order_file.fd, 0, os.SEEK_SET)
        keeper = template.shared(kind if template.forkable() else "plain").fork(order_file.fd, output_end, job.fds, hold)
        undo.pop_all()
        return Launched(keeper, Channel(ours, answer), answer, output, group, slot, folder)


def _bubblewrap(job: _Job) -> tuple[Order, str]:
    filter_fd = job.filter(sockets=True)
    # The options name descriptors by their numbers, so a file of unknown content gets its own first.
    options_fd = os.memfd_create("stitchweb-options", os.MFD_CLOEXEC)
    job.handed_over.callback(os.close, options_fd)
    number = job.number(options_fd)
    root = os.getuid() == 0
    env = job.env if job.started else {}  # else what holds the namespaces finds nothing, and the program has its own
    plan = recipe.bubblewrap(job.config, job.limits, env, job.devices, root, number, filter_fd, job.tool)
    os.pwrite(options_fd, b"".join(option.encode() + b"\0" for option in plan.options), 0)
    program = [f"{recipe.CHILD_INSIDE}/main.py", *job.inside]
    order = Order(handed=[number, filter_fd], staging=plan.staging, filter=filter_fd)
    if job.started:
        order.argv = [*plan.argv, "--", *job.started, *program]
    else:
        order.argv = [*plan.argv, "--as-pid-1", "--", *HOLDER]
        order.entered, order.program, order.env = True, program, job.env
    order.covered = ["/tmp"] if plan.staging else []  # noqa: S108 - covered with a private one
    return order, recipe.JOB_INSIDE


def _landlock(job: _Job) -> tuple[Order, str]:
    if sentence := no_landlock():
        raise SandboxUnavailable(sentence)
    order, folder = _unsafe(job)
    root = os.getuid() == 0
    order.kill_user = root
    order.scratch_bytes = 2 * job.limits.tmp_mib * recipe.MIB
    order.filter = job.filter(sockets=False)
    order.handed += [order.filter]
    order.landlock = recipe.landlock_rules(job.config, job.devices, job.tool.folders) | {"write": [order.scratch]}
    if root:
        order.staging, order.covered = recipe.uncovered(order.landlock["read"])
    return order, folder


def _unsafe(job: _Job) -> tuple[Order, str]:
    # Made and removed by the keeper, which lives as long as anything that could write there.
    scratch = os.path.join(tempfile.gettempdir(), f"stitchweb-job-{secrets.token_hex(8)}")
    env = job.env | dict.fromkeys(("HOME", "TMPDIR"), os.path.join(scratch, "tmp"))
    program = [str(recipe.CHILD_FOLDER / "main.py"), *job.inside]
    order = Order([*job.started, *program], env=env) if job.started else Order(program=program, env=env)
    order.scratch = scratch
    return order, f"{scratch}/job"


_ORDERS: dict[str, Callable[[_Job], tuple[Order, str]]] = {
    "bubblewrap": _bubblewrap,
    "landlock": _landlock,
    "unsafe": _unsafe,
}


def no_landlock() -> str:
    """Why Landlock cannot confine programs here, as a sentence with its fix; empty when it can."""
    version = landlock.abi()
    if version == 0:
        return "This kernel offers no Landlock; use Linux 5.13 or later with `landlock` in the kernel's option `lsm=`."
    if version < landlock.SIGNALS_ABI and os.getuid() != 0:
        return (
            f"This kernel's Landlock (ABI {version}) cannot keep a program from ending other processes of its user; use Linux"
            " 6.12 or later, or start the runner as root, which gives each program a user of its own."
        )
    return ""


_SWITCHES = (
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "AppArmor forbids unprivileged user namespaces on this machine; run "
        "`sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0`, or give bwrap an AppArmor profile that allows `userns`.",
    ),
    (
        "/proc/sys/kernel/unprivileged_userns_clone",
        "0",
        "Unprivileged user namespaces are switched off on this machine; run `sudo sysctl kernel.unprivileged_userns_clone=1`.",
    ),
    (
        "/proc/sys/user/max_user_namespaces",
        "0",
        "No user namespaces are allowed on this machine; run `sudo sysctl user.max_user_namespaces=15000`.",
    ),
)


def blocked_by() -> str:
    """The kernel switch that forbids user namespaces here, as a sentence with its fix; empty when none does."""
    for file, value, sentence in _SWITCHES:
        with contextlib.suppress(OSError):
            if Path(file).read_text().strip() == value:
                return sentence
    return ""


def why_not_started(output: str) -> str:
    """A sentence for a sandbox that ended before it was ready; `output` is what the keeper and bubblewrap said."""
    said = " ".join(output.split())[-400:] or "nothing was printed"
    cause = blocked_by() or (
        "In a container, allow namespaces (Docker: `--security-opt` with seccomp=unconfined, apparmor=unconfined and"
        " systempaths=unconfined, on a host of its own); for your own programs alone, SANDBOX=unsafe runs without protection."
    )
    return f"The sandbox could not be started ({said}). {cause}"
