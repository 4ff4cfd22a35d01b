"""The Coder: a set of regions in, the files of a candidate out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from agents.engineers.offline.emit.host import write_model
from agents.engineers.offline.emit.platform import platform_of
from agents.engineers.offline.emit.text import identifier
from agents.engineers.offline.graph import View
from agents.engineers.offline.regions import LAYOUT, REPLAY, WHOLE, Region
from gpu_runner.contracts import CandidateFiles

HEADERS = Path(__file__).parent / "emit" / "headers"
MARK = "# does: "  # one line per region, so that a later candidate can build on this one


def applied(files: dict[str, str]) -> list[str]:
    """The keys of the regions that a candidate of this engineer does."""
    return [line.removeprefix(MARK) for line in files.get("candidate.toml", "").splitlines() if line.startswith(MARK)]


def write_candidate(
    source: str, entry: str, view: View | None, regions: Sequence[Region], mode: str, target: str = "cpu"
) -> CandidateFiles:
    """All files of the program that does `regions` with kernels and the rest with PyTorch, as one CUDA graph where one of them
    says so. `regions` are of one way, whose `view` it is; it may be missing when no region is but the replay."""
    platform = platform_of(target)
    files: dict[str, str] = {}
    calls = []
    kernels = [r for r in regions if r.kind not in WHOLE]
    ordered = sorted(kernels, key=lambda r: view.index[r.nodes[-1]]) if view is not None else []
    known: dict[str, str] = {}
    for region in ordered:
        assert view is not None
        name = f"k{len(set(known.values())) + 1}_{_slug(region)}"
        written = region.write(view, name)
        twin = known.setdefault(written.shape or name, name)
        if twin != name:  # the steps of an unrolled loop differ in their tensors alone
            calls.append(replace(written.call, name=twin))
            continue
        files[f"kernels/{name}{platform.suffix}"] = written.source
        for header in written.headers:
            files.setdefault(f"kernels/{header}", (HEADERS / header).read_text())
        calls.append(written.call)
    lines = dict.fromkeys(f"- {c.name}: {c.says}" for c in calls)
    about = "Kernels, in the order they first run:\n" + "\n".join(lines) if calls else ""
    whole = [r for r in regions if r.kind in WHOLE]
    kinds = {r.kind for r in whole}
    files["model_new.py"] = write_model(
        source, entry, view, calls, mode, about, platform, replay=REPLAY in kinds, rewritten=bool(calls) or LAYOUT in kinds
    )
    done = [*ordered, *whole]
    files["candidate.toml"] = platform.manifest + "".join(f"{MARK}{region.key}\n" for region in done)
    return CandidateFiles(files=files)


def _slug(region: Region) -> str:
    words = [identifier(op).strip("_") for op in dict.fromkeys(region.ops)]
    return "_".join(words[:3])[:40].strip("_") or region.kind
