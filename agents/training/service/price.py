"""From an item to its reward: read the answer, measure, ask the judge where the form needs it, compute."""

from __future__ import annotations

from collections import Counter

from agents.engineers import UnusableAnswer
from agents.engineers.llm.files import checked, read_files
from agents.judges import Case, Judgement
from agents.judges.model import BrokenJudge
from agents.reward import Inputs, NotRated, reward
from agents.reward.form import hacked
from agents.training.service.contracts import NO_PROGRAM, Item, Priced, Terms
from agents.training.service.measure import KEPT, BadReference, Measured, Measurer, NotMeasured
from agents.training.service.raters import Rater, levels_of
from gpu_runner.contracts import CandidateFiles, Verdict, digest


class Pricer:
    """Prices items, from any number of threads. `counts`: outcomes so far, errors among them."""

    def __init__(self, terms: Terms, measurer: Measurer, rater: Rater | None = None) -> None:
        self.terms, self.measurer, self.rater = terms, measurer, rater
        self.by = terms.parameters
        self.counts: Counter[str] = Counter()
        self._rated: dict[str, Judgement] = {}

    def price(self, item: Item) -> Priced:
        """Never raises for what an item holds: what a candidate does wrong is its outcome, what the machine does an error."""
        found = self._price(item)
        self.counts["error" if found.reward is None else found.outcome] += 1
        return found

    def _price(self, item: Item) -> Priced:
        try:
            files = files_of(item)
        except UnusableAnswer as error:
            inputs = Inputs(skill=item.skill)
            return Priced(reward=reward(inputs, self.by), outcome=NO_PROGRAM, sentence=str(error), inputs=inputs)
        try:
            measured, known = self.measurer.measure(item, files)
            inputs = self._inputs(item, files, measured)
            value = reward(inputs, self.by)
        except (NotMeasured, BrokenJudge) as error:
            why = str(error) or "It could not be measured, and nothing says why."
            return Priced(error=why, bad_reference=isinstance(error, BadReference), sha256=files.sha256)
        except (NotRated, ValueError) as error:
            return Priced(error=f"There is no reward for it: {error}", sha256=files.sha256)
        return Priced(
            reward=value, outcome=measured.word, sentence=measured.sentence, inputs=inputs, sha256=files.sha256, known=known,
            seconds=measured.seconds,
        )  # fmt: skip

    def _inputs(self, item: Item, files: CandidateFiles, measured: Measured) -> Inputs:
        inputs = Inputs.model_validate({
            "skill": item.skill, "verified": measured.verdict == Verdict.VERIFIED, "outputs_agree": measured.outputs_agree,
            "hack_found": measured.verdict == Verdict.HACK, **measured.speed,
        })  # fmt: skip
        wrong = not (inputs.verified if self.by.strict else inputs.outputs_agree)
        if not self.terms.needs_levels or wrong or hacked(inputs, self.by) or self.rater is None:
            return inputs  # its reward is the same whatever a judge says, or there is none to ask
        levels, hack = levels_of(self._judgement(self.rater, item, files, measured))
        return inputs.model_copy(update={"levels": levels, "hack_level": hack})

    def _judgement(self, rater: Rater, item: Item, files: CandidateFiles, measured: Measured) -> Judgement:
        """Of one case once: a model that is asked again would say something else of the same candidate."""
        key = digest([item.reference, item.parent, files.files, item.skill, item.target, item.task, item.points])
        found = self._rated.get(key)
        if found is None:
            found = rater.rate(_case(item, files, measured))
            if len(self._rated) >= KEPT:
                self._rated.clear()
            self._rated[key] = found
        return found


def files_of(item: Item) -> CandidateFiles:
    """The candidate's files. UnusableAnswer with a sentence where there are none."""
    if item.answer is not None:
        return read_files(item.answer, item.parent)[0]
    return checked(dict(item.files or {}))


def _case(item: Item, files: CandidateFiles, measured: Measured) -> Case:
    numbers = measured.numbers | {
        "speedup": measured.speed.get("speedup"), "speedup_compile": measured.speed.get("speedup_compile"),
        "verified": float(measured.verdict == Verdict.VERIFIED), "hack_found": float(measured.verdict == Verdict.HACK),
    }  # fmt: skip
    return Case(
        reference=item.reference, files=files.files, parent=item.parent if item.skill == "feedback" else {}, skill=item.skill,
        target=item.target, task=item.task, points=item.points, facts=measured.facts, measured=numbers,
    )  # fmt: skip
