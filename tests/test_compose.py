"""The Compose file starts what exists, with settings that exist, and keeps runners from the database. Needs no engine."""

from __future__ import annotations

import importlib.util
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker" / "compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = sorted(name for name, service in SERVICES.items() if "build" in service)
RUNNERS = [name for name in OURS if name.startswith("runner")]


def words(service: dict[str, Any]) -> list[str]:
    """The service's command, one word each; what a shell runs is split as well."""
    command = [str(word) for word in service["command"]]
    return command[2].split() if command[:2] == ["sh", "-c"] else command


def test_all_parts_of_a_fleet_are_there() -> None:
    assert set(SERVICES) == {"postgres", "redis", "prepare", "web", "agents", "sweeper", "runner-cpu", "runner-cuda"}


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


@pytest.mark.parametrize("name", RUNNERS)
def test_a_runner_serves_a_queue_that_runs_are_sent_to(name: str) -> None:
    from stitchweb.runs.dispatch import runner_queue

    command = words(SERVICES[name])
    queue = re.sub(r"\$\{\w+:-(\w+)\}", r"\1", command[command.index("gpu_runner.serve") + 1])
    assert queue == runner_queue(queue.removeprefix("run."))
    assert queue.startswith("run.")


@pytest.mark.parametrize("name", OURS)
def test_its_settings_are_read_by_somebody(name: str) -> None:
    readers = (ROOT / "stitchweb" / "settings.py").read_text() + (ROOT / "gpu_runner" / "config.py").read_text()
    for setting in SERVICES[name]["environment"]:
        assert f'"{setting}"' in readers, f"{name} sets {setting}, which nobody reads"


@pytest.mark.parametrize("name", RUNNERS)
def test_a_runner_knows_no_secret_and_reaches_no_database(name: str) -> None:
    service = SERVICES[name]
    assert not {"DATABASE_URL", "SECRET_KEY"} & service["environment"].keys()
    assert "POSTGRES_PASSWORD" not in str(service)
    assert not set(service["networks"]) & set(SERVICES["postgres"]["networks"])
    assert not {"rows", "files"} & {volume.partition(":")[0] for volume in service["volumes"]}
    assert service["cap_drop"] == ["ALL"]


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
            assert volume.partition(":")[0] in COMPOSE["volumes"], name
        assert set(service["networks"]) <= set(COMPOSE["networks"]), name


def test_what_compose_asks_for_is_in_the_example_of_its_settings() -> None:
    text = (ROOT / "docker" / "compose.yml").read_text()
    asked = set(re.findall(r"\$\{(\w+)", text))
    given = set(re.findall(r"^(\w+)=", (ROOT / "docker" / "env.example").read_text(), flags=re.MULTILINE))
    assert asked == given
