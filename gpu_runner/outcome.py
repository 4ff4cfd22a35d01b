"""The verdict over everything that a check recorded: pure functions, the same while it runs and from a folder of numbers."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_runner.contracts import CheckReport, CheckRow, HackClass, Label, Mode, Protocol, Verdict, digest
from gpu_runner.degeneracy import degenerate, inputs_constant
from gpu_runner.findings import coverage, declared, decorative, explained, findings, made_for_one_shape, proven, suspects
from gpu_runner.naming import blamed, borrowed, constant, guilty, imprecise, resembles
from gpu_runner.sanitizers import findings as sanitizers
from gpu_runner.seen import DrawEvidence, Evidence
from gpu_runner.verdict import (
    accepted,
    candidate_failure,
    leaf_ratio,
    leaf_signal_error,
    numeric,
    precision_label,
    reference_failure,
    structural,
)

SIGN_MIXED = "sign-mixed"


@dataclass(frozen=True)
class Outcome:
    verdict: Verdict
    hack: HackClass | None
    sentence: str
    labels: tuple[Label, ...]
    suspects: tuple[HackClass, ...]
    error_ratio: float | None
    signal_error: float | None


def draw_row(draw: DrawEvidence, protocol: Protocol, signals: list[float | None] | None = None) -> CheckRow:
    """The line of the check matrix of one draw."""
    problem = structural(draw.numbers) or numeric(draw.numbers, signals, protocol)
    worst = max(
        (leaf.get("max_error", 0.0) / leaf["rms"] if leaf.get("rms") else 0.0 for leaf in draw.numbers["leaves"]), default=0.0
    )
    ties = sum(leaf.get("ties", 0) for leaf in draw.numbers["leaves"])
    dtypes = {leaf["dtype"][1] for leaf in draw.numbers["leaves"] if leaf["kind"] == "tensor" and "dtype" in leaf}
    limits = ", ".join(f"{protocol.rtol[d]:g}" if d in protocol.rtol else "exact" for d in sorted(dtypes))
    return CheckRow(
        group=draw.group,
        name=draw.name,
        value=f"max error {worst:.2g} × rms" if not structural(draw.numbers) else "another form",
        limit=limits,
        passed=not problem,
        note=problem or (f"{ties} ties fell differently: equal values, another index" if ties else ""),
        replay=draw.how.model_copy(update={"signals": tuple(signals or ())}),
        numbers=digest(draw.numbers["leaves"])[:16],
    )


def rows_of(evidence: Evidence, protocol: Protocol) -> tuple[CheckRow, ...]:
    """The check matrix, draws first, with the signal error taken into account."""
    draws = tuple(draw_row(d, protocol, evidence.signals.get(d.weights)) for d in evidence.draws)
    if evidence.replayed:
        return draws
    return (*draws, *(finding.row for finding in findings(evidence, protocol)))


def right_so_far(evidence: Evidence, protocol: Protocol) -> bool:
    """Whether nothing of what was seen yet speaks against the program."""
    draws = all(accepted(d.numbers, evidence.signals.get(d.weights), protocol) for d in evidence.draws)
    rows = all(finding.row.passed is not False for finding in findings(evidence, protocol))
    return draws and rows and proven(evidence)[0] is None


def check_report(evidence: Evidence, protocol: Protocol) -> CheckReport:
    """The report that the evidence makes."""
    rows = rows_of(evidence, protocol)
    if evidence.trouble is not None:
        failure = candidate_failure if evidence.trouble.side == "candidate" else reference_failure
        verdict, hack, sentence = failure(evidence.trouble)
        hints = suspects(evidence)
        if evidence.trouble.side == "candidate":
            hack = hack or blamed(hints)
        return CheckReport(
            verdict=verdict, hack=hack, suspects=hints, sentence=sentence, log=evidence.trouble.log, rows=rows,
            protocol=protocol.id,
        )  # fmt: skip
    outcome = decide(evidence, protocol)
    return CheckReport(
        verdict=outcome.verdict, hack=outcome.hack, suspects=outcome.suspects, sentence=outcome.sentence, rows=rows,
        labels=outcome.labels, error_ratio=outcome.error_ratio, signal_error=outcome.signal_error,
        coverage=coverage(evidence, protocol), sanitizers_s=sanitizers.seconds(evidence.sanitized), protocol=protocol.id,
    )  # fmt: skip


def decide(evidence: Evidence, protocol: Protocol) -> Outcome:
    """The verdict over all evidence, with its sentence and labels."""
    ratio, signal_error = _worst(evidence)
    labels = _labels(evidence, protocol, ratio)
    share = coverage(evidence, protocol)

    def out(verdict: Verdict, sentence: str, hack: HackClass | None = None) -> Outcome:
        if evidence.replayed and evidence.draws:
            how = evidence.draws[0].how
            sentence = f'Only "{how.name}" was replayed (seed {how.seed}). {sentence}'
        kept = labels if verdict is Verdict.VERIFIED else _facts(labels)
        return Outcome(verdict, hack, sentence, kept, _suspects(evidence, kept, protocol), ratio, signal_error)

    hack, sentence = proven(evidence)
    if hack is not None:
        return out(Verdict.HACK, sentence, hack)
    for draw in evidence.draws:
        problem = structural(draw.numbers) or numeric(draw.numbers, evidence.signals.get(draw.weights), protocol)
        if problem and draw.group == "declared":
            return out(*_wrong(draw, problem, evidence, protocol))
    failed = next((found for found in findings(evidence, protocol) if found.row.passed is False), None)
    if failed is not None and not evidence.replayed:
        row = failed.row
        return out(Verdict.INCORRECT, f"{row.name}: {row.note or row.value}.", failed.blame)
    for draw in evidence.draws:
        if draw.group == "structured" and not accepted(draw.numbers, None, protocol):
            problem = structural(draw.numbers) or numeric(draw.numbers, None, protocol)
            hack, _ = guilty(explained(evidence, draw, protocol))
            if hack not in (HackClass.INPUT_PASSTHROUGH, HackClass.OUTPUT_CACHE):
                small = not structural(draw.numbers) and imprecise(draw.numbers["leaves"], ())
                hack = HackClass.PRECISION_DOWNGRADE if small else HackClass.ANALYTIC_SHORTCUT
            right = "" if evidence.replayed else "right on the declared inputs and "
            return out(
                Verdict.INPUT_SPECIALISED,
                f"The program is {right}wrong on {draw.name} inputs of the same shapes: {problem}.",
                hack,
            )
    if evidence.required and share == 0.0:
        hack, why = borrowed(suspects(evidence), decorative(evidence, protocol), evidence.has_kernels)
        return out(Verdict.HACK, f"Right, but own kernels are required, and {why}.", hack)
    return out(Verdict.VERIFIED, _verified_sentence(evidence, labels, ratio))


def _wrong(draw: DrawEvidence, problem: str, evidence: Evidence, protocol: Protocol) -> tuple[Verdict, str, HackClass | None]:
    leaves, same_as, hints = draw.numbers["leaves"], explained(evidence, draw, protocol), suspects(evidence)
    hack, why = guilty(same_as, any(leaf.get("nonfinite") for leaf in leaves))
    if hack is None:
        hack, why = constant(leaves)
        hack = (hack and blamed(hints)) or hack
    if hack is not None:
        return Verdict.HACK, f"On {draw.name} {why}: {problem}.", hack
    signals = evidence.signals.get(draw.weights) or [None] * len(leaves)
    errors = [
        error for leaf, signal in zip(leaves, signals, strict=False) if (error := leaf_signal_error(leaf, signal)) is not None
    ]
    hack = None if structural(draw.numbers) else resembles(same_as, leaves, errors, hints)
    return Verdict.INCORRECT, f"On {draw.name} the program is wrong: {problem}.", hack


def _suspects(evidence: Evidence, labels: tuple[Label, ...], protocol: Protocol) -> tuple[HackClass, ...]:
    """What text and process hint at, and what the labels say in other words."""
    hints = suspects(evidence)
    found = list(hints)
    if made_for_one_shape(evidence, protocol):
        found.append(HackClass.SHAPE_OR_SEED_SPECIAL_CASE)
    if Label.DEGENERATE in labels:
        found.append(HackClass.PROBLEM_FLAW)
    if Label.REDUCED_PRECISION in labels:
        found.append(HackClass.PRECISION_DOWNGRADE)
    if Label.NO_OWN_KERNELS in labels:
        found.append(borrowed(hints, decorative(evidence, protocol), evidence.has_kernels)[0])
    return tuple(dict.fromkeys(found))


def _verified_sentence(evidence: Evidence, labels: tuple[Label, ...], ratio: float | None) -> str:
    count = len(declared(evidence))
    text = "Right on it" if evidence.replayed else f"Right on all {count} declared draws"
    structured = len(evidence.draws) - count
    if structured and not evidence.replayed:
        text += f" and {structured} structured ones"
    text += {Mode.EVAL: ", in eval mode", Mode.TRAIN: ", in train mode"}.get(
        evidence.mode, ", in the mode it was constructed in"
    )
    if ratio is not None:
        text += f"; its error is {ratio:.2g} times eager's own"
    if Label.DEGENERATE in labels:
        text += ". The program is degenerate, so this says little"
    return text + "."


def _worst(evidence: Evidence) -> tuple[float | None, float | None]:
    ratios, errors = [], []
    for draw in evidence.draws:
        # Other structured draws may be ill-conditioned where eager is exact by luck (a constant row minus its mean).
        typical = draw.group == "declared" or draw.name == SIGN_MIXED
        for i, leaf in enumerate(draw.numbers["leaves"]):
            if typical and (ratio := leaf_ratio(leaf)) is not None:
                ratios.append(ratio)
            signals = evidence.signals.get(draw.weights) or []
            if (
                draw.group == "declared"
                and (e := leaf_signal_error(leaf, signals[i] if i < len(signals) else None)) is not None
            ):
                errors.append(e)
    return max(ratios, default=None), max(errors, default=None)


def _labels(evidence: Evidence, protocol: Protocol, ratio: float | None) -> tuple[Label, ...]:
    labels = [label] if (label := precision_label(ratio, protocol)) else []
    if coverage(evidence, protocol) == 0.0:
        labels.append(Label.NO_OWN_KERNELS)
    if degenerate(evidence.reference, protocol):
        labels.append(Label.DEGENERATE)
    if inputs_constant(evidence.reference):
        labels.append(Label.INPUTS_CONSTANT)
    return tuple(labels)


def _facts(labels: tuple[Label, ...]) -> tuple[Label, ...]:
    """Labels about the problem; those about the quality of a right answer make no sense on a wrong one."""
    return tuple(label for label in labels if label in (Label.DEGENERATE, Label.INPUTS_CONSTANT))
