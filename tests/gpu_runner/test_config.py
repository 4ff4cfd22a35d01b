"""Settings are read once, in one place, and a wrong one is refused by name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpu_runner.config import ConfigError, load, private_folder
from gpu_runner.hands import HandsError


def test_an_empty_environment_confines_programs() -> None:
    settings = load({})
    assert settings.sandbox == "bubblewrap"
    assert settings.threads == len(os.sched_getaffinity(0))
    assert settings.cache_dir.is_absolute()
    assert str(os.getuid()) in settings.runtime_dir.name


def test_every_setting_is_read() -> None:
    settings = load(
        {
            "SANDBOX": "unsafe",
            "RUNNER_CACHE_DIR": "/c",
            "RUNNER_CACHE_MIB": "100",
            "RUNNER_RUNTIME_DIR": "/r",
            "RUNNER_THREADS": "3",
            "RUNNER_PACKAGES": "/usr:/etc",
            "RUNNER_UID_BASE": "70000",
            "RUNNER_CXX": "clang++",
            "RUNNER_NVCC": "/opt/nvcc",
            "REDIS_URL": "redis://x",
        }
    )
    assert (settings.sandbox, settings.cache_mib, settings.threads) == ("unsafe", 100, 3)
    assert (settings.cache_dir, settings.runtime_dir) == (Path("/c"), Path("/r"))
    assert settings.packages == (Path("/usr"), Path("/etc"))
    assert (settings.uid_base, settings.cxx, settings.nvcc, settings.broker_url) == (70000, "clang++", "/opt/nvcc", "redis://x")


@pytest.mark.parametrize(
    ("name", "value", "way_out"),
    [
        ("SANDBOX", "none", "bubblewrap or"),
        ("SANDBOX", "Bubblewrap", "bubblewrap or"),
        ("RUNNER_THREADS", "two", "whole number"),
        ("RUNNER_THREADS", "0", "1 to 1024"),
        ("RUNNER_UID_BASE", "0", "1000 to"),
        ("RUNNER_CACHE_MIB", "1e3", "whole number"),
        ("RUNNER_CACHE_DIR", "cache", "absolute"),
        ("RUNNER_PACKAGES", "/no/such/folder", "existing folder"),
        ("RUNNER_PACKAGES", "relative", "absolute"),
        ("RUNNER_CXX", "g++ -O3", "without options"),
    ],
)
def test_a_wrong_value_is_refused_with_its_name_and_what_would_be_right(name: str, value: str, way_out: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load({name: value})
    assert name in str(caught.value)
    assert way_out in str(caught.value)


def test_a_folder_that_others_may_write_to_is_not_used(tmp_path: Path) -> None:
    assert private_folder(tmp_path / "mine").stat().st_mode & 0o777 == 0o700
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(HandsError, match="may write"):
        private_folder(shared)
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    with pytest.raises(HandsError, match="may write"):
        private_folder(tmp_path / "link")
