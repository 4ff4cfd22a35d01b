"""Reads the gallery: one file per program, a reference shared by many, a header that says what it is.

    programs/<class>/<name>.py      a cheat; `programs/honest/<topic>/<name>.py` an honest program
    programs/<class>/<name>.cpp     its own kernels, if any (`.cu` for CUDA), unless `kernel` names another's
    references/<name>.py            class Model, get_inputs(), maybe get_init_inputs()

A header is the file's first comment lines: sentences of what the program does, then `key: value` lines (keys: `_KEYS`).
A program's text follows the reference's, whose `Model` is there called `Right`: `class ModelNew(Right)` can fall back on it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from gpu_runner.contracts import CandidateFiles, HackClass, Mode, Source, digest
from gpu_runner.contracts.candidate import MODEL_FILE
from gpu_runner.hands import HandsError

HONEST = "honest"
_KEYS = ("reference", "caught by", "targets", "timed", "own kernels", "mode", "prelude", "kernel")
_LINE = re.compile(rf"# ({'|'.join(_KEYS)}): (.+)")
_NATIVE = {".cpp": "cpu", ".cu": "cuda"}
_OWN = """
import ctypes
from pathlib import Path

own = ctypes.CDLL(str(Path(__file__).with_name("libkernels.so")))


def at(tensor):
    return ctypes.c_void_p(tensor.data_ptr())


def count(number):
    return ctypes.c_int64(number)


def stream():
    return ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
"""


@dataclass(frozen=True)
class Entry:
    """One program of the gallery. `hack` None: it is honest."""

    name: str  # "<class>/<name>"
    hack: HackClass | None
    says: str
    caught_by: str
    reference: str  # the file's stem
    targets: tuple[str, ...]
    source: Source
    candidate: CandidateFiles
    timed: bool
    own_kernels: bool
    mode: Mode
    path: Path = field(compare=False)

    @property
    def sha256(self) -> str:
        """Changes with everything that its judgement depends on."""
        said = [self.source.sha256, self.candidate.sha256, self.timed, self.own_kernels, self.mode, self.hack]
        return digest({"entry": said})


def default_folder() -> Path:
    """Where a checkout keeps its gallery."""
    return Path(__file__).resolve().parents[2] / "tests" / "hacks"


def read(folder: Path, target: str) -> list[Entry]:
    """Entries for `cpu` or `cuda`; those of one reference stand together. Raises HandsError with a sentence."""
    programs = folder / "programs"
    if not programs.is_dir():
        raise HandsError(
            f"There is no gallery in {folder}: it is a part of the repository, not of the package. Run this in a checkout, or "
            "name the folder that holds `programs` and `references` with --gallery."
        )
    entries = [entry_of(path, folder) for path in sorted(programs.rglob("*.py"))]
    names = [entry.name for entry in entries]
    if double := {name for name in names if names.count(name) > 1}:
        raise HandsError(f"Two programs of the gallery share a name: {', '.join(sorted(double))}.")
    chosen = [entry for entry in entries if target in entry.targets]
    return sorted(chosen, key=lambda entry: (entry.source.sha256, entry.mode, entry.hack is None, entry.name))


def entry_of(path: Path, folder: Path) -> Entry:
    """The entry in one file. Raises HandsError when its header or class cannot be read."""
    text = path.read_text(encoding="utf-8")
    says, head = _header(text)
    parts = path.relative_to(folder / "programs").with_suffix("").parts
    if "reference" not in head:
        raise HandsError(f"{path}: the header names no reference; add a line `# reference: NAME`.")
    reference = folder / "references" / f"{head['reference']}.py"
    try:
        hack = None if parts[0] == HONEST else HackClass(parts[0])
        source = Source(text=reference.read_text(encoding="utf-8"))
    except ValueError:
        raise HandsError(f"{path}: {parts[0]!r} is no kind of cheat; the folders are named as HackClass spells them.") from None
    except OSError:
        raise HandsError(f"{path}: there is no reference {reference}.") from None
    named = [folder / "programs" / head["kernel"]] if "kernel" in head else []
    natives = [kernel for suffix in _NATIVE if (kernel := path.with_suffix(suffix)).is_file()] + named
    prelude = "" if head.get("prelude") == "none" else right(source.text)
    files = {MODEL_FILE: prelude + (_OWN if natives else "") + "\n\n" + text}
    files |= {f"kernels/{kernel.name}": kernel.read_text(encoding="utf-8") for kernel in natives}
    targets = head["targets"].split() if "targets" in head else [_NATIVE[k.suffix] for k in natives] or ["cpu", "cuda"]
    return Entry(
        name="/".join(parts),
        hack=hack,
        says=says,
        caught_by=head.get("caught by", ""),
        reference=head["reference"],
        targets=tuple(targets),
        source=source,
        candidate=CandidateFiles(files=files),
        timed=head.get("timed") == "yes",
        own_kernels=head.get("own kernels") == "required",
        mode=Mode(head.get("mode", Mode.EVAL)),
        path=path,
    )


def right(reference: str) -> str:
    """The honest program under another name: what stands before `get_inputs`, its `Model` called `Right`."""
    text = reference[: reference.index("\ndef get_inputs")].rstrip() + "\n"
    return re.sub(r"\bModel\b", "Right", text)


def _header(text: str) -> tuple[str, dict[str, str]]:
    sentences, head = [], {}
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        if match := _LINE.fullmatch(line):
            head[match.group(1)] = match.group(2).strip()
        else:
            sentences.append(line.lstrip("# ").strip())
    return " ".join(sentences), head
