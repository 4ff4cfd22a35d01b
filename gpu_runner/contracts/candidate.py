"""What the Coder writes: a folder with kernels, an optional `candidate.toml`, and how they are called: `model_new.py`, or
`entry.json` and no Python at all."""

from __future__ import annotations

import re
import tomllib

from pydantic import field_validator

from gpu_runner.contracts.base import Contract, digest
from gpu_runner.contracts.entry import ENTRY_FILE, Entry, parse_entry

MODEL_FILE = "model_new.py"
MANIFEST_FILE = "candidate.toml"
LIBRARY_FILE = "libkernels.so"
MAX_FILES = 64
MAX_BYTES = 1_000_000
_PATH = re.compile(r"^(?:model_new\.py|entry\.json|candidate\.toml|kernels/[A-Za-z0-9_][A-Za-z0-9_.-]*\.(?:cu|cuh|cpp|h|hpp))$")

# Only flags that cannot read files, load plugins or change the meaning of floating point for the whole process.
ALLOWED_FLAGS = frozenset(
    {
        "-O2", "-O3", "-march=native", "-mavx2", "-mfma", "-mavx512f", "-fopenmp", "-fno-math-errno", "-fno-trapping-math",
        "-ffp-contract=fast", "-ffp-contract=off", "-funroll-loops", "-fno-strict-aliasing", "-std=c++17", "-std=c++20",
        "--expt-relaxed-constexpr", "--expt-extended-lambda", "-lcublas", "-lcublasLt",
    }
)  # fmt: skip
DEFAULT_CPP_FLAGS = ("-O3", "-march=native", "-std=c++17", "-fopenmp", "-fno-math-errno", "-fno-trapping-math")


class CandidateManifest(Contract):
    """`candidate.toml`: compiler flags out of `ALLOWED_FLAGS`. All sources of `kernels/` build into one `libkernels.so`
    that lies beside `model_new.py` when it is imported, or that `entry.json` describes."""

    flags: tuple[str, ...] = DEFAULT_CPP_FLAGS

    @field_validator("flags")
    @classmethod
    def _allowed(cls, flags: tuple[str, ...]) -> tuple[str, ...]:
        for flag in flags:
            if flag not in ALLOWED_FLAGS:
                raise ValueError(f"the compiler flag {flag!r} is not on the list of allowed flags")
        return flags


class CandidateFiles(Contract):
    """The files of one candidate, path to text. Paths are relative, of the known kinds, and few."""

    files: dict[str, str]

    @field_validator("files")
    @classmethod
    def _checked(cls, files: dict[str, str]) -> dict[str, str]:
        if MODEL_FILE not in files and ENTRY_FILE not in files:
            raise ValueError(f"a candidate needs the file {MODEL_FILE} with the class ModelNew, or {ENTRY_FILE} and kernels")
        if MODEL_FILE in files and ENTRY_FILE in files:
            raise ValueError(f"a candidate has either {MODEL_FILE} or {ENTRY_FILE}: remove the one that is not meant")
        if len(files) > MAX_FILES:
            raise ValueError(f"a candidate may have at most {MAX_FILES} files, this one has {len(files)}")
        if sum(len(text.encode()) for text in files.values()) > MAX_BYTES:
            raise ValueError(f"a candidate may have at most {MAX_BYTES} bytes of source")
        for path in files:
            if not _PATH.fullmatch(path):
                raise ValueError(
                    f"the path {path!r} is not allowed: use model_new.py, entry.json, candidate.toml or kernels/NAME.cu|cpp|h"
                )
        if ENTRY_FILE in files:
            if not any(path.endswith((".cu", ".cpp")) for path in files):
                raise ValueError(f"{ENTRY_FILE} names a function, but there is no source in kernels/ that could define it")
            parse_entry(files[ENTRY_FILE])
        return files

    @property
    def sha256(self) -> str:
        return digest(self.files)

    @property
    def manifest(self) -> CandidateManifest:
        """The parsed `candidate.toml`, or the defaults. Raises ValueError with a sentence when it is malformed."""
        text = self.files.get(MANIFEST_FILE)
        if text is None:
            return CandidateManifest()
        try:
            return CandidateManifest.model_validate(tomllib.loads(text))
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise ValueError(f"{MANIFEST_FILE} is not valid TOML: {error}") from error

    @property
    def entry(self) -> Entry | None:
        """How the library is called where the candidate has no Python."""
        text = self.files.get(ENTRY_FILE)
        return None if text is None else parse_entry(text)

    @property
    def program(self) -> str:
        """The candidate's own Python; empty where it has none."""
        return self.files.get(MODEL_FILE, "")

    @property
    def kernel_sources(self) -> tuple[str, ...]:
        """Paths that are compiled, sorted."""
        return tuple(sorted(p for p in self.files if p.endswith((".cu", ".cpp"))))
