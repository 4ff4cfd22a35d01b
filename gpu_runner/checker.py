"""One check, step by step: draws, numerics, state and honesty. It records; the rules are `outcome`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from gpu_runner.contracts import CheckRow, CheckTask, Progress, Refusal, Replay
from gpu_runner.contracts.candidate import MODEL_FILE
from gpu_runner.explain import Inquiry
from gpu_runner.findings import declared, proven
from gpu_runner.job import Job
from gpu_runner.judging import JudgePeer
from gpu_runner.marks import marks
from gpu_runner.outcome import right_so_far, rows_of
from gpu_runner.peers import CandidatePeer, ReferencePeer, seed
from gpu_runner.probing import VARIANTS, Drawn, Facts, compared, draw, seen_of
from gpu_runner.reach import Reach
from gpu_runner.sanitizers.findings import Sanitized
from gpu_runner.sanitizers.run import Sanitizers
from gpu_runner.seen import BuffersSeen, DrawEvidence, Evidence, InputsSeen, PatchesSeen, SkippedDraw
from gpu_runner.session import Opening
from gpu_runner.values import Call, ProgramRefused, Value, buffer_names, closing, only
from gpu_runner.verdict import accepted, numeric, structural

CALL_FLOOR_S = 20.0  # no call is given less
CALL_FACTOR = 200.0  # times eager's own
SLOW_DOUBLE_S = 1.0  # an fp64 twin slower than this is asked on the first draw only; eager is the truth of the others
AGAIN, AT_LAST = "declared draw again", "declared draw at last"


class Checker:
    """One check, step by step. `evidence` grows; the rows that it makes are shown as they come."""

    def __init__(
        self, job: Job, task: CheckTask, reference: ReferencePeer, candidate: CandidatePeer, judge: JudgePeer, facts: Facts
    ) -> None:
        self.job, self.task, self.protocol = job, task, task.protocol
        self.reference, self.candidate, self.judge = reference, candidate, judge
        self.evidence = Evidence(
            mode=task.mode, required=task.require_own_kernels, has_kernels=bool(task.candidate.kernel_sources),
            replayed=task.replay is not None, reference=facts.seen, marks=list(marks(task.candidate.files)),
        )  # fmt: skip
        self.rtol = reference.tolerances(self.protocol)
        self.timeout = CALL_FLOOR_S
        self._weights: list[int | None] = []  # seeds of the weight draws so far; None: as constructed
        self._previous: Drawn | None = None
        self._slack: list[float] = []  # eager's own largest error per result, from the draws that have a truth
        self._slow_double = False
        self._shown: dict[tuple[str, str, int | None], CheckRow] = {}

    # ---- the plan ----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """All draws and probes; stops early when there is nothing more to learn."""
        self.judge.reset()
        self._tell()
        try:
            if self.task.replay is not None:
                self._again(self.task.replay)
            else:
                self._run()
        finally:
            self._forget_previous()

    def _run(self) -> None:
        sets = 1 + self.protocol.weight_draws
        per_set = [self.protocol.draws // sets + (1 if i < self.protocol.draws % sets else 0) for i in range(sets)]
        for number, count in enumerate(per_set):
            if count == 0 and number:
                continue
            self._use_weights(seed() if number else None)
            for i in range(max(1, count)):
                self._declared(number, first=number == 0 and i == 0)
                if proven(self.evidence)[0]:
                    return
        for number in range(sets):
            self.evidence.signals[number] = self.judge.signal(f"w{number}")
        self.evidence.patches = PatchesSeen(**self.candidate.patches())
        self._tell()
        if not right_so_far(self.evidence, self.protocol):
            return
        if self.protocol.structured_draws:
            for variant in VARIANTS:
                self._structured(variant)
        if self.protocol.fresh_process:
            self._fresh()
        text = self.task.candidate.files.get(MODEL_FILE, "")
        reach = Reach(self.job, self.protocol, self.reference, self.candidate, self.judge, self.evidence, text, self._tell)
        # Once more after all of that, for what changes after some calls; other sizes may do to a program what they like.
        if reach.own_kernels():
            self._declared_again(AT_LAST)
            if self.protocol.structured_draws and right_so_far(self.evidence, self.protocol):
                reach.other_batches()

    def sanitize(self) -> None:
        """Native sources once more under tools that watch memory, where nothing else speaks against the program."""
        evidence = self.evidence
        if not self.protocol.sanitizers or evidence.trouble or evidence.replayed or not right_so_far(evidence, self.protocol):
            return
        tried = [batch for batch in evidence.batches or [] if batch.numbers is not None]
        right = [batch.size for batch in tried if batch.numbers and accepted(batch.numbers, None, self.protocol)]
        one = "one" if 1 in right else ""
        odd = "odd" if any(size > 1 and size % 2 for size in right) else one

        def told(found: Sanitized) -> None:
            evidence.sanitized.append(found)
            self._tell()

        Sanitizers(self.job, self.task, self.reference, odd, one or odd, told).run()

    def _again(self, replay: Replay) -> None:
        """One draw of an earlier check and nothing else: same content, weights and memory, same comparison. What it may have
        been answered from (the weights and the draw before) comes before it again."""
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
            sentence = f"The inputs have nothing that a {replay.variant} draw could change: {replay.name} cannot be replayed."
            raise ProgramRefused("reference", Refusal(code="no_such_draw", sentence=sentence))
        with closing(item.call, item.truth, item.inputs):
            self.timeout = max(CALL_FLOOR_S, CALL_FACTOR * item.call.ns / 1e9)
            with closing(call := self._call(item, storage=replay.storage)):
                self._compare(item, call, replay, number)

    def _use_weights(self, number: int | None) -> None:
        self._weights.append(number)
        weights = self.reference.weights(number)
        with closing(weights):
            self.candidate.load_weights(weights)

    def _declared(self, weights: int, first: bool) -> None:
        index = len(declared(self.evidence))
        number = self.protocol.seeds[index] if index < len(self.protocol.seeds) else None
        item = self._drawn(watch=first, double=first or not self._slow_double, number=number)
        self._slow_double = self._slow_double or item.double_s > SLOW_DOUBLE_S
        try:
            self.timeout = max(CALL_FLOOR_S, CALL_FACTOR * item.call.ns / 1e9)
            storage: Literal["fresh", "same"] = "same" if index % 2 else "fresh"
            call = self._call(item, storage=storage, watch=index < 2 or index == self.protocol.draws - 1)
            with closing(call):
                name = f"declared draw {index + 1}" + (", in the same memory" if storage == "same" else "")
                how = self._how(item, "declared", name + (", other weights" if weights else ""), storage)
                self._compare(item, call, how, weights)
                if first:
                    self._inputs(item, call)
                    self._buffers()
                    self._repeat(item, call)
                    self._tell()
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
            self.evidence.skipped.append(SkippedDraw(variant, refused=error.refusal.sentence))
            return self._tell()
        if item is None:
            self.evidence.skipped.append(SkippedDraw(variant))
            return self._tell()
        with closing(item.call, item.truth, item.inputs):
            own = self.judge.compare(self.rtol, self.protocol.ratio_reordered, item.eager, item.eager, item.truth)
            if count := _not_finite(own):
                self.evidence.skipped.append(SkippedDraw(variant, not_finite=count))
                return self._tell()
            with closing(call := self._call(item)):
                evidence = self._compare(item, call, self._how(item, "structured", variant), self.protocol.weight_draws)
            if not accepted(evidence.numbers, None, self.protocol) and AGAIN not in {d.name for d in self.evidence.draws}:
                self._declared_again(AGAIN)

    def _declared_again(self, name: str) -> None:
        """Where a structured draw went wrong: is it the structure, or has the program changed meanwhile?"""
        item = self._drawn()
        with closing(item.call, item.truth, item.inputs), closing(call := self._call(item)):
            self._compare(item, call, self._how(item, "declared", name), self.protocol.weight_draws)

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
        group = f"w{weights}" if how.group == "declared" else None
        slack = self._slack if item.truth is None else None
        pair = self.rtol, self.protocol.ratio_reordered, call.output, item.eager, item.truth
        numbers = compared(self.reference, self.judge, item.inputs, *pair, group=group, slack=slack)
        if item.truth is not None and how.group == "declared" and not structural(numbers):
            self._slack = [float(leaf.get("max_error_eager") or 0.0) for leaf in numbers["leaves"]]
        inexact = any(leaf.get("failures") for leaf in numbers["leaves"])
        if inexact and not structural(numbers) and numeric(numbers, None, self.protocol):
            numbers = self._with_conditioning(item, call.output, numbers)
        seen = seen_of("candidate", call), seen_of("reference", item.call)
        evidence = DrawEvidence(how, numbers, weights, *seen)
        self.evidence.draws.append(evidence)
        self._tell()
        if not accepted(numbers, None, self.protocol):
            self._explain(item, call, evidence)
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

    def _explain(self, item: Drawn, call: Call, evidence: DrawEvidence) -> None:
        """A draw went wrong: look whether the result is that of a known shortcut. Asked of the first alone, which names it."""
        if any(d.inquest for d in self.evidence.draws if d.group == evidence.group):
            return
        weights = self._weights if evidence.weights else []
        peers = (self.reference, self.candidate, self.judge)
        inquiry = Inquiry(*peers, self.protocol, self.rtol, self.timeout, item, call, self._previous, weights)
        evidence.inquest = inquiry.explain()

    def _inputs(self, item: Drawn, call: Call) -> None:
        """Where the reference changes inputs, the candidate must leave them alike."""
        if not self.evidence.draws[0].reference.changed_inputs:
            return
        ours, theirs = call.inputs_after, item.call.inputs_after
        numbers = None
        if ours is not None and theirs is not None:
            numbers = self.judge.compare(self.rtol, self.protocol.ratio_reordered, ours, theirs)
        self.evidence.inputs = InputsSeen(numbers)

    def _buffers(self) -> None:
        theirs, ours = self.candidate.buffers(), self.reference.buffers()
        with closing(theirs, ours):
            expected, found = buffer_names(ours), buffer_names(theirs)
            seen = self.evidence.buffers = BuffersSeen(sorted(expected), sorted(found))
            if expected and expected == found:
                pair = only(theirs, expected), only(ours, expected)
                seen.numbers = self.judge.compare(self.rtol, self.protocol.ratio_reordered, *pair)

    def _repeat(self, item: Drawn, call: Call) -> None:
        """The same content at a new address."""
        again = self._call(item)
        with closing(again):
            if again.output is not None and call.output is not None:
                ratio = self.protocol.ratio_reordered
                self.evidence.repeat = self.judge.compare(self.rtol, ratio, again.output, call.output, bits=True)

    def _fresh(self) -> None:
        """The same content in a second process of the candidate."""
        item = self._drawn(double=False)
        ratio = self.protocol.ratio_reordered
        opening = Opening(self.job, self.task.candidate, self.task.target)
        with closing(item.call, item.inputs), opening.load(self.reference.facts["init_inputs"]) as other:
            with closing(weights := self.reference.weights(self._weights[-1])):
                other.load_weights(weights)
            second = other.call(item.inputs, timeout=self.timeout, poison=item.eager.sizes, restore=True)
            first, eager = self._call(item), self.reference.call(item.inputs, restore=True)
            with closing(second, first, eager):
                if first.output is None or second.output is None or eager.output is None:
                    raise ValueError("a call was not collected")
                self.evidence.fresh = self.judge.compare(self.rtol, ratio, second.output, first.output, bits=True)
                self.evidence.eager_again = self.judge.compare(self.rtol, ratio, eager.output, item.eager, bits=True)
        self._tell()

    def _tell(self) -> None:
        """Show the rows that the evidence makes by now, where they are new or say something else than before."""
        for row in rows_of(self.evidence, self.protocol):
            key = (row.group, row.name, row.seed)
            if self._shown.get(key) != row:
                self._shown[key] = row
                self.job.progress(Progress(kind="check", payload=row.model_dump(mode="json")))


def _not_finite(numbers: Mapping[str, Any]) -> int:
    return sum(not leaf.get("finite", True) for leaf in numbers["leaves"])
