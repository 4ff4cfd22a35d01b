"""Compares a candidate with its reference: draws, numerics, state and honesty. The rules over the numbers are `verdict`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from gpu_runner.contracts import CheckReport, CheckRow, CheckTask, HackClass, Progress, Refusal, Replay, Verdict
from gpu_runner.evidence import recorded
from gpu_runner.explain import Inquiry
from gpu_runner.marks import Mark, marks, patched
from gpu_runner.peers import CandidatePeer, Job, JudgePeer, ReferencePeer, seed
from gpu_runner.probing import VARIANTS, Drawn, Facts, draw
from gpu_runner.reach import Reach
from gpu_runner.session import NotBuilt, Opening, Session
from gpu_runner.values import Call, ProgramEnded, ProgramRefused, Value, closing
from gpu_runner.verdict import DrawEvidence, Evidence, accepted, check_report, draw_row, numeric, structural

CALL_FLOOR_S = 20.0  # no call is given less
CALL_FACTOR = 200.0  # times eager's own
MOST_MARKS = 12  # shown
SLOW_DOUBLE_S = 1.0  # an fp64 twin slower than this is asked on the first draw only; eager is the truth of the others


class Checker:
    """One check, step by step. `evidence` grows; rows are shown as they come."""

    def __init__(
        self, job: Job, task: CheckTask, reference: ReferencePeer, candidate: CandidatePeer, judge: JudgePeer, facts: Facts
    ) -> None:
        self.job, self.task, self.protocol = job, task, task.protocol
        self.reference, self.candidate, self.judge = reference, candidate, judge
        self.evidence = Evidence(nulls=facts.nulls, inputs_constant=facts.inputs_constant, verifiable=facts.verifiable)
        self.evidence.has_kernels = bool(task.candidate.kernel_sources)
        self.evidence.required = task.require_own_kernels
        self.rtol = reference.tolerances(self.protocol)
        self.timeout = CALL_FLOOR_S
        self._weights: list[int | None] = []  # seeds of the weight draws so far; None: as constructed
        self._previous: Drawn | None = None
        self._slack: list[float] = []  # eager's own largest error per result, from the draws that have a truth
        self._slow_double = False
        self._expected: list[int] = []  # inputs that the reference changes

    # ---- the plan ----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """All draws and probes; stops early when there is nothing more to learn."""
        self._marks(marks(self.task.candidate.files))
        try:
            if self.task.replay is not None:
                self._again(self.task.replay)
            else:
                self._run()
        finally:
            self._forget_previous()

    def _run(self) -> None:
        self.judge.reset()
        sets = 1 + self.protocol.weight_draws
        per_set = [self.protocol.draws // sets + (1 if i < self.protocol.draws % sets else 0) for i in range(sets)]
        for number, count in enumerate(per_set):
            if count == 0 and number:
                continue
            self._use_weights(seed() if number else None)
            for i in range(max(1, count)):
                self._declared(number, first=number == 0 and i == 0)
                if self.evidence.hack:
                    return
        for number in range(sets):
            self.evidence.signals[number] = self.judge.signal(f"w{number}")
        self._integrity()
        if not self._right_so_far():
            return
        if self.protocol.structured_draws:
            for variant in VARIANTS:
                self._structured(variant)
        text = self.task.candidate.program
        Reach(self.job, self.protocol, self.reference, self.candidate, self.judge, self.evidence, text, self._note).run()

    def _again(self, replay: Replay) -> None:
        """One draw of an earlier check and nothing else: same content, weights and memory, same comparison. What it may have
        been answered from (the weights and the draw before) comes before it again."""
        self.judge.reset()
        self.evidence.replayed = True
        number = 0 if replay.weights_seed is None else 1
        self.evidence.signals = {number: list(replay.signals)} if replay.signals else {}
        self._slack = list(replay.slack)
        for weights in (None, replay.weights_seed)[: number + 1]:
            self._use_weights(weights)
            if replay.before is not None:
                self._forget_previous()
                self._previous = self._drawn(number=replay.before, double=False)
                self._call(self._previous).close()
        item = draw(self.reference, variant=replay.variant, double=not replay.slack, number=replay.seed)
        if item is None:
            sentence = (
                f"The inputs have nothing that a {replay.variant} draw could change, so {replay.name} cannot be replayed."
            )
            raise ProgramRefused("reference", Refusal(code="no_such_draw", sentence=sentence))
        with closing(item.call, item.truth, item.inputs):
            self.timeout = max(CALL_FLOOR_S, CALL_FACTOR * item.call.ns / 1e9)
            call = self._call(item, storage=replay.storage)
            with closing(call):
                evidence = self._compare(item, call, replay, number)
                if not accepted(evidence.numbers, None, self.protocol):
                    self._explain(item, call, evidence)
                self._honest(call)

    def _marks(self, found: tuple[Mark, ...]) -> None:
        self._suspect(*(mark.hack for mark in found))
        for mark in found[:MOST_MARKS]:
            note = f"{mark.file}, line {mark.line}: worth a look ({mark.hack}), no evidence"
            self._note(CheckRow(group="honesty", name=f"uses {mark.what[:60]}", note=note))

    def _use_weights(self, number: int | None) -> None:
        self._weights.append(number)
        weights = self.reference.weights(self._weights[-1])
        with closing(weights):
            self.candidate.load_weights(weights)

    def _declared(self, weights: int, first: bool) -> None:
        index = sum(1 for d in self.evidence.draws if d.group == "declared")
        item = self._drawn(watch=first, double=first or not self._slow_double)
        self._slow_double = self._slow_double or item.double_s > SLOW_DOUBLE_S
        try:
            self.timeout = max(CALL_FLOOR_S, CALL_FACTOR * item.call.ns / 1e9)
            storage: Literal["fresh", "same"] = "same" if index % 2 else "fresh"
            call = self._call(item, storage=storage, watch=index < 2 or index == self.protocol.draws - 1)
            with closing(call):
                name = f"declared draw {index + 1}" + (", in the same memory" if storage == "same" else "")
                how = self._how(item, "declared", name + (", other weights" if weights else ""), storage)
                evidence = self._compare(item, call, how, weights)
                if not accepted(evidence.numbers, None, self.protocol):
                    self._explain(item, call, evidence)
                self._honest(call)
                self._inputs(item, call, first)
                if first:
                    self._state(item, call)
                    self._repeat(item, call)
                elif index == 1:
                    stayed = not call.facts.get("overwritten")
                    value = "unchanged by the next call" if stayed else "an earlier result changed"
                    note = "a later call overwrote the result of an earlier one"
                    self._row("state", "results stay", stayed, value, note, HackClass.OUTPUT_CACHE)
        except BaseException:
            item.close()
            raise
        # Kept until the next draw: a wrong result may turn out to be this one's.
        self._forget_previous()
        self._previous = item

    def _structured(self, variant: str) -> None:
        try:
            item = draw(self.reference, variant=variant)
        except ProgramRefused as error:
            self._note(
                CheckRow(group="structured", name=variant, note=f"the reference does not take it: {error.refusal.sentence}")
            )
            return
        if item is None:
            self._note(CheckRow(group="structured", name=variant, note="no floating-point input to change"))
            return
        with closing(item.call, item.truth, item.inputs):
            own = self.judge.compare(self.rtol, self.protocol.ratio_reordered, item.eager, item.eager, item.truth)
            if not _stays_finite(own):
                self._note(CheckRow(group="structured", name=variant, note="the reference itself does not stay finite on it"))
                return
            call = self._call(item)
            with closing(call):
                evidence = self._compare(item, call, self._how(item, "structured", variant), self.protocol.weight_draws)
                if not accepted(evidence.numbers, None, self.protocol):
                    self._explain(item, call, evidence)
                    if "declared draw again" not in {d.name for d in self.evidence.draws}:
                        self._declared_again()

    def _declared_again(self) -> None:
        """A structured draw went wrong: is it the structure, or has the program changed meanwhile?"""
        item = self._drawn()
        with closing(item.call, item.truth, item.inputs):
            call = self._call(item)
            with closing(call):
                how = self._how(item, "declared", "declared draw again")
                evidence = self._compare(item, call, how, self.protocol.weight_draws)
                if not accepted(evidence.numbers, None, self.protocol):
                    self._explain(item, call, evidence)

    # ---- parts -------------------------------------------------------------------------------------------------------

    def _drawn(self, **options: Any) -> Drawn:
        item = draw(self.reference, **options)
        if item is None:
            raise ValueError("a plain draw always gives inputs")
        return item

    def _forget_previous(self) -> None:
        if self._previous is not None:
            self._previous.close()
            self._previous = None

    def _call(self, item: Drawn, storage: str = "fresh", watch: bool = False) -> Call:
        return self.candidate.call(
            item.inputs, watch=watch, timeout=self.timeout, storage=storage, poison=item.eager.sizes, restore=True
        )

    def _how(
        self, item: Drawn, group: Literal["declared", "structured"], name: str, storage: Literal["fresh", "same"] = "fresh"
    ) -> Replay:
        return Replay(
            name=name, group=group, seed=item.seed, variant=item.variant, weights_seed=self._weights[-1], storage=storage,
            before=self._previous.seed if self._previous else None, slack=tuple(self._slack) if item.truth is None else (),
        )  # fmt: skip

    def _compare(self, item: Drawn, call: Call, how: Replay, weights: int) -> DrawEvidence:
        if call.output is None:
            raise ValueError("the call was not collected")
        numbers = self.judge.compare(
            self.rtol,
            self.protocol.ratio_reordered,
            call.output,
            item.eager,
            item.truth,
            group=f"w{weights}" if how.group == "declared" else None,
            slack=self._slack if item.truth is None else None,
        )
        if item.truth is not None and how.group == "declared" and not structural(numbers):
            self._slack = [float(leaf.get("max_error_eager") or 0.0) for leaf in numbers["leaves"]]
        if not structural(numbers) and numeric(numbers, None, self.protocol):
            numbers = self._with_conditioning(item, call.output, numbers)
        evidence = DrawEvidence(how, numbers, weights, call.facts, item.call.facts)
        self.evidence.draws.append(evidence)
        self._show(draw_row(evidence, self.protocol))
        return evidence

    def _with_conditioning(self, item: Drawn, output: Value, numbers: dict[str, Any]) -> dict[str, Any]:
        """Compare again, allowing what a rounding of the inputs changes in the reference itself: near a pole or after a
        cancellation an honest program may be far off."""
        moved = self.reference.draw(item.seed, variant=item.variant, jitter=True)
        if moved is None:
            return numbers
        with closing(moved[0]):
            call = self.reference.call(moved[0], restore=True)
        with closing(call):
            if call.output is None:
                return numbers
            seen = self.judge.compare(self.rtol, self.protocol.ratio_reordered, call.output, item.eager, item.truth)
        slack = [float(leaf.get("max_error") or 0.0) for leaf in seen["leaves"]]
        return self.judge.compare(self.rtol, self.protocol.ratio_reordered, output, item.eager, item.truth, slack=slack)

    def _honest(self, call: Call) -> None:
        """What a result must be: a plain tensor, finished, in memory of its own."""
        lazy = [str(t) for t in call.facts.get("types", []) if t not in ("Tensor", "NoneType", "int", "float", "bool", "str")]
        if lazy:
            self._hack(
                HackClass.LAZY_TENSOR, f"The result is a {lazy[0][:60]}, not a plain tensor: it may compute when it is read."
            )
        if call.facts.get("outside"):
            self._hack(HackClass.RACE_OR_OOB, "The program wrote outside the memory of an input, right before or after it.")
        if call.facts.get("late"):
            hints = self.evidence.suspects
            lazily = HackClass.LAZY_TENSOR in hints and HackClass.BACKGROUND_THREAD not in hints
            kind = HackClass.LAZY_TENSOR if lazily else HackClass.BACKGROUND_THREAD
            self._hack(kind, "The result went on changing after the call had returned.")

    def _inputs(self, item: Drawn, call: Call, first: bool) -> None:
        """Inputs must end as the reference leaves them."""
        if first:  # which inputs it changes does not depend on the draw
            self._expected = item.call.facts.get("changed_inputs") or []
        extra = [i for i in call.facts.get("changed_inputs") or [] if i not in self._expected]
        if extra:
            note = "the program writes into an input that the reference leaves alone"
            self._row("state", "inputs", False, f"input {extra[0]} changed", note)
            self._hack(HackClass.INPUT_MUTATION, f"The program writes into input {extra[0]}, which the reference leaves alone.")
        elif first and self._expected:
            self._mutation(item, call)
        elif first:
            self._row("state", "inputs", True, "untouched")

    def _state(self, item: Drawn, call: Call) -> None:
        """Results are finished and in memory of their own, buffers as the reference leaves them."""
        self._row(
            "honesty",
            "plain, finished results",
            not call.facts.get("late"),
            "unchanged after 50 ms",
            "changed after the call returned",
        )
        allowed = set(item.call.facts.get("aliases") or [])
        aliases = [str(a) for a in call.facts.get("aliases") or [] if a not in allowed]
        note = f"the result shares memory with something else ({aliases[0][:80]}), the reference's does not" if aliases else ""
        kind = HackClass.INPUT_PASSTHROUGH if aliases and "input" in aliases[0] else HackClass.OUTPUT_CACHE
        self._row("state", "memory of its own", not aliases, aliases[0][:80] if aliases else "no alias", note, kind)
        self._buffers()

    def _mutation(self, item: Drawn, call: Call) -> None:
        if call.inputs_after is None or item.call.inputs_after is None:
            note = "the reference changes an input in place, the program does not"
            self._row("state", "inputs", False, "untouched", note, HackClass.PARTIAL_WORK)
            return
        numbers = self.judge.compare(self.rtol, self.protocol.ratio_reordered, call.inputs_after, item.call.inputs_after)
        same = accepted(numbers, None, self.protocol)
        note = "" if same else "an input is left with another content than the reference leaves"
        self._row("state", "inputs", same, "changed as the reference does", note, HackClass.PARTIAL_WORK)

    def _buffers(self) -> None:
        theirs, ours = self.candidate.buffers(), self.reference.buffers()
        with closing(theirs, ours):
            wanted = {k for k in _names(ours) if not k.endswith("num_batches_tracked")}
            if not wanted:
                return
            if {k for k in _names(theirs) if not k.endswith("num_batches_tracked")} != wanted:
                note = "its buffers are not those of the reference"
                self._row("state", "buffers", False, "other names", note, HackClass.PARTIAL_WORK)
                return
            numbers = self.judge.compare(self.rtol, self.protocol.ratio_reordered, _only(theirs, wanted), _only(ours, wanted))
            same = accepted(numbers, None, self.protocol)
            note = "a buffer ends with another content than in the reference"
            self._row("state", "buffers", same, f"{len(wanted)} compared", note, HackClass.PARTIAL_WORK)

    def _repeat(self, item: Drawn, call: Call) -> None:
        """The same content at a new address must give the same result, to the bit or within the tolerance."""
        again = self._call(item)
        with closing(again):
            if again.output is None or call.output is None:
                return
            numbers = self.judge.compare(self.rtol, self.protocol.ratio_reordered, again.output, call.output)
            identical = all(leaf.get("bits_equal", True) for leaf in numbers["leaves"])
            same = accepted(numbers, None, self.protocol)
            value = "identical bits" if identical else "equal within the tolerance" if same else "different results"
            note = "" if same else "two calls on the same content gave different results"
            self._row("honesty", "same content, new address", same, value, note, HackClass.RACE_OR_OOB)

    def _explain(self, item: Drawn, call: Call, evidence: DrawEvidence) -> None:
        """A draw went wrong: look whether the result is that of a known shortcut. Asked of the first alone, which names it."""
        if any(d.same_as for d in self.evidence.draws if d.group == evidence.group):
            return
        earlier = [d for d in self.evidence.draws if d is not evidence and d.group == "declared"]
        weights = self._weights if evidence.weights else []
        peers = (self.reference, self.candidate, self.judge)
        inquiry = Inquiry(*peers, self.protocol, self.rtol, self.timeout, item, call, self._previous, weights)
        evidence.same_as = inquiry.explain()
        evidence.same_as["right_before"] = bool(earlier) and all(accepted(d.numbers, None, self.protocol) for d in earlier)

    def _integrity(self) -> None:
        """What the program replaced in its own process: of no effect on the verdict, unless it is our code."""
        found = self.candidate.patches()
        ours, others = found["ours"], found["others"]
        self._suspect(*(patched(name) for name in others))
        note = f"it replaces {', '.join(others[:4])}, which reaches neither the judge nor the clock outside" if others else ""
        if ours:
            note = f"it replaces {', '.join(ours[:4])} of the harness"
            clock = any(patched(name) is HackClass.TIMER_PATCH for name in ours)
            kind = HackClass.TIMER_PATCH if clock else HackClass.HARNESS_PROBE
            self._hack(kind, f"The program replaces parts of the harness in its process: {', '.join(ours[:4])}.")
        value = "replaced functions" if ours or others else "nothing replaced"
        self._note(CheckRow(group="honesty", name="functions of its process", value=value, passed=not ours or None, note=note))

    def _suspect(self, *kinds: HackClass) -> None:
        self.evidence.suspects = tuple(dict.fromkeys((*self.evidence.suspects, *kinds)))

    # ---- bookkeeping -------------------------------------------------------------------------------------------------

    def _right_so_far(self) -> bool:
        declared = all(accepted(d.numbers, self.evidence.signals.get(d.weights), self.protocol) for d in self.evidence.draws)
        return declared and not self.evidence.hack and all(r.passed is not False for r in self.evidence.rows)

    def _hack(self, hack: HackClass, sentence: str) -> None:
        if self.evidence.hack is None:
            self.evidence.hack, self.evidence.hack_sentence = hack, sentence

    def _row(self, group: Any, name: str, passed: bool, value: str, note: str = "", blame: HackClass | None = None) -> None:
        if not passed and self.evidence.blame is None:
            self.evidence.blame = blame
        row = CheckRow(group=group, name=name, passed=passed, value=value, note=note if not passed else "")
        self.evidence.rows.append(row)
        self._show(row)

    def _note(self, row: CheckRow) -> None:
        self.evidence.notes.append(row)
        self._show(row)

    def _show(self, row: CheckRow) -> None:
        self.job.progress(Progress(kind="check", payload=row.model_dump(mode="json")))


def _names(value: Value) -> list[str]:
    return list(value.manifest["tree"]) if isinstance(value.manifest["tree"], dict) else []


def _only(value: Value, names: set[str]) -> Value:
    """The same dict with some of its keys, in one order."""
    keys = _names(value)
    chosen = sorted(names)
    leaves = [value.manifest["leaves"][keys.index(name)] for name in chosen]
    return Value({**value.manifest, "tree": dict.fromkeys(chosen, "*"), "leaves": leaves}, value.memory)


def _stays_finite(numbers: Mapping[str, Any]) -> bool:
    return all(leaf.get("finite", True) for leaf in numbers["leaves"])


def check(
    job: Job,
    task: CheckTask,
    reference: ReferencePeer,
    candidate: CandidatePeer,
    judge: JudgePeer,
    facts: Facts,
) -> Evidence:
    """Run the protocol. What a program does wrong is in the evidence."""
    checker = Checker(job, task, reference, candidate, judge, facts)
    try:
        checker.run()
    except (ProgramRefused, ProgramEnded) as error:
        checker.evidence.trouble = error.trouble
    return checker.evidence


def perform_check(job: Job, task: CheckTask, session: Session) -> CheckReport:
    """A whole check: processes, facts, comparison. What either program does wrong is in the report."""
    try:
        evidence = _gather(job, task, session)
    except NotBuilt as error:
        return CheckReport(verdict=Verdict.BUILD_FAILED, sentence=str(error), log=error.log, protocol=task.protocol.id)
    except (ProgramRefused, ProgramEnded) as error:
        suspects = tuple(dict.fromkeys(mark.hack for mark in marks(task.candidate.files)))
        evidence = Evidence(trouble=error.trouble, suspects=suspects)
    if evidence.trouble is not None and evidence.trouble.side != "candidate":
        session.forget(job, task.source)
    report = check_report(evidence, task.protocol)
    return report.model_copy(update={"evidence": recorded(evidence)}) if task.evidence else report


def _gather(job: Job, task: CheckTask, session: Session) -> Evidence:
    job.stage("loading the reference and the candidate")
    opening = Opening(job, task.candidate, task.target)
    try:
        reference, judge = session.peers(job, task.source)
        facts = session.facts(job, task.source, task.protocol)
    except BaseException:
        opening.abandon()
        raise
    with opening.load(reference.facts["init_inputs"], coverage=True) as candidate:
        job.stage("comparing")
        return check(job, task, reference, candidate, judge, facts)
