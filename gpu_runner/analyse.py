"""What a reference is: run once in the sandbox, described, and refused with a sentence where no run is possible."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pydantic import ValidationError

from gpu_runner import degeneracy, turns
from gpu_runner.contracts import AnalyseTask, Analysis, Graph, Label, OpCount, Refusal, TensorSpec
from gpu_runner.job import Job
from gpu_runner.judging import JudgePeer
from gpu_runner.peers import ReferencePeer, seed
from gpu_runner.probing import Drawn, Facts, draw, probe, stochastic
from gpu_runner.profile.collect import LEAST
from gpu_runner.profile.rows import op_times, parse_rows
from gpu_runner.session import Session
from gpu_runner.stats import median
from gpu_runner.values import Forged, ProgramEnded, ProgramRefused, Value, closing

EAGER_CALLS = 5
MAX_OPS = 200

_NULL_WORDS = {
    "zeros": "all zeros",
    "constant": "one constant",
    "first-input": "its input, unchanged",
    "half-batch": "half of the batch, repeated",
    "other-input": "the result for other inputs",
    "other-weights": "the result for other weights",
}

_HIDDEN = "eager's own rounding hides what the inputs change"
_ALONE = "It has no network, no files beside itself and a bounded number of processes."
_WAYS_OUT = {
    "crash_init": f"Make the module constructible from get_init_inputs() alone. {_ALONE}",
    "crash_inputs": f"Make get_inputs() work by itself. {_ALONE}",
    "crash_forward": f"Make forward work on what get_inputs() returns. {_ALONE}",
    "crashed": f"Run the file by itself to see where its process ends. {_ALONE}",
    "unsupported_outputs": "Return plain tensors, or tuples, lists and dicts of them.",
}


def analyse(job: Job, task: AnalyseTask, session: Session) -> Analysis:
    """The whole analysis. What is wrong with the program is the refusal."""
    job.stage("running the program once")
    try:
        reference, judge = session.peers(job, task.source)
        report = _describe(job, task, session, reference, judge)
    except (ProgramRefused, ProgramEnded) as error:
        report = Analysis(refusal=error.refusal)
    if report.refusal is None:
        return report
    # No task follows on a refused program, so no process of it is kept.
    session.forget(job, task.source)
    way_out = report.refusal.way_out or _WAYS_OUT.get(report.refusal.code, "Run the file by itself to see what it does.")
    return report.model_copy(update={"refusal": report.refusal.model_copy(update={"way_out": way_out})})


def _capture(job: Job, task: AnalyseTask) -> dict[str, Any]:
    """The graph as plain data, or the reason why there is none. Never raises for what the program does."""
    try:
        with ReferencePeer.start(job, task.source) as peer:
            drawn = peer.draw(0)
            if drawn is None:
                raise ValueError("a plain draw always gives inputs")
            with closing(drawn[0]):
                answer: dict[str, Any] = peer.about("capture", drawn[0])
                return answer
    except (ProgramRefused, ProgramEnded) as error:
        return {"graph": None, "reason": error.refusal.sentence}


def _describe(job: Job, task: AnalyseTask, session: Session, reference: ReferencePeer, judge: JudgePeer) -> Analysis:
    with turns.beside(job):
        one = draw(reference, watch=True)
    if one is None:
        raise ValueError("a plain draw always gives inputs")
    # The graph is captured beside the rest, in a process of its own: the exporter leaves traces in the one that it runs in.
    with closing(one.call, one.truth, one.inputs), ThreadPoolExecutor(1, thread_name_prefix="stitchweb-capture") as executor:
        if refusal := _unusable(one):
            return Analysis(refusal=refusal, entry=str(reference.facts.get("entry", "")))
        with turns.beside(job):
            stable = reference.about("determinism", one.inputs)
        if not stable.get("close"):
            return Analysis(refusal=stochastic(reference), entry=str(reference.facts.get("entry", "")), deterministic=False,
                            labels=(Label.STOCHASTIC,))  # fmt: skip
        capture = executor.submit(_capture, job, task)
        job.stage("looking for trivial programs that would pass")
        with turns.beside(job):
            facts = probe(reference, judge, task.protocol, one)
            session.learn(job, task.source, task.protocol, facts)
            cause = _null_cause(reference, one, facts)
            counts = reference.about("counts", one.inputs)
            other_batch = reference.about("other_batch", one.inputs).get("other_batch")
        job.stage("capturing the graph")
        graph, reason = _graph(capture.result())
        job.stage("measuring eager")
        with turns.alone(job):
            session.learn_ceilings(job, task.target)
            eager_ns = median([reference.call(one.inputs).ns for _ in range(EAGER_CALLS)])
            profile = reference.about("profile", one.inputs, iterations=LEAST)
        ops = _ops(counts, profile)
        return Analysis(
            entry=str(reference.facts["entry"]),
            init_inputs=reference.facts.get("init_inputs"),
            inputs=_specs(one.inputs),
            input_literals=tuple(leaf.get("value") for leaf in one.inputs.manifest["leaves"]),
            outputs=_specs(one.eager),
            output_tree=one.eager.manifest["tree"],
            parameters=_count(reference.facts, "parameters"),
            parameter_bytes=_count(reference.facts, "parameter_bytes"),
            buffers=_count(reference.facts, "buffers"),
            ops=ops,
            flops=_count(counts, "flops"),
            bytes=_count(counts, "bytes"),
            eager_ms=eager_ns / 1e6,
            deterministic=stable.get("identical") is True,
            inputs_constant=facts.inputs_constant,
            mutates_inputs=facts.mutates_inputs,
            nulls=facts.nulls,
            null_cause=cause,
            other_batch=other_batch if isinstance(other_batch, bool) else None,
            graph=graph,
            graph_reason=reason,
            labels=_labels(facts),
            warnings=_warnings(cause, facts, graph, reason),
        )


def _unusable(one: Drawn) -> Refusal | None:
    leaves = one.eager.manifest["leaves"]
    if not any(leaf["kind"] == "tensor" for leaf in leaves):
        return Refusal(
            code="returns_nothing",
            sentence="forward returned no tensor, so there is nothing to compare.",
            way_out="Return the result of the computation.",
        )
    if all(leaf["nbytes"] == 0 for leaf in leaves if leaf["kind"] == "tensor"):
        return Refusal(
            code="returns_nothing",
            sentence="forward returned only empty tensors, so there is nothing to compare.",
            way_out="Use inputs that give a result with elements.",
        )
    strange = [
        str(t)[:60] for t in one.call.facts.get("types", []) if t not in ("Tensor", "NoneType", "int", "float", "bool", "str")
    ]
    if strange:
        return Refusal(
            code="unsupported_outputs",
            sentence=f"forward returned a {strange[0]}, which is not supported.",
            way_out="Return plain tensors, or tuples, lists and dicts of them.",
        )
    return None


def _graph(answer: dict[str, Any]) -> tuple[Graph | None, str]:
    data, reason = answer.get("graph"), str(answer.get("reason", ""))[:1000]
    if data is None:
        return None, reason or "the graph could not be captured"
    try:
        return Graph.model_validate(data), ""
    except ValidationError as error:
        return None, f"the captured graph does not fit the contract: {error.errors()[0]['msg']}"


def _specs(value: Value) -> tuple[TensorSpec | None, ...]:
    return tuple(
        TensorSpec(shape=tuple(leaf["shape"]), dtype=leaf["dtype"], stride=tuple(leaf["stride"]))
        if leaf["kind"] == "tensor"
        else None
        for leaf in value.manifest["leaves"]
    )


def _count(data: Any, key: str) -> int:
    value = data.get(key) if isinstance(data, dict) else None
    return value if isinstance(value, int) and value >= 0 else 0


def _ops(counts: Any, profile: Any) -> tuple[OpCount, ...]:
    known = counts.get("ops") if isinstance(counts, dict) else None
    if not isinstance(known, dict):
        return ()
    names = [str(name)[:120] for name in list(known)[:MAX_OPS]]
    times = op_times(parse_rows(profile.get("rows") if isinstance(profile, dict) else None), set(names))
    ops = [
        OpCount(op=name, count=_count(known[name], "count"), flops=_count(known[name], "flops"),
                bytes=_count(known[name], "bytes"), time_ns=times.get(name, 0))
        for name in names
    ]  # fmt: skip
    return tuple(sorted(ops, key=lambda op: (-op.time_ns, op.op)))


def _labels(facts: Facts) -> tuple[Label, ...]:
    labels = []
    if facts.degenerate:
        labels.append(Label.DEGENERATE)
    if facts.inputs_constant:
        labels.append(Label.INPUTS_CONSTANT)
    return tuple(labels)


def _null_cause(reference: ReferencePeer, one: Drawn, facts: Facts) -> str:
    """Which trivial program passes, and from which operation on it cannot be told from this one; empty where none does."""
    if not facts.degenerate:
        return ""
    null = next((name for name in degeneracy.TELLING if name in facts.nulls), "")
    said = f"a program that returns {_NULL_WORDS.get(null, null)} passes" if null else _HIDDEN
    seen = reference.about("trace", one.inputs, seed=seed())
    try:
        op = degeneracy.cause(null, seen["operations"])
    except (KeyError, TypeError) as error:
        raise Forged("reference", "The reference's process described its operations in a way that cannot be.") from error
    return f"{said} (because of {op})" if op else said


def _warnings(cause: str, facts: Facts, graph: Graph | None, reason: str) -> tuple[str, ...]:
    found = []
    if facts.degenerate:
        found.append(f"The program is degenerate: {cause}. No speed is claimed on it.")
    if facts.inputs_constant:
        found.append(
            "get_inputs() gives the same content each time, so a program that remembers its result cannot be told apart."
        )
    if facts.mutates_inputs:
        found.append("The program changes its inputs in place; an optimized program has to do the same.")
    if graph is None:
        found.append(f"The graph could not be captured: {reason}. The offline engineer has nothing to work on.")
    return tuple(found)
