"""Compares a candidate with its reference. The steps are `Checker`'s, the rules `outcome`'s."""

from __future__ import annotations

from gpu_runner import turns
from gpu_runner.checker import Checker
from gpu_runner.contracts import CheckReport, CheckTask, Verdict
from gpu_runner.evidence import recorded
from gpu_runner.job import Job
from gpu_runner.marks import marks
from gpu_runner.outcome import check_report
from gpu_runner.seen import Evidence
from gpu_runner.session import NotBuilt, Opening, Session
from gpu_runner.values import ProgramEnded, ProgramRefused


def perform_check(job: Job, task: CheckTask, session: Session) -> CheckReport:
    """A whole check: processes, facts, comparison. What either program does wrong is in the report."""
    try:
        evidence = _gather(job, task, session)
    except NotBuilt as error:
        return CheckReport(verdict=Verdict.BUILD_FAILED, sentence=str(error), log=error.log, protocol=task.protocol.id)
    except (ProgramRefused, ProgramEnded) as error:
        evidence = Evidence(mode=task.mode, trouble=error.trouble, marks=list(marks(task.candidate.files)))
    if evidence.trouble is not None and evidence.trouble.side != "candidate":
        session.forget(job, task.source)
    report = check_report(evidence, task.protocol)
    return report.model_copy(update={"evidence": recorded(evidence)}) if task.evidence else report


def _gather(job: Job, task: CheckTask, session: Session) -> Evidence:
    job.stage("loading the reference and the candidate")
    opening = Opening(job, task.candidate, task.target)
    try:
        reference, judge = session.peers(job, task.source)
        with turns.beside(job):
            facts = session.facts(job, task.source, task.protocol)
    except BaseException:
        opening.abandon()
        raise
    with opening.load(reference.facts["init_inputs"], coverage=True) as candidate:
        job.stage("comparing")
        checker = Checker(job, task, reference, candidate, judge, facts)
        try:
            with turns.beside(job):
                checker.run()
        except (ProgramRefused, ProgramEnded) as error:
            checker.evidence.trouble = error.trouble
    checker.sanitize()
    return checker.evidence
