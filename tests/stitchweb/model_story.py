"""One story for tests of the site: a scripted model that errs, repairs, is slow, reads its profile and gets faster; fake hands.

Only the model and the measurements are played. What lies between them is real: HTTP, LiteLLM, the loop, the pages.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from gpu_runner.contracts import BuildReport, ProfileReport, Verdict
from tests.agents.loop_world import FakeHands, check, timing
from tests.agents.model_answers import KERNEL, MODEL, edit, fenced
from tests.agents.model_server import Say

PLAN: dict[str, Any] = {
    "note": "Bound by memory.",
    "todos": [{"title": "One pass over the data", "kind": "fuse", "predicted": 2.0}],
}
WRONG = (
    "Another way.\n\n" + fenced(MODEL, "python model_new.py") + fenced(KERNEL.replace("= x[i]", "= -x[i]"), "cpp kernels/k.cpp")
)
OTHER = {"title": "Another way round", "kind": "layout", "predicted": 3.0}
BROKEN = KERNEL.replace("out[i] = x[i]; }", "out[i] = x[i] }")
PROSE = "I would fuse the two loops and then look again."
FIRST = "All in one loop.\n\n" + fenced(MODEL, "python model_new.py") + fenced(BROKEN, "cpp kernels/k.cpp")
MENDED = "A semicolon was missing.\n\n" + edit("kernels/k.cpp", "out[i] = x[i] }", "out[i] = x[i]; }")
EIGHT = edit("kernels/k.cpp", "{ for (long", "{\n#pragma omp simd\nfor (long")
FASTER = f"The profile says memory: eight at a time.\n\n{EIGHT}"
BOUND = "Bound by memory: 80 % of the roof."
ROUTES = ("retry", "optimise", "stop")
ERROR = "kernels/k.cpp:1:97: error: expected ';' before '}' token"
TOKENS = (400, 50)  # in and out, of each question; one more question than answers that can be used
QUESTIONS = 8


def scripted(pause_s: float = 0.0, wrong: bool = False) -> Callable[[dict[str, Any]], Say]:
    """The model: a plan, prose instead of code, a program that does not build, its repair, a faster one, then stop. `wrong`: of
    the items of its plan another comes first, and its program is wrong; that takes two questions more."""
    codes, routes = [WRONG] * wrong + [PROSE, FIRST, MENDED, FASTER], ["advance"] * wrong + list(ROUTES)
    plan = PLAN | {"todos": [OTHER] * wrong + PLAN["todos"]}

    def reply(body: dict[str, Any]) -> Say:
        system = body["messages"][0]["content"]
        if "You are the Planner" in system:
            text = json.dumps(plan)
        elif "You are the Coder" in system:
            text = codes.pop(0)
            if text == PROSE:
                return Say(text, usage=TOKENS, pause_s=8 * pause_s)
        else:
            text = json.dumps({"route": routes.pop(0), "bottleneck": "memory", "sentence": "As the numbers say."})
        return Say(text, usage=TOKENS, pause_s=pause_s)

    return reply


def hands(wrong: bool = False) -> FakeHands:
    """The measurements: one build that fails, one program that is slower than eager, one that is twice as fast. `wrong`: before
    them a program that builds and is wrong."""
    failed = BuildReport(ok=False, diagnostics=(ERROR,), log=f"{ERROR}\n")
    built = BuildReport(ok=True, artifact="a" * 64, log="built\n")
    verdict = {"class": "memory", "confidence": "high", "sentence": BOUND}
    profile = ProfileReport(role="candidate", status="measured", summary={"verdict": verdict}, coverage=0.9, finding=BOUND)
    builds = [built] * wrong + [failed, built]
    checks = [check(Verdict.INCORRECT, sentence="Draw 1 differs by 2.1.")] * wrong + [check()]
    return FakeHands(build=builds, check=checks, time=[timing(0.8), timing(2.0)], profile=profile)
