"""The totals of a benchmark's result lines. Every program counts, also those that failed; what is left out is said."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

Line = dict[str, Any]
THRESHOLDS = (1.0, 1.2, 1.5, 2.0, 4.0)
AGAINST = {"eager": ("speedup_vs_eager", "ci_low"), "compile": ("speedup_vs_compile", "ci_compile_low")}


GROUPS: dict[str, Callable[[Line], str]] = {
    "folder": lambda line: str(line["file"]).rpartition("/")[0],
    "size": lambda line: str(line.get("size") or ""),
    "family": lambda line: str(line.get("family") or ""),
}
BRIEF = ("programs", "verified", "faster than eager", "faster than compile", "over eager", "over compile", "coverage")


def latest(lines: Sequence[Line]) -> list[Line]:
    """One line per file, the last one, in order of first appearance."""
    return list({str(line["file"]): line for line in lines}.values())


def degenerate(line: Line) -> bool:
    """True for a program on which a trivial one passes, so that no speed on it means anything."""
    return "degenerate" in (line.get("labels") or ())


def totals(lines: Sequence[Line]) -> dict[str, Any]:
    """Counts by verdict and, against eager and against torch.compile: `fast_p` (share of all programs that are verified and
    more than p times as fast), the same by the interval's lower bound, and two geometric means (all programs with anything
    unverified as 1; verified ones alone). Degenerate programs are counted, and shown apart. `groups` has the same in short for
    each folder, size class and family; `runs` says which invocations and commits the lines come from."""
    verdicts = Counter(str(line["verdict"]) for line in lines)
    return {
        "programs": len(lines),
        "verdicts": dict(sorted(verdicts.items())),
        "speeds": dict(sorted(Counter(str(line.get("speed")) for line in lines if _verified(line)).items())),
        "degenerate": [line["file"] for line in lines if degenerate(line)],
        "against": {name: _against(lines, value, low) for name, (value, low) in AGAINST.items()},
        "delivered": _delivered(lines),
        "groups": {word: _groups(lines, key) for word, key in GROUPS.items()},
        "runs": sorted({(str(line["run_id"]), str(line.get("commit"))) for line in lines if line.get("run_id")}),
        "wall_s": sum(float(line.get("wall_s") or 0.0) for line in lines),
    }


def _verified(line: Line) -> bool:
    return line["verdict"] == "verified" and not degenerate(line)


def _against(lines: Sequence[Line], value: str, low: str) -> dict[str, Any]:
    with_numbers = [line for line in lines if _verified(line) and line.get(value) and line.get(low)]
    speeds = [float(line[value]) for line in with_numbers]
    bounds = [float(line[low]) for line in with_numbers]
    count, logs = len(lines), sum(math.log(speed) for speed in speeds)

    def shares(numbers: list[float]) -> dict[str, float | None]:
        return {f"{p:g}": sum(number > p for number in numbers) / count if count else None for p in THRESHOLDS}

    return {
        "measured": len(speeds),
        "fast_p": shares(speeds),
        "significant_fast_p": shares(bounds),
        "geomean_all": math.exp(logs / count) if count else None,
        "geomean_verified": math.exp(logs / len(speeds)) if speeds else None,
    }


def _delivered(lines: Sequence[Line]) -> dict[str, Any]:
    """What a user takes home: the verified program, or the mode of torch.compile that is `offered` in its place, or the
    reference. Geometric means over all programs; against torch.compile an offer counts as 1."""
    offers = [line for line in lines if line.get("offered") and not degenerate(line)]
    taken = [line for line in lines if _verified(line) and not line.get("offered")]
    eager = [float(line["offered_vs_eager"]) for line in offers if line.get("offered_vs_eager")]
    eager += [float(line["speedup_vs_eager"]) for line in taken if line.get("speedup_vs_eager")]
    compiled = [float(line["speedup_vs_compile"]) for line in taken if line.get("speedup_vs_compile")]

    def mean(ratios: list[float]) -> float | None:
        return math.exp(sum(map(math.log, ratios)) / len(lines)) if lines else None

    return {"programs": len(taken), "offered": len(offers), "over_eager": mean(eager), "over_compile": mean(compiled)}


def _groups(lines: Sequence[Line], key: Callable[[Line], str]) -> dict[str, dict[str, Any]]:
    names = sorted({key(line) for line in lines} - {""})
    return {name: brief([line for line in lines if key(line) == name]) for name in names}


def brief(lines: Sequence[Line]) -> dict[str, Any]:
    """One row of the table by groups, keyed by `BRIEF`. Faster: by the interval's lower bound. The means are geometric, over
    all programs, with whatever is unverified or unmeasured as 1. Coverage: the mean share of the device time of a verified
    program that its own kernels take; None where nothing was profiled."""
    against = {name: _against(lines, value, low) for name, (value, low) in AGAINST.items()}
    covered = [
        float(line["operator_coverage"]) for line in lines if _verified(line) and line.get("operator_coverage") is not None
    ]
    faster = [sum(_verified(line) and (line.get(low) or 0.0) > 1.0 for line in lines) for _, low in AGAINST.values()]
    means = [against[name]["geomean_all"] for name in AGAINST]
    coverage = sum(covered) / len(covered) if covered else None
    return dict(zip(BRIEF, (len(lines), sum(map(_verified, lines)), *faster, *means, coverage), strict=True))


def _group_rows(groups: dict[str, dict[str, dict[str, Any]]]) -> list[str]:
    rows = []
    for word, members in groups.items():
        if not members:
            continue
        rows.append(f"{word:<20}" + "".join(f"{name:>{len(name) + 2}}" for name in BRIEF))
        for name, row in members.items():
            cells = (str(row[b]) if b in BRIEF[:4] else _percent(row[b]) if b == "coverage" else _times(row[b]) for b in BRIEF)
            rows.append(f"  {name:<18}" + "".join(f"{cell:>{len(b) + 2}}" for b, cell in zip(BRIEF, cells, strict=True)))
    return rows


def table(lines: Sequence[Line]) -> str:
    """The totals for people."""
    sums = totals(lines)
    rows = [f"{sums['programs']} programs, {sums['wall_s'] / 60:.1f} min"]
    rows += [f"  {verdict:<14}{number:>4}" for verdict, number in sums["verdicts"].items()]
    if sums["degenerate"]:
        rows.append(f"  of them degenerate (no speed is claimed): {', '.join(sums['degenerate'])}")
    rows.append("against   measured  " + "".join(f"fast_{p:<7g}" for p in THRESHOLDS) + "geomean, all   geomean, verified")
    for name, sum_ in sums["against"].items():
        shares = "".join(f"{_percent(sum_['fast_p'][f'{p:g}']):<12}" for p in THRESHOLDS)
        means = f"{_times(sum_['geomean_all']):<15}{_times(sum_['geomean_verified'])}"
        rows.append(f"{name:<10}{sum_['measured']:<10}{shares}{means}")
        shares = "".join(f"{_percent(sum_['significant_fast_p'][f'{p:g}']):<12}" for p in THRESHOLDS)
        rows.append(f"{'':<4}{'by lower bound':<16}" + shares)
    home = sums["delivered"]
    if home["offered"]:
        rows.append(
            f"delivered: {home['programs']} programs of ours and {home['offered']} of torch.compile's, over eager "
            f"{_times(home['over_eager'])}, over torch.compile {_times(home['over_compile'])} (geometric means over all)"
        )
    rows += _group_rows({"all": {"": brief(lines)}, **sums["groups"]})
    rows += [f"run {run} at commit {commit}" for run, commit in sums["runs"]]
    errors = [f"  {line['file']}: {line['error']}" for line in lines if line.get("error")]
    return "\n".join([*rows, *(["not done, and why:", *errors] if errors else [])])


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.0%}"


def _times(mean: float | None) -> str:
    return "–" if mean is None else f"{mean:.3f}×"
