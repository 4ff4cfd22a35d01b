"""The Compose file is one, starts what exists, with settings that exist, and keeps runners from the database. Needs no engine.

tests/e2e/test_compose_commands.py runs the commands.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

ROOT = Path(__file__).resolve().parent.parent
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker" / "compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = sorted(name for name, service in SERVICES.items() if "build" in service)
RUNNERS = [name for name in OURS if name.startswith("runner")]


def words(service: dict[str, Any]) -> list[str]:
    """The service's command, one word each; what a shell runs is split as well."""
    command = [str(word) for word in service["command"]]
    return command[2].split() if command[:2] == ["sh", "-c"] else command


def denied() -> set[str]:
    """The system calls that the shipped profile refuses."""
    profile = json.loads((ROOT / "docker" / "seccomp.json").read_text())
    assert profile["defaultAction"] == "SCMP_ACT_ALLOW"
    return {name for rule in profile["syscalls"] if rule["action"] == "SCMP_ACT_ERRNO" for name in rule["names"]}


def test_it_is_a_compose_file() -> None:
    schema = json.loads((ROOT / "tests" / "vendor" / "compose-spec.json").read_text())
    Draft7Validator.check_schema(schema)
    # The schema is that of the last docker-compose on PyPI, which is older than the name of a project.
    plain = {key: value for key, value in COMPOSE.items() if not key.startswith("x-") and key != "name"}
    assert [error.message for error in Draft7Validator(schema).iter_errors(plain)] == []
    plain["services"]["web"] = plain["services"]["web"] | {"comand": ["x"]}
    assert list(Draft7Validator(schema).iter_errors(plain)), "the schema forbids nothing"


def test_all_parts_of_a_fleet_are_there() -> None:
    assert set(SERVICES) == {
        "proxy", "postgres", "redis", "prepare", "web", "live", "agents", "sweeper", "runner-cpu", "runner-cuda",
    }  # fmt: skip


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_it_is_an_ordinary_user_that_can_write_nowhere_else_and_gain_nothing(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert not service["user"].startswith(("0", "root"))
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges=true" in service["security_opt"]
    assert "privileged" not in service
    assert "cap_add" not in service
    assert name == "prepare" or service["healthcheck"]["test"][0] in ("CMD", "CMD-SHELL")


def test_only_the_proxy_is_reached_from_outside_and_only_what_asks_models_gets_out() -> None:
    assert [name for name, service in SERVICES.items() if "ports" in service] == ["proxy"]
    open_networks = {name for name, network in COMPOSE["networks"].items() if not network.get("internal")}
    assert open_networks == {"outside"}
    assert sorted(n for n, s in SERVICES.items() if "outside" in s["networks"]) == ["agents", "proxy", "sweeper"]


@pytest.mark.parametrize("name", OURS)
def test_its_command_exists(name: str) -> None:
    from django.core.management import get_commands

    command = words(SERVICES[name])
    modules = [after for word, after in pairwise(command) if word in ("-m", "-A")]
    managed = [after for word, after in pairwise(command) if word == "manage.py"]
    assert modules or managed, f"{name} starts neither a module nor a management command"
    for module in modules:
        assert importlib.util.find_spec(module), f"{name} starts {module}, which does not exist"
    assert set(managed) <= set(get_commands())


def test_the_web_service_serves_the_application_of_the_settings(settings: Any) -> None:
    served = next(word for word in words(SERVICES["web"]) if ":" in word)
    assert served.replace(":", ".") == settings.ASGI_APPLICATION


@pytest.mark.parametrize(("name", "queue"), [("runner-cpu", "run.cpu"), ("runner-cuda", "run.sm_90")])
def test_a_runner_joins_with_a_token_for_a_queue_that_runs_are_sent_to(name: str, queue: str) -> None:
    from stitchweb.runs.dispatch import runner_queue

    assert queue == runner_queue(queue.removeprefix("run."))
    command = words(SERVICES[name])
    where = command[command.index("--join") + 2]
    prepared = re.sub(r"\$\{\w+:-(\w+)\}", r"\1", " ".join(words(SERVICES["prepare"])))
    assert f"runner_token {queue} --to {where}" in prepared


@pytest.mark.parametrize("name", OURS)
def test_its_settings_are_read_by_somebody(name: str) -> None:
    readers = (ROOT / "stitchweb" / "settings.py").read_text() + (ROOT / "gpu_runner" / "config.py").read_text()
    for setting in SERVICES[name]["environment"]:
        assert f'"{setting}"' in readers, f"{name} sets {setting}, which nobody reads"


@pytest.mark.parametrize("name", RUNNERS)
def test_a_runner_knows_no_secret_and_reaches_no_database(name: str) -> None:
    service = SERVICES[name]
    assert set(service["environment"]) == {"RUNNER_CACHE_DIR"}
    assert "PASSWORD" not in str(service)
    assert not set(service["networks"]) & set(SERVICES["postgres"]["networks"])
    assert not {"rows", "files"} & {volume.partition(":")[0] for volume in service["volumes"]}
    assert "seccomp=./seccomp.json" in service["security_opt"]


@pytest.mark.parametrize("name", OURS)
def test_its_image_is_made_of_what_is_there(name: str) -> None:
    dockerfile = ROOT / SERVICES[name]["build"]["dockerfile"]
    lines = dockerfile.read_text().replace("\\\n", " ").splitlines()
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    copied = [source for line in lines if line.startswith("COPY ") for source in line.split()[1:-1]]
    assert copied
    for source in copied:
        assert (ROOT / source).exists(), f"{dockerfile.name} copies {source}, which does not exist"
        assert f"!{source}" in ignored, f".dockerignore hides {source} from {dockerfile.name}"
    pinned = {line.partition("==")[0].partition("[")[0] for line in (ROOT / "requirements.txt").read_text().splitlines()}
    for chosen in re.findall(r"\^\(([^)]+)\)==", dockerfile.read_text()):
        assert set(chosen.split("|")) <= pinned
    last_user = [line.split()[1] for line in lines if line.startswith("USER ")][-1]
    assert last_user != "root", "the sandbox is never started as root, and the web needs no rights either"


def test_images_of_others_are_pinned() -> None:
    images = [service["image"] for name, service in SERVICES.items() if name not in OURS]
    images += [line.split()[1] for file in (ROOT / "docker").glob("*.Dockerfile") for line in file.read_text().splitlines()
               if line.startswith("FROM ")]  # fmt: skip
    for image in images:
        assert re.search(r":.*\d", image), f"{image} names no version"
        assert not image.endswith("latest")


def test_named_volumes_and_networks_are_declared() -> None:
    for name, service in SERVICES.items():
        for volume in service.get("volumes", []):
            if volume.startswith("./"):
                assert (ROOT / "docker" / volume.partition(":")[0]).exists()
                continue
            assert volume.partition(":")[0] in COMPOSE["volumes"], name
        assert set(service["networks"]) <= set(COMPOSE["networks"]), name


def test_what_compose_asks_for_is_in_the_example_of_its_settings() -> None:
    text = (ROOT / "docker" / "compose.yml").read_text()
    asked = set(re.findall(r"\$\{(\w+)", text))
    given = set(re.findall(r"^(\w+)=", (ROOT / "docker" / "env.example").read_text(), flags=re.MULTILINE))
    assert asked == given


UNDER_PROFILE = """
import ctypes, errno, os, struct, sys
numbers = [int(word) for word in sys.argv[1].split(",")]
op = lambda code, value, yes=0, no=0: struct.pack("=HBBI", code, yes, no, value)
code = op(0x20, 0) + b"".join(op(0x15, n, 0, 1) + op(0x06, 0x00050000 | errno.EPERM) for n in numbers) + op(0x06, 0x7FFF0000)
buffer = ctypes.create_string_buffer(code)
program = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0  # no new privileges
assert libc.prctl(22, 2, ctypes.create_string_buffer(program)) == 0, ctypes.get_errno()
assert libc.syscall(numbers[0]) == -1 and ctypes.get_errno() == errno.EPERM
from gpu_runner.sandbox.selftest import run
print(run())
"""


def test_the_sandbox_holds_under_the_shipped_profile(tmp_path: Path) -> None:
    """Under the calls that `seccomp.json` refuses, without an engine; as an ordinary user where one can read this Python."""
    from gpu_runner.sandbox.seccomp import DENIED

    column = {"x86_64": 0, "aarch64": 1}[platform.machine()]
    assert denied() <= set(DENIED)
    numbers = [DENIED[name][column] for name in sorted(denied()) if DENIED[name][column] is not None]
    tmp_path.chmod(0o777)
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path),
           "RUNNER_CACHE_DIR": f"{tmp_path}/cache", "RUNNER_RUNTIME_DIR": f"{tmp_path}/run"}  # fmt: skip

    def run(*words: str, **more: Any) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", *words]
        return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False, **more)

    nobody: dict[str, Any] = {"user": 65534, "group": 65534, "extra_groups": []}
    try:
        ordinary = nobody if os.getuid() == 0 and run("import gpu_runner", **nobody).returncode == 0 else {}
    except PermissionError:
        ordinary = {}
    done = run(UNDER_PROFILE, ",".join(map(str, numbers)), **ordinary)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
