"""What a sandboxed process is shown, and what its filter and limits say, looked at without starting one."""

from __future__ import annotations

import dataclasses
import struct
import sys
import tempfile
from pathlib import Path

import pytest

from gpu_runner.config import config
from gpu_runner.contracts import Limits
from gpu_runner.hands import HandsError
from gpu_runner.sandbox import SandboxUnavailable, recipe, seccomp
from gpu_runner.sandbox.output import HEAD_BYTES, TAIL_BYTES, Capture
from gpu_runner.sandbox.spec import Tool

LIMITS = Limits()


def options(root: bool = False, devices: tuple[str, ...] = (), packages: tuple[Path, ...] = ()) -> recipe.Recipe:
    settings = dataclasses.replace(config(), packages=packages)
    return recipe.bubblewrap(settings, LIMITS, recipe.environment(2), devices, root, 5, 6)


def pairs(plan: recipe.Recipe, flag: str) -> dict[str, str]:
    """Destination to source of every option `flag SOURCE DESTINATION`."""
    found = plan.options
    return {found[i + 2]: found[i + 1] for i, word in enumerate(found) if word == flag}


def test_the_sealing_options_come_last_and_temporary_folders_before_binds() -> None:
    words = options().options
    last_bind = max(i for i, word in enumerate(words) if word in ("--ro-bind", "--tmpfs", "--dev", "--proc"))
    assert all(words.index(word) > last_bind for word in ("--remount-ro", "--cap-drop", "--seccomp"))
    binds = [i for i, word in enumerate(words) if word == "--ro-bind" and words[i + 2] == recipe.CHILD_INSIDE]
    assert binds[0] > max(i for i, word in enumerate(words) if word == "--tmpfs")


def test_every_temporary_folder_has_a_size() -> None:
    words = options().options
    for i, word in enumerate(words):
        if word == "--tmpfs":
            assert words[i - 2] == "--size"
            assert int(words[i - 1]) <= LIMITS.tmp_mib << 20


def test_nothing_of_the_host_is_writable_and_no_namespace_is_shared() -> None:
    words = options().options
    assert not {"--bind", "--bind-try", "--share-net", "--dev-bind"} & set(words)
    for namespace in ("user", "pid", "net", "ipc", "uts"):
        assert f"--unshare-{namespace}" in words


def test_of_the_host_only_the_system_python_and_the_child_are_shown(tmp_path: Path) -> None:
    shown = set(pairs(options(packages=(tmp_path,)), "--ro-bind"))
    allowed = {"/usr", "/lib", "/lib64", "/lib32", "/bin", "/sbin", "/etc/ld.so.cache", "/etc/alternatives"}
    allowed |= {recipe.CHILD_INSIDE, str(tmp_path)}
    prefixes = (sys.prefix, sys.base_prefix)
    assert all(path in allowed or path.startswith(prefixes) for path in shown)
    assert str(tmp_path) in shown
    if sys.prefix != sys.base_prefix:
        assert sys.prefix not in shown, "a virtual environment may be the checkout itself"


def test_as_root_what_an_ordinary_user_cannot_reach_is_staged_and_nothing_else(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden" / "packages"
    hidden.mkdir(parents=True)
    hidden.parent.chmod(0o700)
    plan = options(root=True, packages=(hidden,))
    staged = {place: source for source, place in plan.staging}
    bound = pairs(plan, "--ro-bind")
    assert staged[bound[str(hidden)]] == str(hidden)
    assert "/usr" not in staged.values()
    for source in bound.values():
        assert source in staged or (recipe.open_to_all(Path(source)) and not source.startswith("/tmp/"))


def test_as_root_what_lies_below_the_folder_that_staging_covers_is_staged_too() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        assert recipe.open_to_all(Path(folder))
        plan = options(root=True, packages=(Path(folder),))
        assert folder in [source for source, _ in plan.staging]


def test_as_root_what_is_reached_through_a_link_is_shown_from_where_it_lies(tmp_path: Path) -> None:
    link = tmp_path / "packages"
    link.symlink_to("/usr/share")
    tmp_path.chmod(0o700)
    assert pairs(options(root=True, packages=(link,)), "--ro-bind")[str(link)] == "/usr/share"


def test_a_path_is_open_to_all_only_with_every_folder_above_it(tmp_path: Path) -> None:
    assert recipe.open_to_all(Path("/usr"))
    (tmp_path / "file").write_text("x")
    (tmp_path / "file").chmod(0o644)
    (tmp_path / "link").symlink_to(tmp_path / "file")
    tmp_path.chmod(0o700)
    assert not recipe.open_to_all(tmp_path / "file")
    assert not recipe.open_to_all(tmp_path / "link")


def test_only_the_devices_of_the_job_are_bound() -> None:
    assert pairs(options(devices=("/dev/nvidia3",)), "--dev-bind") == {"/dev/nvidia3": "/dev/nvidia3"}


@pytest.mark.parametrize("prefix", ["/", str(Path.home())])
def test_an_interpreter_that_would_show_a_home_is_refused(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "base_prefix", prefix)
    with pytest.raises(SandboxUnavailable, match="cannot be shown"):
        recipe.interpreter_folders()


def test_the_environment_is_small_and_made_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "canary")
    assert "canary" not in str(recipe.environment(2))
    assert recipe.environment(2)["OMP_NUM_THREADS"] == "2"


def test_a_gpu_job_has_no_limit_on_address_space() -> None:
    assert recipe.rlimits(LIMITS, 2, unbounded=False)["as"] > LIMITS.memory_mib << 20
    assert "as" not in recipe.rlimits(LIMITS, 2, unbounded=True)
    assert "nproc" not in recipe.rlimits(LIMITS, 2, unbounded=False, own_uid=False)


def test_every_limit_holds_for_bubblewraps_own_processes_too_and_the_count_where_the_user_is_the_sandboxs_own() -> None:
    limits = recipe.rlimits(LIMITS, 2, False)
    own, shared = recipe.rlimits_outside(limits, own_user=True), recipe.rlimits_outside(limits, own_user=False)
    assert own.pop("nproc") > limits["nproc"]
    assert own == shared == {name: value for name, value in limits.items() if name != "nproc"}


# The filter, run by a small interpreter of its language: what the kernel would answer to a call.

ALLOW, KILL = 0x7FFF0000, 0x80000000
EPERM, ENOSYS, EAFNOSUPPORT = (0x00050000 | number for number in (1, 38, 97))
X86, ARM = 0xC000003E, 0xC00000B7


def answer(machine: str, audit: int, number: int, *arguments: int, **kinds: bool) -> int:
    data = struct.pack("<IIQ6Q", number, audit, 0, *arguments, *[0] * (6 - len(arguments)))
    program = seccomp.program(machine, **kinds)
    position, register = 0, 0
    while True:
        code, yes, no, value = struct.unpack_from("=HBBI", program, position * 8)
        position += 1
        match code:
            case 0x20:
                register = struct.unpack_from("<I", data, value)[0]
            case 0x15:
                position += yes if register == value else no
            case 0x35:
                position += yes if register >= value else no
            case 0x45:
                position += yes if register & value else no
            case 0x54:
                register &= value
            case 0x06:
                return int(value)


@pytest.mark.parametrize(("machine", "audit", "column"), [("x86_64", X86, 0), ("aarch64", ARM, 1)])
def test_the_filter_denies_every_listed_call_on_its_architecture(machine: str, audit: int, column: int) -> None:
    for name, numbers in seccomp.DENIED.items():
        if (number := numbers[column]) is not None:
            assert answer(machine, audit, number) == EPERM, name


@pytest.mark.parametrize(
    ("number", "arguments", "expected"),
    [
        (0, (), ALLOW),  # read
        (9, (0, 4096, 3, 0x22), ALLOW),  # mmap of anonymous memory
        (9, (0, 4096, 3, 0x40022), EPERM),  # of huge pages
        (9, (0, 4096, 3, 0x78040022), EPERM),  # of a named size
        (59, (), ALLOW),  # execve
        (56, (17,), ALLOW),  # clone as fork does it
        (56, (0x3D0F00,), ALLOW),  # clone as threads do it
        (56, (0x10000000 | 17,), EPERM),  # with a user namespace
        (56, (0x00020000,), EPERM),  # with a mount namespace
        (435, (), ENOSYS),  # clone3
        (41, (1, 1, 0), ALLOW),  # a Unix socket
        (41, (2, 1, 0), EAFNOSUPPORT),
        (41, (40, 1, 0), EAFNOSUPPORT),
        (53, (1, 1, 0), ALLOW),
        (53, (16, 1, 0), EAFNOSUPPORT),
        (16, (0, 0x5401), ALLOW),  # an ordinary ioctl
        (16, (0, 0xC020462A), ALLOW),  # one of the NVIDIA driver's
        (16, (0, 0x5412), EPERM),
        (16, (0, 0x541C), EPERM),
        (0x40000000, (), KILL),  # x32
    ],
)
def test_the_filter_looks_at_arguments_where_a_number_does_not_say_enough(
    number: int, arguments: tuple[int, ...], expected: int
) -> None:
    assert answer("x86_64", X86, number, *arguments) == expected


CLOEXEC = 0o2000000


@pytest.mark.parametrize(
    ("number", "arguments", "expected"),
    [
        (41, (1, 1, 0), EAFNOSUPPORT),
        (41, (2, 1, 0), EAFNOSUPPORT),
        (53, (1, 1 | CLOEXEC, 0), ALLOW),  # a pair of streams
        (53, (1, 5, 0), ALLOW),  # of packets, connected for good
        (53, (1, 2, 0), EAFNOSUPPORT),  # of datagrams, each of which may name another receiver
        (53, (1, 2 | CLOEXEC, 0), EAFNOSUPPORT),
        (53, (1, 3, 0), EAFNOSUPPORT),
        (53, (2, 1, 0), EAFNOSUPPORT),
        (302, (0, 7), ALLOW),  # limits of its own
        (302, (1234, 7), EPERM),
        (0, (), ALLOW),
        (101, (), EPERM),
        (16, (0, 0x5412), EPERM),
    ],
)
def test_the_filter_of_a_boundary_that_hides_no_file_leaves_no_way_to_a_socket_of_the_host(
    number: int, arguments: tuple[int, ...], expected: int
) -> None:
    assert answer("x86_64", X86, number, *arguments, sockets=False) == expected


@pytest.mark.parametrize(
    ("family", "expected"), [(1, ALLOW), (2, ALLOW), (10, EAFNOSUPPORT), (16, EAFNOSUPPORT), (40, EAFNOSUPPORT)]
)
def test_beside_a_profiler_the_loopback_may_be_used_and_no_other_family(family: int, expected: int) -> None:
    assert answer("x86_64", X86, 41, family, 1, 0, loopback=True, pipes=True) == expected
    assert answer("x86_64", X86, 16, 0, 0x5412, loopback=True) == EPERM
    assert answer("x86_64", X86, 259, 0, 0, 0o010644, 0, pipes=True) == ALLOW
    assert answer("x86_64", X86, 259, 0, 0, 0o020644, 0, pipes=True) == EPERM


def test_a_tools_folders_are_shown_and_nothing_else_of_them(tmp_path: Path) -> None:
    plan = recipe.bubblewrap(config(), LIMITS, {"A": "b"}, (), False, 5, 6, Tool(folders=(tmp_path,)))
    assert pairs(plan, "--ro-bind")[str(tmp_path)] == str(tmp_path)
    assert pairs(plan, "--setenv")["b"] == "A"
    assert str(tmp_path) not in pairs(options(), "--ro-bind")


def test_without_namespaces_only_the_system_python_and_the_child_are_readable(tmp_path: Path) -> None:
    rules = recipe.landlock_rules(dataclasses.replace(config(), packages=(tmp_path,)), ("/dev/nvidia3",))
    allowed = {"/usr", "/lib", "/lib64", "/lib32", "/bin", "/sbin", "/etc/ld.so.cache", "/etc/alternatives"}
    allowed |= {
        "/proc/cpuinfo",
        "/proc/meminfo",
        "/proc/driver/nvidia",
        "/proc/devices",
        str(recipe.CHILD_FOLDER),
        str(tmp_path),
    }
    assert all(path in allowed or path.startswith((sys.prefix, sys.base_prefix)) for path in rules["read"])
    assert {str(recipe.CHILD_FOLDER), str(tmp_path), "/usr"} <= set(rules["read"])
    assert sys.prefix == sys.base_prefix or sys.prefix not in rules["read"]
    assert "/dev/nvidia3" in rules["devices"]
    assert not {"/dev", "/dev/tty", "/dev/shm"} & set(rules["devices"])


def test_a_path_below_a_closed_folder_is_shown_where_it_is(tmp_path: Path) -> None:
    closed = tmp_path / "home"
    (closed / "python" / "lib").mkdir(parents=True)
    tmp_path.chmod(0o755)
    closed.chmod(0o700)
    python, library = str(closed / "python"), str(closed / "python" / "lib")
    staging, covered = recipe.uncovered(["/usr", python, library])
    assert [python, python] in staging
    assert [library, library] not in staging, "it is shown with the folder that it lies in"
    assert all(Path(folder) in Path(python).parents for folder in covered)
    assert recipe.uncovered(["/usr", "/etc/alternatives"]) == ([], [])


def test_the_filter_ends_a_process_of_another_architecture() -> None:
    assert answer("x86_64", 0x40000003, 1) == KILL
    assert answer("aarch64", X86, 1) == KILL


def test_an_unknown_architecture_has_no_filter_and_so_no_sandbox() -> None:
    with pytest.raises(HandsError, match="riscv64"):
        seccomp.program("riscv64")


# What a process prints.


def test_a_short_output_is_kept_whole_and_a_long_one_at_both_ends() -> None:
    capture = Capture()
    capture.feed(b"one ")
    capture.feed(b"two")
    assert capture.text == "one two"
    for number in range(100_000):
        capture.feed(b"%d\n" % number)
    assert capture.text.startswith("one two0\n1\n")
    assert capture.text.endswith("99999\n")
    kept = len(capture.text.encode())
    assert HEAD_BYTES + TAIL_BYTES < kept < HEAD_BYTES + TAIL_BYTES + 100
    assert f"{capture.total - HEAD_BYTES - TAIL_BYTES} bytes left out" in capture.text
