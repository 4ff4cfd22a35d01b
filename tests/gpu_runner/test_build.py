"""Kernels become one library, or a report that says what is wrong with them; compilers are hostile ground too."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from pathlib import Path

import pytest
from sandboxes import run

from gpu_runner import build_cache, build_commands
from gpu_runner.build import artifact_bytes, build, build_library
from gpu_runner.config import Config, config
from gpu_runner.contracts import BuildReport, BuildTask, CandidateFiles, Limits, Progress, Verdict
from gpu_runner.contracts.candidate import MANIFEST_FILE, MODEL_FILE
from gpu_runner.hands import Cancelled, HandsError
from gpu_runner.sandbox import Sandbox, SandboxSpec

QUICK = Limits(wall_s=60, memory_mib=1024)
THREADS = """
extern "C" int threads() {
    int count = 0;
    #pragma omp parallel
    {
        #pragma omp atomic
        count++;
    }
    return count;
}
"""
PLAIN = 'extern "C" int answer() { return 42; }\n'


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    settings = dataclasses.replace(config(), cache_dir=tmp_path / "cache")
    _use(monkeypatch, settings)
    return tmp_path / "cache"


def _use(monkeypatch: pytest.MonkeyPatch, settings: Config) -> None:
    for module in (build_cache, build_commands):
        monkeypatch.setattr(module, "config", lambda: settings)


def task(files: dict[str, str], target: str = "cpu", limits: Limits = QUICK) -> BuildTask:
    return BuildTask(target=target, candidate=CandidateFiles(files={MODEL_FILE: "", **files}), limits=limits)


def built(files: dict[str, str], **more: object) -> BuildReport:
    return build(task(files, **more))  # type: ignore[arg-type]


def test_several_sources_and_a_header_become_one_library() -> None:
    told: list[Progress] = []
    files = {
        "kernels/one.cpp": '#include "shared.h"\nextern "C" int one() { return ONE; }',
        "kernels/two.cpp": 'extern "C" int two() { return 2; }',
        "kernels/shared.h": "#define ONE 1\n",
    }
    report, library = build_library(task(files), told.append)
    assert report.ok
    assert report.verdict is None
    assert not report.cached
    assert report.size == len(library)
    assert library.startswith(b"\x7fELF")
    assert "-march=native" in report.command
    assert {progress.kind for progress in told} == {"log"}
    spec = SandboxSpec(role="probe", limits=QUICK, files={"libkernels.so": library})
    with Sandbox.start(spec) as sandbox:
        assert run(sandbox, "l = ctypes.CDLL('./libkernels.so'); result = [l.one(), l.two()]") == [1, 2]


def test_nothing_to_build_is_fine_and_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sandbox, "start", lambda spec: pytest.fail("a sandbox was started"))
    assert built({}) == BuildReport(ok=True)


def test_the_same_sources_are_built_once_and_a_changed_header_again(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"kernels/a.cpp": '#include "a.h"\nextern "C" int a() { return A; }', "kernels/a.h": "#define A 1\n"}
    first = built(files)
    again = built(files)
    assert (again.artifact, again.cached, again.size) == (first.artifact, True, first.size)
    assert built(files | {MODEL_FILE: "# only Python changed"}).cached
    assert not built(files | {"kernels/a.h": "#define A 2\n"}).cached


def test_a_lost_or_damaged_library_is_built_again(own_cache: Path) -> None:
    files = {"kernels/a.cpp": PLAIN}
    first, library = build_library(task(files))
    path = build_cache.build_cache().path(first.artifact)
    assert path is not None
    path.write_bytes(b"\x7fELF something else")
    assert artifact_bytes(first.artifact) is None
    second, rebuilt = build_library(task(files))
    assert not second.cached
    assert rebuilt == library
    shutil.rmtree(own_cache)
    assert artifact_bytes(first.artifact) is None
    assert build_library(task(files))[1] == library


def test_errors_name_file_line_and_cause() -> None:
    report = built({"kernels/a.cpp": "int f() {\n    return missing;\n}\n", "kernels/b.cpp": PLAIN})
    assert report.verdict is Verdict.BUILD_FAILED
    assert not report.artifact
    assert len(report.diagnostics) == 1
    assert report.diagnostics[0].startswith("kernels/a.cpp:2: ")
    assert "missing" in report.diagnostics[0]
    assert "kernels/a.cpp failed" in report.log


def test_a_failed_build_is_not_remembered() -> None:
    files = {"kernels/a.cpp": "#error no\n"}
    assert not built(files).ok
    assert not built(files).cached


def test_the_log_of_a_compiler_that_never_stops_talking_is_cut() -> None:
    errors = "".join(f"int a{n} = missing{n};\n" for n in range(15))
    report = built({"kernels/a.cpp": errors + "#warning again and again\n" * 2000})
    assert report.verdict is Verdict.BUILD_FAILED
    assert 16_000 < len(report.log) <= 16_500
    assert "left out" in report.log
    assert len(report.diagnostics) == 10


@pytest.mark.parametrize(
    ("files", "target", "sentence"),
    [
        ({"kernels/a.cu": "", MODEL_FILE: ""}, "cpu", "CUDA source"),
        ({"kernels/a.cpp": PLAIN}, "sm_9O", "cannot be|not one that kernels"),
        ({"kernels/a.cpp": PLAIN, MANIFEST_FILE: 'flags = ["-fplugin=/tmp/x.so"]'}, "cpu", "not on the list"),
        ({"kernels/a.cpp": PLAIN, MANIFEST_FILE: "flags = ["}, "cpu", "not valid TOML"),
        ({"kernels/a.cpp": PLAIN, MANIFEST_FILE: "flags = " + "[" * 3000 + "]" * 3000}, "cpu", "not valid TOML"),
    ],
)
def test_what_cannot_be_built_at_all_is_said_in_a_sentence(files: dict[str, str], target: str, sentence: str) -> None:
    report = built(files, target=target)
    assert report.verdict is Verdict.BUILD_FAILED
    assert any(word in report.log for word in sentence.split("|"))


FLAGS = ("-fplugin=/tmp/x.so", "@kernels/options.h", "-specs=kernels/a.h", "-wrapper=/bin/sh", "-B/tmp", "-Wl,-T,kernels/a.h",
         "-xc", "-include/etc/passwd", "-Ofast", "-ffast-math", "-O3 -fplugin=x", "")  # fmt: skip
NAMES = ("kernels/@a.cpp", "kernels/-o.cpp", "kernels/a\n.cpp", "kernels/a.cpp\n", "kernels/../a.cpp", "kernels/a/b.cpp",
         "kernels/a.ld", "kernels/a.S", "kernels/ä.cpp", "kernels/.cpp", "/kernels/a.cpp", "kernels/a.cpp/")  # fmt: skip


@pytest.mark.parametrize("flag", FLAGS)
def test_a_flag_that_reaches_beyond_the_sources_is_refused(flag: str) -> None:
    report = built({"kernels/a.cpp": PLAIN, MANIFEST_FILE: f"flags = {json.dumps([flag])}"})
    assert (report.verdict, "not on the list" in report.log) == (Verdict.BUILD_FAILED, True)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_name_that_a_compiler_could_misread_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not allowed"):
        CandidateFiles(files={MODEL_FILE: "", name: PLAIN})


def test_a_missing_compiler_is_the_machines_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    _use(monkeypatch, dataclasses.replace(build_commands.config(), cxx="no-such-compiler"))
    with pytest.raises(HandsError, match=r"no-such-compiler.*RUNNER_CXX"):
        built({"kernels/a.cpp": PLAIN})


def test_a_cancelled_build_ends() -> None:
    with pytest.raises(Cancelled):
        build(task({"kernels/a.cpp": ENDLESS}), cancelled=lambda: True)


# OpenMP: one runtime, and its thread count is torch's.


def test_a_kernel_shares_torchs_openmp_runtime_and_follows_its_thread_count() -> None:
    _, library = build_library(task({"kernels/a.cpp": THREADS}))
    spec = SandboxSpec(role="probe", limits=Limits(wall_s=120), files={"libkernels.so": library}, threads=2)
    body = """
import torch
kernels = ctypes.CDLL('./libkernels.so')
counts = []
for wanted in (1, 2, 3):
    torch.set_num_threads(wanted)
    torch.ones(1 << 20).exp().sum()
    counts.append(kernels.threads())
runtimes = {line.split()[-1] for line in open('/proc/self/maps') if 'libgomp' in line or 'libiomp' in line or 'libomp' in line}
result = [counts, len(runtimes)]
"""
    with Sandbox.start(spec) as sandbox:
        assert run(sandbox, body) == [[1, 2, 3], 1]


# Compilers as a way in.

ENDLESS = """
#define TWICE(x) x x
#define MANY(x) TWICE(TWICE(TWICE(TWICE(TWICE(TWICE(TWICE(TWICE(TWICE(TWICE(x))))))))))
MANY(MANY(MANY(static int f();)))
"""
SNOOPS = {
    "includes a password file": '#include "/etc/passwd"\n',
    "includes a secret by a relative path": '#include "../../../../../../etc/shadow"\n',
    "includes a secret of the system's folders": "#include </etc/hostname>\n",
    "embeds a secret in the library": 'asm(".incbin \\"/etc/passwd\\"");\n',
    "asks whether a file of the host is there": '#if !__has_include("{project}/manage.py")\n#error stopped\n#endif\n',
    "includes the compiler's environment": '#include "/proc/1/environ"\n#error stopped\n',
}


@pytest.mark.parametrize("snoop", SNOOPS)
def test_a_source_is_stopped_that(snoop: str) -> None:
    root = str(Path(__file__).resolve().parents[2])
    report = built({"kernels/a.cpp": SNOOPS[snoop].replace("{project}", root) + PLAIN})
    assert report.verdict is Verdict.BUILD_FAILED
    assert "root:" not in report.log


CONSTANTS = """
constexpr unsigned long f(int n, unsigned long seen) { return n == 0 ? seen : f(n - 1, f(n - 1, seen + n)); }
static_assert(f(60, 0) == 1);
"""
ENDED = {Verdict.BUILD_FAILED, Verdict.TIMED_OUT}
BOMBS = {
    "computes constants without end": (CONSTANTS, ENDED),
    "repeats itself in the assembler": ('asm(".rept 2000000000\\n nop\\n .endr");\n', ENDED),
    "asks the assembler for more than the disk": ('asm(".space 20000000000");\n', ENDED),
    "reads without end": ('#include "/dev/zero"\n', ENDED),
    "expands without end": (ENDLESS, ENDED),
    "makes an array larger than the disk": ("char big[3000000000] = {1};\n", ENDED),
    "instantiates without end": (
        "template <int N, int M> struct T { T<N + 1, M> a; T<N + 1, M + 1> b; };\nT<0, 0> t;\n",
        ENDED,
    ),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_the_runner_survives_a_source_that(bomb: str) -> None:
    source, expected = BOMBS[bomb]
    limits = Limits(wall_s=4, memory_mib=512, tmp_mib=64)
    report = built({"kernels/a.cpp": source}, limits=limits)
    assert report.verdict in expected
    assert report.log
    assert report.seconds < 30


# The cache on disk.


def test_the_cache_forgets_what_was_used_longest_ago(tmp_path: Path) -> None:
    cache = build_cache.BuildCache(tmp_path / "c", limit=250)
    keys = [f"{number:064x}" for number in range(3)]
    for number, key in enumerate(keys[:2]):
        cache.store(key, bytes(100), 1.0, ("c++",), "")
        os.utime(cache.path(key).parent, (number, number))  # type: ignore[union-attr]
    assert cache.read(keys[0]) is not None  # used now, so the other one is the oldest
    cache.store(keys[2], bytes(100), 1.0, ("c++",), "")
    assert [cache.path(key) is not None for key in keys] == [True, False, True]


@pytest.mark.parametrize("key", ["", "..", "../../etc/passwd", "a" * 63, "A" * 64])
def test_the_cache_knows_only_digests(tmp_path: Path, key: str) -> None:
    assert build_cache.BuildCache(tmp_path / "c", 100).path(key) is None


def test_an_entry_that_is_already_there_stays(tmp_path: Path) -> None:
    cache = build_cache.BuildCache(tmp_path / "c", 1000)
    key = "f" * 64
    cache.store(key, b"first", 1.0, ("c++",), "")
    cache.store(key, b"second", 1.0, ("c++",), "")
    found = cache.read(key)
    assert found is not None
    assert found[1] == b"first"
    assert not list((tmp_path / "c" / "builds").glob("new-*"))


FORGED = json.dumps({"sha256": "0", "size": 1, "seconds": 1, "command": [], "log": ""})


@pytest.mark.parametrize("text", ["", "{}", "[]", FORGED])
def test_an_unreadable_entry_is_no_entry(tmp_path: Path, text: str) -> None:
    cache = build_cache.BuildCache(tmp_path / "c", 1000)
    key = "e" * 64
    cache.store(key, b"library", 1.0, ("c++",), "")
    path = cache.path(key)
    assert path is not None
    (path.parent / "entry.json").write_text(text)
    assert cache.read(key) is None
    assert cache.path(key) is None


# CUDA: compiled here, run elsewhere.


@pytest.mark.skipif(not build_commands.compiler_version("nvcc"), reason="nvcc is not installed")
def test_a_cuda_kernel_compiles_without_a_gpu_for_the_specific_architecture() -> None:
    good = (
        'extern "C" __global__ void k(float *x) { asm volatile("wgmma.fence.sync.aligned;"); x[threadIdx.x] += 1; }\n'
        'extern "C" void go(float *x) { k<<<1, 128>>>(x); }\n'
    )
    report, library = build_library(task({"kernels/a.cu": good}, target="sm_90"))
    assert report.ok
    assert "-gencode=arch=compute_90a,code=sm_90a" in report.command
    assert b"sm_90a" in library
    broken = built({"kernels/a.cu": "__global__ void k(float *x) {\n    x[0] = nothing;\n}\n"}, target="sm_90")
    assert broken.diagnostics[0].startswith("kernels/a.cu:2: ")


def test_flags_go_to_the_compiler_that_understands_them() -> None:
    manifest = 'flags = ["-O3", "-march=native", "-fopenmp", "-std=c++17", "--expt-relaxed-constexpr", "-lcublas"]'
    files = CandidateFiles(files={MODEL_FILE: "", MANIFEST_FILE: manifest, "kernels/a.cpp": "", "kernels/b.cu": ""})
    plan = build_commands.plan(files, "sm_80")
    cxx, nvcc = plan.compile[0][1], plan.compile[1][1]
    assert "--expt-relaxed-constexpr" not in cxx
    assert "-march=native" in cxx
    assert "-march=native" not in nvcc
    assert nvcc[nvcc.index("-fopenmp") - 1] == "-Xcompiler"
    assert "-arch=sm_80" in nvcc
    assert plan.libraries == ("cublas",)
    assert "-fopenmp" not in plan.link
