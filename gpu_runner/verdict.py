"""The rules of a verdict, as pure functions over the judge's numbers. No process is touched: evidence can be replayed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from gpu_runner.contracts import CheckReport, CheckRow, HackClass, Label, Protocol, Replay, Verdict
from gpu_runner.naming import blamed, borrowed, constant, guilty, imprecise, resembles

SIGN_MIXED = "sign-mixed"
# What a candidate's process refuses because the candidate is another program than the reference.
_NOT_THE_SAME = ("weights_differ", "inputs_differ", "unsupported_outputs", "wrong_when_timed")


@dataclass
class Trouble:
    """How a program failed in its own process: it refused to go on, the process ended, or what it sent cannot be true.

    `code` is the refusal's, `sentence` says it to people, `log` is what the process printed.
    """

    side: str
    code: str
    sentence: str
    log: str = ""
    how: Literal["refused", "ended", "forged"] = "refused"


def candidate_failure(trouble: Trouble) -> tuple[Verdict, HackClass | None, str]:
    """(verdict, hack, sentence) of a candidate that failed in its own process."""
    if trouble.how == "forged":
        hack = HackClass.TIMER_PATCH if trouble.code == "forged_time" else HackClass.RESULT_FORGING
        return Verdict.HACK, hack, trouble.sentence
    if trouble.how == "ended":
        return (Verdict.TIMED_OUT if trouble.code == "timed_out" else Verdict.CRASHED), None, trouble.sentence
    return (Verdict.INCORRECT if trouble.code in _NOT_THE_SAME else Verdict.CRASHED), None, trouble.sentence


def reference_failure(trouble: Trouble) -> tuple[Verdict, HackClass | None, str]:
    """The same where it was the reference that failed: nothing is said about the candidate."""
    return Verdict.REFUSED, None, f"The reference cannot be used: {trouble.sentence}"


@dataclass
class DrawEvidence:
    """One draw as the judge saw it: `numbers` is the answer of `child.judge.compare`, `facts` are the processes' own."""

    how: Replay  # what was drawn
    numbers: dict[str, Any]
    weights: int = 0  # which weight draw
    facts: dict[str, Any] = field(default_factory=dict)
    reference_facts: dict[str, Any] = field(default_factory=dict)
    same_as: dict[str, bool] = field(default_factory=dict)  # what a wrong result equals instead

    @property
    def name(self) -> str:
        return self.how.name

    @property
    def group(self) -> Literal["declared", "structured"]:
        return self.how.group


@dataclass
class Evidence:
    """Everything a verdict rests on. `signals` per weight draw and result; None where unknown. `notes`: what was not tried."""

    draws: list[DrawEvidence] = field(default_factory=list)
    signals: dict[int, list[float | None]] = field(default_factory=dict)
    rows: list[CheckRow] = field(default_factory=list)  # of state, honesty and reach
    notes: list[CheckRow] = field(default_factory=list)
    trouble: Trouble | None = None
    hack: HackClass | None = None  # seen directly: a type, a late write, a forged message
    hack_sentence: str = ""
    blame: HackClass | None = None  # what the first failed row of `rows` looks like
    suspects: tuple[HackClass, ...] = ()  # what the text and the process hint at, the gravest first
    decorative: bool = False  # right also when its own kernels do nothing
    has_kernels: bool = False  # it came with native sources
    required: bool = False  # own kernels are asked for
    nulls: tuple[str, ...] = ()
    inputs_constant: bool = False
    verifiable: bool = True  # eager itself keeps the signal
    coverage: float | None = None
    replayed: bool = False  # one draw of an earlier check was made again, and nothing else


@dataclass(frozen=True)
class Outcome:
    verdict: Verdict
    hack: HackClass | None
    sentence: str
    labels: tuple[Label, ...]
    suspects: tuple[HackClass, ...]
    error_ratio: float | None
    signal_error: float | None


def leaf_ratio(leaf: dict[str, Any]) -> float | None:
    """RMSE against fp64 in units of eager's own.

    Eager counts at least a quarter of an ULP of the result's RMS, so that an exact eager does not make every honest rounding
    look infinite.
    """
    if leaf.get("rmse") is None or leaf.get("rmse_eager") is None:
        return None
    floor = 0.25 * leaf["epsilon"] * leaf["rms"]
    base = max(leaf["rmse_eager"], floor)
    if base == 0.0:
        return 1.0 if leaf["rmse"] == 0.0 else None
    return float(leaf["rmse"] / base)


def leaf_signal_error(leaf: dict[str, Any], signal: float | None) -> float | None:
    """The error over what the inputs change; None where the result does not depend on them or is exact."""
    if leaf.get("rmse") is None or not signal:
        return None
    return float(leaf["rmse"] / signal)


def structural(numbers: dict[str, Any]) -> str:
    """How the form of the results differs, as a sentence; empty when it does not."""
    if numbers.get("structure"):
        got, wanted = numbers["structure"]
        return f"it returns {_tree(got)} where the reference returns {_tree(wanted)}"
    for i, leaf in enumerate(numbers["leaves"]):
        where = f"result {i}" if len(numbers["leaves"]) > 1 else "the result"
        if leaf.get("missing"):
            return f"{where} is not a tensor"
        if leaf["kind"] == "literal" and not leaf["equal"]:
            return f"{where} is another plain value"
        if leaf["kind"] == "tensor":
            if leaf["shape"][0] != leaf["shape"][1]:
                return f"{where} has the shape {leaf['shape'][0]} instead of {leaf['shape'][1]}"
            if leaf["dtype"][0] != leaf["dtype"][1]:
                return f"{where} has the dtype {leaf['dtype'][0]} instead of {leaf['dtype'][1]}"
    return ""


def _tree(tree: Any) -> str:
    if tree == "*":
        return "one value"
    if isinstance(tree, dict):
        return f"a dict of {', '.join(list(tree)[:6])}"
    return f"a {tree[0]} of {len(tree) - 1}"


def numeric(numbers: dict[str, Any], signals: list[float | None] | None, protocol: Protocol) -> str:
    """What is wrong with the values, as a sentence; empty when they are accepted."""
    for i, leaf in enumerate(numbers["leaves"]):
        if leaf["kind"] == "literal":
            continue
        where = f"result {i}: " if len(numbers["leaves"]) > 1 else ""
        if leaf.get("exact"):
            if leaf["mismatches"]:
                return f"{where}{leaf['mismatches']} of {leaf['numel']} elements differ, the first at {leaf['first']}"
            continue
        if leaf["nonfinite"]:
            return f"{where}{leaf['nonfinite']} elements are NaN or infinite where the reference is not, or the reverse"
        if leaf["failures"]:
            at = f", the first at {leaf['first']}"
            return f"{where}{leaf['failures']} of {leaf['numel']} elements are wrong by up to {leaf['max_error']:.2g}{at}"
        signal = signals[i] if signals and i < len(signals) else None
        error, ratio = leaf_signal_error(leaf, signal), leaf_ratio(leaf)
        limit = protocol.signal_error.get(leaf["dtype"][1], 0.05)
        if error is not None and error > limit and not (ratio is not None and ratio <= protocol.ratio_reordered):
            return f"{where}the error is {error:.2g} of what the inputs change (limit {limit:g})"
    return ""


def accepted(numbers: dict[str, Any], signals: list[float | None] | None, protocol: Protocol) -> bool:
    """Whether these results would pass as the program's."""
    return not structural(numbers) and not numeric(numbers, signals, protocol)


def draw_row(draw: DrawEvidence, protocol: Protocol, signals: list[float | None] | None = None) -> CheckRow:
    """The line of the check matrix of one draw."""
    problem = structural(draw.numbers) or numeric(draw.numbers, signals, protocol)
    worst = max(
        (leaf.get("max_error", 0.0) / leaf["rms"] if leaf.get("rms") else 0.0 for leaf in draw.numbers["leaves"]), default=0.0
    )
    dtypes = {leaf["dtype"][1] for leaf in draw.numbers["leaves"] if leaf["kind"] == "tensor" and "dtype" in leaf}
    limits = ", ".join(f"{protocol.rtol[d]:g}" if d in protocol.rtol else "exact" for d in sorted(dtypes))
    return CheckRow(
        group=draw.group,
        name=draw.name,
        value=f"max error {worst:.2g} × rms" if not structural(draw.numbers) else "another form",
        limit=limits,
        passed=not problem,
        note=problem,
        replay=draw.how.model_copy(update={"signals": tuple(signals or ())}),
    )


def rows_of(evidence: Evidence, protocol: Protocol) -> tuple[CheckRow, ...]:
    """The check matrix, draws first, with the signal error taken into account."""
    draws = (draw_row(d, protocol, evidence.signals.get(d.weights)) for d in evidence.draws)
    return (*draws, *evidence.notes, *evidence.rows)


def check_report(evidence: Evidence, protocol: Protocol) -> CheckReport:
    """The report that the evidence makes."""
    rows = rows_of(evidence, protocol)
    if evidence.trouble is not None:
        failure = candidate_failure if evidence.trouble.side == "candidate" else reference_failure
        verdict, hack, sentence = failure(evidence.trouble)
        if evidence.trouble.side == "candidate":
            hack = hack or blamed(evidence.suspects)
        return CheckReport(
            verdict=verdict, hack=hack, suspects=evidence.suspects, sentence=sentence, log=evidence.trouble.log, rows=rows,
            protocol=protocol.id,
        )  # fmt: skip
    outcome = decide(evidence, protocol)
    return CheckReport(
        verdict=outcome.verdict, hack=outcome.hack, suspects=outcome.suspects, sentence=outcome.sentence, rows=rows,
        labels=outcome.labels, error_ratio=outcome.error_ratio, signal_error=outcome.signal_error, coverage=evidence.coverage,
        protocol=protocol.id,
    )  # fmt: skip


def decide(evidence: Evidence, protocol: Protocol) -> Outcome:
    """The verdict over all evidence, with its sentence and labels."""
    ratio, signal_error = _worst(evidence)
    labels = _labels(evidence, protocol, ratio)

    def out(verdict: Verdict, sentence: str, hack: HackClass | None = None) -> Outcome:
        if evidence.replayed and evidence.draws:
            how = evidence.draws[0].how
            sentence = f'Only "{how.name}" was replayed (seed {how.seed}). {sentence}'
        kept = labels if verdict is Verdict.VERIFIED else _facts(labels)
        return Outcome(verdict, hack, sentence, kept, _suspects(evidence, kept), ratio, signal_error)

    if evidence.hack is not None:
        return out(Verdict.HACK, evidence.hack_sentence, evidence.hack)
    for draw in evidence.draws:
        problem = structural(draw.numbers) or numeric(draw.numbers, evidence.signals.get(draw.weights), protocol)
        if problem and draw.group == "declared":
            return out(*_wrong(draw, problem, evidence))
    failed = next((row for row in evidence.rows if row.passed is False), None)
    if failed is not None:
        return out(Verdict.INCORRECT, f"{failed.name}: {failed.note or failed.value}.", evidence.blame)
    for draw in evidence.draws:
        if draw.group == "structured" and not accepted(draw.numbers, None, protocol):
            problem = structural(draw.numbers) or numeric(draw.numbers, None, protocol)
            hack, _ = guilty(draw.same_as)
            if hack not in (HackClass.INPUT_PASSTHROUGH, HackClass.OUTPUT_CACHE):
                small = not structural(draw.numbers) and imprecise(draw.numbers["leaves"], ())
                hack = HackClass.PRECISION_DOWNGRADE if small else HackClass.ANALYTIC_SHORTCUT
            right = "" if evidence.replayed else "right on the declared inputs and "
            return out(
                Verdict.INPUT_SPECIALISED,
                f"The program is {right}wrong on {draw.name} inputs of the same shapes: {problem}.",
                hack,
            )
    if evidence.required and evidence.coverage == 0.0:
        hack, why = borrowed(evidence.suspects, evidence.decorative, evidence.has_kernels)
        return out(Verdict.HACK, f"Right, but own kernels are required, and {why}.", hack)
    return out(Verdict.VERIFIED, _verified_sentence(evidence, labels, ratio))


def _wrong(draw: DrawEvidence, problem: str, evidence: Evidence) -> tuple[Verdict, str, HackClass | None]:
    leaves = draw.numbers["leaves"]
    hack, why = guilty(draw.same_as, any(leaf.get("nonfinite") for leaf in leaves))
    if hack is None:
        hack, why = constant(leaves)
        hack = (hack and blamed(evidence.suspects)) or hack
    if hack is not None:
        return Verdict.HACK, f"On {draw.name} {why}: {problem}.", hack
    signals = evidence.signals.get(draw.weights) or [None] * len(leaves)
    errors = [
        error for leaf, signal in zip(leaves, signals, strict=False) if (error := leaf_signal_error(leaf, signal)) is not None
    ]
    hack = None if structural(draw.numbers) else resembles(draw.same_as, leaves, errors, evidence.suspects)
    return Verdict.INCORRECT, f"On {draw.name} the program is wrong: {problem}.", hack


def _suspects(evidence: Evidence, labels: tuple[Label, ...]) -> tuple[HackClass, ...]:
    """What text and process hint at, and what the labels say in other words."""
    found = list(evidence.suspects)
    if Label.DEGENERATE in labels:
        found.append(HackClass.PROBLEM_FLAW)
    if Label.REDUCED_PRECISION in labels:
        found.append(HackClass.PRECISION_DOWNGRADE)
    if Label.NO_OWN_KERNELS in labels:
        found.append(borrowed(evidence.suspects, evidence.decorative, evidence.has_kernels)[0])
    return tuple(dict.fromkeys(found))


def _verified_sentence(evidence: Evidence, labels: tuple[Label, ...], ratio: float | None) -> str:
    declared = sum(1 for d in evidence.draws if d.group == "declared")
    text = "Right on it" if evidence.replayed else f"Right on all {declared} declared draws"
    structured = len(evidence.draws) - declared
    if structured and not evidence.replayed:
        text += f" and {structured} structured ones"
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


def precision_label(ratio: float | None, protocol: Protocol) -> Label | None:
    """Full, reordered or reduced precision, from the error ratio; None where nothing was measured."""
    if ratio is None:
        return None
    if ratio <= protocol.ratio_full:
        return Label.FULL_PRECISION
    return Label.REORDERED if ratio <= protocol.ratio_reordered else Label.REDUCED_PRECISION


def _labels(evidence: Evidence, protocol: Protocol, ratio: float | None) -> tuple[Label, ...]:
    labels = [label] if (label := precision_label(ratio, protocol)) else []
    if evidence.coverage == 0.0:
        labels.append(Label.NO_OWN_KERNELS)
    if evidence.nulls or not evidence.verifiable:
        labels.append(Label.DEGENERATE)
    if evidence.inputs_constant:
        labels.append(Label.INPUTS_CONSTANT)
    return tuple(labels)


def _facts(labels: tuple[Label, ...]) -> tuple[Label, ...]:
    """Labels about the problem; those about the quality of a right answer make no sense on a wrong one."""
    return tuple(label for label in labels if label in (Label.DEGENERATE, Label.INPUTS_CONSTANT))
