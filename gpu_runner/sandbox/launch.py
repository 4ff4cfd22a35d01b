"""Starts one process behind the boundary, and says why when there is none."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from gpu_runner.config import Config
from gpu_runner.contracts import Limits
from gpu_runner.sandbox import cgroup, recipe, seccomp, slots, spawner
from gpu_runner.sandbox.channel import ANSWER_BYTES, Channel
from gpu_runner.sandbox.memory import Memory

_LAUNCHER = Path(__file__).with_name("launcher.py")


@dataclass
class Launched:
    """A started process and all that has to be given back after it. Descriptors are ours to close."""

    popen: subprocess.Popen[bytes]
    channel: Channel
    answer: Memory
    output: int  # read end of its standard output and error
    status: int  # read end of bubblewrap's status, -1 without a boundary
    group: cgroup.Group
    slot: slots.Slot | None
    folder: str  # where the job's files go, as the process sees it
    scratch: str = ""  # a folder to delete afterwards, without a boundary only

    @property
    def confined(self) -> bool:
        return self.status >= 0


def launch(config: Config, limits: Limits, threads: int, devices: tuple[str, ...], warm: bool) -> Launched:
    """Starts a child that will say "ready". `warm`: it imports torch before that."""
    with contextlib.ExitStack() as undo, contextlib.ExitStack() as handed_over:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        undo.callback(ours.close)
        handed_over.callback(theirs.close)
        output, output_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        undo.callback(os.close, output)
        handed_over.callback(os.close, output_end)
        os.set_blocking(output_end, True)
        answer = Memory.create(ANSWER_BYTES, "stitchweb-answer")
        undo.callback(answer.close)
        confined = config.sandbox == "bubblewrap"
        rlimits = recipe.rlimits(limits, os.cpu_count() or 1, gpu=bool(devices), own_uid=confined)
        # As a descriptor number the child's end keeps its own: bubblewrap passes on what it was given.
        inside = [str(theirs.fileno()), json.dumps({"rlimits": rlimits, "warm": warm})]
        if not confined:
            scratch = tempfile.mkdtemp(prefix="stitchweb-unsafe-")
            undo.callback(shutil.rmtree, scratch, ignore_errors=True)
            env = recipe.environment(threads) | {"HOME": scratch, "TMPDIR": scratch}
            argv = [sys.executable, "-I", "-u", str(recipe.CHILD_FOLDER / "main.py"), *inside]
            popen = spawner.start(argv, env, output_end, [theirs.fileno()])
            undo.pop_all()
            return Launched(popen, Channel(ours, answer), answer, output, -1, cgroup.Group("none"), None, scratch, scratch)

        root = os.getuid() == 0
        slot = slots.take(config) if root else None
        if slot is not None:
            undo.callback(slot.release)
        group = cgroup.make(limits)
        undo.callback(group.remove)
        status, status_end = os.pipe2(os.O_CLOEXEC)
        undo.callback(os.close, status)
        handed_over.callback(os.close, status_end)
        filter_file = handed_over.enter_context(Memory.of(seccomp.program(), "stitchweb-filter"))
        # The options name their own descriptor, so a file of unknown content gets its number first.
        options_fd = os.memfd_create("stitchweb-options", os.MFD_CLOEXEC)
        handed_over.callback(os.close, options_fd)
        plan = recipe.bubblewrap(config, limits, threads, devices, root, options_fd, filter_file.fd, status_end)
        program = [sys.executable, "-I", "-u", f"{recipe.CHILD_INSIDE}/main.py", *inside]
        os.pwrite(options_fd, b"".join(option.encode() + b"\0" for option in plan.options), 0)
        order = {
            "parent": os.getpid(),
            "uid": slot.uid if slot is not None else None,
            "groups": group.procs,
            "staging": plan.staging,
            "argv": [*plan.argv, "--", *program],
        }
        order_file = handed_over.enter_context(Memory.of(json.dumps(order).encode(), "stitchweb-order"))
        fds = [theirs.fileno(), options_fd, filter_file.fd, status_end, order_file.fd]
        popen = spawner.start([sys.executable, "-I", "-S", str(_LAUNCHER), str(order_file.fd)], {}, output_end, fds)
        undo.pop_all()
        return Launched(popen, Channel(ours, answer), answer, output, status, group, slot, recipe.JOB_INSIDE)


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
    """A sentence for a sandbox that ended before it was ready; `output` is what the launcher and bubblewrap said."""
    said = " ".join(output.split())[-400:] or "nothing was printed"
    cause = blocked_by() or (
        "In a container, allow namespaces (Docker: `--security-opt` with seccomp=unconfined, apparmor=unconfined and"
        " systempaths=unconfined, on a host of its own); for your own programs alone, SANDBOX=unsafe runs without protection."
    )
    return f"The sandbox could not be started ({said}). {cause}"
