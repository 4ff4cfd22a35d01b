"""What one host built another uses: the library travels by the site, is checked, and is not built again."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpu_runner import build as building
from gpu_runner import build_cache, build_commands, libraries
from gpu_runner.build import build_library
from gpu_runner.config import config
from gpu_runner.contracts import (
    PROTOCOLS,
    AnalyseTask,
    BuildReport,
    BuildTask,
    CandidateFiles,
    CheckTask,
    Library,
    Limits,
    Progress,
    Source,
    Task,
    digest,
)
from gpu_runner.contracts.candidate import LIBRARY_FILE, MANIFEST_FILE, MODEL_FILE
from gpu_runner.remote import Gone

QUICK = Limits(wall_s=60, memory_mib=1024)
FILES = CandidateFiles(files={MODEL_FILE: "", "kernels/a.cpp": 'extern "C" int answer() { return 42; }\n'})
SOURCE = Source(text="x")


class Post:
    """A job's line to the site, which keeps what one host sends and hands it to the next."""

    def __init__(self) -> None:
        self.keeps = True
        self.library: dict[str, Any] | None = None
        self.sent: dict[str, bytes] = {}
        self.fetched = 0
        self.trouble: Exception | None = None

    def artifact(self, name: str, data: bytes) -> None:
        if self.trouble is not None:
            raise self.trouble
        self.sent[name] = data

    def built(self, limit: int) -> bytes:
        self.fetched += 1
        if self.trouble is not None:
            raise self.trouble
        return self.sent[LIBRARY_FILE]

    def name(self, report: BuildReport) -> None:
        """As the site does when the next job is claimed."""
        self.library = Library(sha256=digest(self.sent[LIBRARY_FILE]), report=report).model_dump(mode="json")


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Be the host of that name, with a cache folder of its own."""

    def be(name: str) -> None:
        settings = dataclasses.replace(config(), cache_dir=tmp_path / name)
        for module in (build_cache, build_commands):
            monkeypatch.setattr(module, "config", lambda: settings)

    return be


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One entry for each time that compilers were started."""
    real, seen = building._compile, list[str]()

    def compile(*given: Any) -> Any:
        seen.append("built")
        return real(*given)

    monkeypatch.setattr(building, "_compile", compile)
    return seen


def order(files: CandidateFiles = FILES, target: str = "cpu") -> BuildTask:
    return BuildTask(target=target, candidate=files, limits=QUICK)


def check(files: CandidateFiles = FILES) -> CheckTask:
    return CheckTask(target="cpu", source=SOURCE, candidate=files, protocol=PROTOCOLS["quick"])


def taken(post: Post, task: Task) -> str:
    """What is said of it in the build's log."""
    said: list[Progress] = []
    libraries.take_over(post, task, said.append)  # type: ignore[arg-type]
    return "".join(str(line.payload["text"]) for line in said)


@pytest.fixture
def post(host: Callable[[str], None], builds: list[str]) -> Post:
    """One host has built, and sent; this is the other."""
    made = Post()
    host("builder")
    report, _ = build_library(order())
    libraries.hand_over(made, report)  # type: ignore[arg-type]
    made.name(report)
    host("device")
    assert builds == ["built"]
    return made


def test_a_library_is_built_once_for_both_hosts(post: Post, builds: list[str]) -> None:
    assert taken(post, check()) == ""
    report, library = build_library(order())
    assert builds == ["built"]
    assert report.cached
    assert library == post.sent[LIBRARY_FILE]
    assert (report.artifact, report.command, report.kernels) == (
        post.library["report"]["artifact"], tuple(post.library["report"]["command"]), (),
    )  # fmt: skip
    assert taken(post, check()) == ""
    assert post.fetched == 1, "what is there is not fetched again"


def test_one_with_another_digest_is_refused_and_built_here(post: Post, builds: list[str]) -> None:
    post.sent[LIBRARY_FILE] = b"\x7fELF something else"
    said = taken(post, check())
    assert said == (
        "The library from another host has not the digest that its build was reported with, and is not used. "
        "It is built here.\n"
    )
    assert not build_library(order())[0].cached
    assert builds == ["built", "built"]


def test_one_of_another_compiler_is_not_even_fetched(post: Post, builds: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    real = build_commands.compiler_version
    monkeypatch.setattr(build_commands, "compiler_version", lambda name: f"{real(name)} but newer")
    assert "was built by another compiler" in taken(post, check())
    assert post.fetched == 0
    assert not build_library(order())[0].cached
    assert builds == ["built", "built"]


def test_one_of_other_kernels_is_not_used(post: Post, builds: list[str]) -> None:
    other = CandidateFiles(files=FILES.files | {"kernels/a.cpp": 'extern "C" int answer() { return 41; }\n'})
    assert "It is built here." in taken(post, check(other))
    assert post.fetched == 0


@pytest.mark.parametrize("trouble", [OSError("the network is cut"), FileNotFoundError("the site has it no more")])
def test_one_that_does_not_come_is_built_here(post: Post, builds: list[str], trouble: Exception) -> None:
    post.trouble = trouble
    assert f"could not be fetched: {trouble}. It is built here." in taken(post, check())
    assert not build_library(order())[0].cached


def test_a_job_that_became_anothers_ends_the_fetching(post: Post) -> None:
    post.trouble = Gone("The job is another's.", 410)
    with pytest.raises(Gone):
        taken(post, check())


def test_a_site_that_speaks_otherwise_is_said_so(post: Post) -> None:
    post.library = {"surprise": 1}
    assert "update it. It is built here." in taken(post, check())


def test_what_measures_no_candidate_fetches_nothing(post: Post) -> None:
    for task in (order(), AnalyseTask(target="cpu", source=SOURCE, protocol=PROTOCOLS["quick"])):
        assert taken(post, task) == ""
    post.library = None
    assert taken(post, check()) == ""
    assert post.fetched == 0


def test_a_library_is_sent_where_the_site_wants_it_and_a_build_is_good_without(host: Callable[[str], None]) -> None:
    host("builder")
    report, _ = build_library(order())
    post = Post()
    post.keeps = False
    libraries.hand_over(post, report)  # type: ignore[arg-type]
    libraries.hand_over(post, BuildReport(ok=False))  # type: ignore[arg-type]
    assert not post.sent
    post.keeps, post.trouble = True, OSError("the network is cut")
    libraries.hand_over(post, report)  # type: ignore[arg-type]
    assert not post.sent


# ---- the key, by which two hosts agree


def keys(monkeypatch: pytest.MonkeyPatch, files: CandidateFiles, target: str, **elsewhere: str) -> tuple[str, str]:
    """The key here, and where these functions say something else."""
    here = build_commands.key(files, target)
    for name, said in elsewhere.items():
        monkeypatch.setattr(build_commands, name, lambda *_, said=said: said)
    return here, build_commands.key(files, target)


CUDA = CandidateFiles(files={MODEL_FILE: "", "kernels/a.cu": "__global__ void k() {}\n"})


def test_hosts_with_different_processors_agree_on_what_nvcc_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = keys(monkeypatch, CUDA, "sm_90", processor_features="another processor")
    assert here == there


def test_they_do_not_where_the_processor_goes_into_it(monkeypatch: pytest.MonkeyPatch) -> None:
    mixed = CandidateFiles(files=CUDA.files | {"kernels/b.cpp": ""})
    here, there = keys(monkeypatch, mixed, "sm_90", processor_features="another processor")
    assert here != there


def test_they_do_not_with_other_compilers(monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = keys(monkeypatch, CUDA, "sm_90", compiler_version="release 99.9")
    assert here != there


def test_they_need_the_same_torch_where_cublas_is_linked_and_only_there(monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = keys(monkeypatch, CUDA, "sm_90", torch_version="0.4.1")
    assert here == there
    linked = CandidateFiles(files=CUDA.files | {MANIFEST_FILE: 'flags = ["-O3", "-lcublas"]'})
    monkeypatch.undo()
    here, there = keys(monkeypatch, linked, "sm_90", torch_version="0.4.1")
    assert here != there
