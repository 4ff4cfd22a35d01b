"""How kernels become one library: which compiler, which flags, in which order. Commands run in the folder of the candidate."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from gpu_runner.config import config
from gpu_runner.contracts import CandidateFiles, digest
from gpu_runner.contracts.candidate import LIBRARY_FILE

OUT = "../tmp/build"  # beside the folder of the candidate, behind every boundary
# The architecture-specific features (wgmma, TMA) exist only in the "a" variants, which run on exactly that architecture.
_SPECIFIC = {"sm_90": "sm_90a", "sm_100": "sm_100a", "sm_103": "sm_103a", "sm_120": "sm_120a"}
_CUDA_TARGET = re.compile(r"^sm_\d{2,3}$")
_LIBRARIES = ("-lcublas", "-lcublasLt")
# nvcc links a CUDA runtime of its own into the library, and only from in there its last error can be asked.
_ERRORS = "harness/last_error.cpp"
_ERRORS_TEXT = """extern "C" int cudaGetLastError();
extern "C" const char* cudaGetErrorName(int);
extern "C" const char* stitchweb_last_error(int* number) {
    *number = cudaGetLastError();
    return cudaGetErrorName(*number);
}
"""
# Later flags win: less is optimised away before it is looked at, and a report names the line.
_WATCHED: dict[str, tuple[str, ...]] = {
    "": (),
    "address": ("-fsanitize=address,undefined", "-O1", "-g", "-fno-omit-frame-pointer"),
    "thread": ("-fsanitize=thread", "-O1", "-g", "-fno-omit-frame-pointer"),
}
_NVCC_OWN = ("-O2", "-O3", "-std=c++17", "-std=c++20", "--expt-relaxed-constexpr", "--expt-extended-lambda")


@dataclass(frozen=True)
class Plan:
    """`compile`: source and command, independent of each other; `link` comes last. `libraries`: to be found by the builder.
    `added`: sources of ours, path to text."""

    compile: tuple[tuple[str, tuple[str, ...]], ...]
    link: tuple[str, ...]
    libraries: tuple[str, ...]
    library: str
    added: dict[str, str] = field(default_factory=dict)

    @property
    def summary(self) -> tuple[str, ...]:
        """The first compilation, as an example for people."""
        return self.compile[0][1]


def plan(candidate: CandidateFiles, target: str, out: str = OUT, sanitizer: str = "") -> Plan:
    """The commands for `target`. `sanitizer`: C++ that reports what it does wrong, `address` (with undefined behaviour) or
    `thread`. Raises ValueError with a sentence for a program that cannot be built for it.
    """
    sources = candidate.kernel_sources
    cuda = [path for path in sources if path.endswith(".cu")]
    if target != "cpu" and not _CUDA_TARGET.match(target):
        raise ValueError(
            f"the target {target!r} is not one that kernels can be built for: use cpu or an architecture such as sm_90"
        )
    if cuda and target == "cpu":
        raise ValueError(f"{cuda[0]} is a CUDA source, but the target is cpu: write kernels/*.cpp, or choose a CUDA target")
    flags = candidate.manifest.flags
    steps = []
    for number, path in enumerate(sources):
        compiler = _nvcc(flags, target) if path.endswith(".cu") else (*_cxx(flags), *_WATCHED[sanitizer])
        steps.append((path, (*compiler, "-c", path, "-o", f"{out}/{number}.o")))
    if cuda:
        steps.append((_ERRORS, (config().cxx, "-O1", "-fPIC", "-c", _ERRORS, "-o", f"{out}/{len(sources)}.o")))
    objects = tuple(f"{out}/{number}.o" for number in range(len(steps)))
    library = f"{out}/{LIBRARY_FILE}"
    # Linked without -fopenmp and so without a runtime of its own: the GOMP_* symbols stay open and are found in the OpenMP that
    # torch has already loaded for everyone. Named here, a second one would come in wherever torch bundles it under another file
    # name, with threads of its own that fight torch's and do not follow torch.set_num_threads.
    # -Bsymbolic: a kernel called like a function of some loaded library calls itself, not that one.
    # A function that entry.json names and no source defines is an error of the build, not of the first call.
    words = ("-Bsymbolic", *((f"--require-defined={candidate.entry.symbol}",) if candidate.entry else ()))
    passed = [option for word in words for option in (("-Xlinker", word) if cuda else (f"-Wl,{word}",))]
    options = ("-shared", *(_architecture(target) if cuda else ()), *passed, *_WATCHED[sanitizer][:1])
    linker = config().nvcc if cuda else config().cxx
    libraries = tuple(flag.removeprefix("-l") for flag in flags if flag in _LIBRARIES)
    return Plan(
        tuple(steps), (linker, *options, "-o", library, *objects), libraries, library, {_ERRORS: _ERRORS_TEXT} if cuda else {}
    )


def _cxx(flags: tuple[str, ...]) -> tuple[str, ...]:
    own = [flag for flag in flags if not flag.startswith(("--expt", "-l"))]
    # More errors help nobody, and looking for what each misspelt name may have meant can take minutes.
    return (config().cxx, *own, "-fPIC", "-fdiagnostics-color=never", "-fmax-errors=20")


def _nvcc(flags: tuple[str, ...], target: str) -> tuple[str, ...]:
    own = [flag for flag in flags if flag in _NVCC_OWN]
    # -m… flags are left out: a .cu file's host half only launches, and nvcc cannot parse every intrinsic header they open.
    host = [flag for flag in flags if flag not in _NVCC_OWN and not flag.startswith(("-l", "-m"))]
    passed = [word for flag in [*host, "-fPIC"] for word in ("-Xcompiler", flag)]
    return (config().nvcc, *_architecture(target), "-lineinfo", *own, *passed)


def _architecture(target: str) -> tuple[str, ...]:
    """For instructions of one architecture alone nothing else is made: `-arch=sm_90a` has nvcc 13.0 assemble plain `compute_90`
    as well, which refuses them."""
    if target not in _SPECIFIC:
        return (f"-arch={target}",)
    number = _SPECIFIC[target].removeprefix("sm_")
    return (f"-gencode=arch=compute_{number},code=sm_{number}",)


def key(candidate: CandidateFiles, target: str, sanitizer: str = "") -> str:
    """What the library depends on: sources, headers, flags, target, compilers, and what of this machine goes into it.

    That is the processor for `-march=native`, else its kind; and torch where CUDA's libraries are linked, which come with it.
    So two hosts with the same compilers have the same key, and either may use what the other built.
    """
    sources = {path: text for path, text in candidate.files.items() if path.startswith("kernels/")}
    made = plan(candidate, target, sanitizer=sanitizer)
    native = any("-march=native" in command for _, command in made.compile)
    compilers = {made.link[0], *(command[0] for _, command in made.compile)}
    return digest(
        {
            "sources": sources,
            "commands": [made.compile, made.link, made.libraries],
            "compilers": {name: compiler_version(name) for name in sorted(compilers)},
            "processor": processor_features() if native else platform.machine(),
            "torch": torch_version() if made.libraries else "",
        }
    )


@lru_cache(maxsize=8)
def compiler_version(name: str) -> str:
    """The first lines a compiler says of itself, or an empty text where it is not installed."""
    path = shutil.which(name, path="/usr/local/cuda/bin:/usr/local/bin:/usr/bin:/bin")
    if path is None:
        return ""
    answer = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30, check=False)
    return answer.stdout.strip()


@lru_cache(maxsize=1)
def torch_version() -> str:
    """The installed torch, or an empty text: read from its package, not imported."""
    try:
        return version("torch")
    except PackageNotFoundError:
        return ""


@lru_cache(maxsize=1)
def processor_features() -> str:
    """Model and instruction sets of the first processor; libraries built for another one may not run here."""
    wanted = ("model name", "flags", "Features", "CPU part")
    lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
    return "\n".join(line for line in lines if line.split("\t")[0].strip() in wanted)
