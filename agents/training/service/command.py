"""The command `serve`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from pydantic import ValidationError

from agents.llm.keys import NoKey, take_from_environment
from agents.model_choice import ModelChoice
from agents.reward import PRESETS
from agents.training.service.contracts import Terms
from agents.training.service.process import serve
from agents.training.service.raters import BadJudge, LocalRater, ModelRater, Rater, read_rubric
from gpu_runner.contracts import PROTOCOLS
from gpu_runner.hands import HandsError

BAD_INPUT, BROKEN = 2, 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--door", type=Path, required=True, help="the file to write address and token to")
    parser.add_argument("--unix", type=Path, metavar="PATH", help="listen on a Unix socket instead of a port of loopback")
    parser.add_argument("--preset", choices=sorted(PRESETS), default="paper", help="of the reward (default paper)")
    parser.add_argument("--change", default="{}", metavar="JSON", help='single parameters of it, such as {"tau": 0.5}')
    parser.add_argument("--protocol", choices=sorted(PROTOCOLS), default="quick", help="(default quick)")
    parser.add_argument("--with-compile", action="store_true", help="time torch.compile as well, for the third milestone")
    parser.add_argument("--check-seconds", type=float, default=120.0, help="for the check of one candidate (default 120)")
    parser.add_argument("--time-seconds", type=float, default=240.0, help="for its timing (default 240)")
    parser.add_argument("--parallel", type=int, default=2, help="candidates checked at once (default 2)")
    judge = parser.add_argument_group("the judge, where the reward rests on levels")
    judge.add_argument("--judge", type=Path, metavar="FILE", help="a local judge's weights")
    judge.add_argument("--judge-model", metavar="PROVIDER/NAME", help="a model, asked under --rubric")
    judge.add_argument("--judge-base", default="", metavar="URL", help="its server, up to /v1")
    judge.add_argument("--judge-key-env", default="", metavar="VAR", help="the variable that holds its key")
    judge.add_argument("--rubric", type=Path, help="the rubric as JSON or TOML")


def run(given: argparse.Namespace) -> int:
    """Serve until a signal. Exit status: 0 ended, 2 bad input, 4 otherwise."""
    try:
        terms = Terms(
            preset=given.preset, change=json.loads(given.change), protocol=given.protocol, with_compile=given.with_compile,
            check_s=given.check_seconds, time_s=given.time_seconds, parallel=given.parallel,
        )  # fmt: skip
        rater = _rater(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        print(f"{'.'.join(map(str, first['loc']))} {str(first['msg']).removeprefix('Value error, ')}.".strip(), file=sys.stderr)
        return BAD_INPUT
    except (ValueError, NoKey) as error:
        print(str(error), file=sys.stderr)
        return BAD_INPUT
    if terms.needs_levels and rater is None:
        print(
            f"The preset {terms.preset} rests on rubric levels, so it needs a judge: --judge FILE, or --judge-model with"
            " --rubric. Or take --preset milestone, which needs none.", file=sys.stderr,
        )  # fmt: skip
        return BAD_INPUT
    try:
        serve(given.door, terms, rater, given.unix)
    except (HandsError, OSError) as error:
        print(f"The reward service cannot run: {error}", file=sys.stderr)
        return BROKEN
    return 0


def _rater(given: argparse.Namespace) -> Rater | None:
    if given.judge and given.judge_model:
        raise BadJudge("Two judges are named; leave --judge or --judge-model out.")
    if given.judge:
        return LocalRater(given.judge)
    if not given.judge_model:
        return None
    if not given.rubric:
        raise BadJudge("A model judge needs --rubric FILE, the rubric that it scores under.")
    if given.judge_key_env:
        take_from_environment(given.judge_key_env)
    choice = ModelChoice(model=given.judge_model, api_base=given.judge_base, key=given.judge_key_env)
    return ModelRater(choice, read_rubric(given.rubric))
