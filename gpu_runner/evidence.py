"""What verdicts rest on, as files: the numbers of every check and every sample, no tensors and no verdict.

`verify --evidence DIR` writes them, `judge DIR` makes the verdict from them again without running anything.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from gpu_runner.contracts import BuildReport, DeviceInfo, Mode, Precision, Protocol, Verdict
from gpu_runner.hands import HandsError
from gpu_runner.seen import Evidence
from gpu_runner.timed import SpeedEvidence

SCHEMA = "stitchweb.evidence/2"
_NAMES = ("about", "check", "timing")


@dataclass
class About:
    """What was judged, how, where: everything in a result line that is neither verdict nor measurement.

    `programs`: SHA-256 of the reference and of each file of the candidate.
    """

    file: str
    target: str
    protocol: Protocol
    mode: Mode
    precision: Precision
    device: DeviceInfo | None
    programs: dict[str, str]
    built: bool
    build_log: str
    build_timed_out: bool
    build_s: float
    wall_s: float
    schema: str = SCHEMA

    def build_report(self) -> BuildReport:
        verdict = None if self.built else Verdict.TIMED_OUT if self.build_timed_out else Verdict.BUILD_FAILED
        diagnostics = () if self.built else (self.build_log,)
        return BuildReport(ok=self.built, verdict=verdict, diagnostics=diagnostics, seconds=self.build_s, device=self.device)


@dataclass
class Case:
    """All evidence of one verification; later parts are None where an earlier one settled it."""

    about: About
    check: Evidence | None = None
    timing: SpeedEvidence | None = None


_ADAPTERS: dict[str, TypeAdapter[Any]] = {
    "about": TypeAdapter(About),
    "check": TypeAdapter(Evidence),
    "timing": TypeAdapter(SpeedEvidence),
}


def recorded(evidence: Evidence | SpeedEvidence) -> dict[str, Any]:
    """The evidence as JSON values."""
    name = "check" if isinstance(evidence, Evidence) else "timing"
    data: dict[str, Any] = _ADAPTERS[name].dump_python(evidence, mode="json")
    return data


def check_evidence(data: dict[str, Any]) -> Evidence:
    """What `recorded` gave. Raises ValidationError."""
    evidence: Evidence = _ADAPTERS["check"].validate_python(data)
    return evidence


def speed_evidence(data: dict[str, Any]) -> SpeedEvidence:
    """What `recorded` gave. Raises ValidationError."""
    evidence: SpeedEvidence = _ADAPTERS["timing"].validate_python(data)
    return evidence


def write(folder: Path, case: Case) -> None:
    """One file per part; a part of an earlier verification that this one has not is removed. Raises HandsError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in _NAMES:
            path, part = folder / f"{name}.json", getattr(case, name)
            if part is None:
                path.unlink(missing_ok=True)
            else:
                path.write_text(json.dumps(_ADAPTERS[name].dump_python(part, mode="json"), indent=1) + "\n")
    except OSError as error:
        raise HandsError(f"The evidence cannot be written to {folder}: {error.strerror}; name a folder of your own.") from None


def read(folder: Path) -> Case:
    """What `write` wrote. Raises HandsError with the file and what is wrong with it."""
    parts: dict[str, Any] = {}
    for name in _NAMES:
        path = folder / f"{name}.json"
        try:
            parts[name] = _ADAPTERS[name].validate_python(json.loads(path.read_text()))
        except FileNotFoundError:
            if name == "about":
                raise HandsError(
                    f"{folder} holds no evidence: there is no about.json; write one with `verify --evidence`."
                ) from None
        except OSError as error:
            raise HandsError(f"The evidence {path} cannot be read: {error.strerror}.") from None
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the whole"
            raise HandsError(f"The evidence {path} is not what `verify --evidence` writes: {where}: {first['msg']}.") from None
        except ValueError:
            raise HandsError(f"The evidence {path} is not JSON.") from None
    if parts["about"].schema != SCHEMA:
        raise HandsError(f"{folder} holds evidence of the schema {parts['about'].schema!r}; this version reads {SCHEMA}.")
    if parts["about"].built and "check" not in parts:
        raise HandsError(f"{folder} says that the candidate was built, but holds no check.json; write it anew with `verify`.")
    return Case(**parts)
