"""The commands `run` and `recipes`."""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
from importlib.util import find_spec
from pathlib import Path

from agents.training.driver import Given, RunFailed, run
from agents.training.recipe import BadRecipe, names, read

BAD_INPUT, BROKEN, INTERRUPTED = 2, 4, 130
NEEDED = ("torch", "transformers", "datasets", "trl")


def missing() -> str:
    """A sentence about what has to be installed before anything is trained; empty where all is here."""
    absent = [name for name in NEEDED if find_spec(name) is None]
    if not absent:
        return ""
    return (
        f"Training needs {', '.join(absent)}, which this environment has not: `make setup-train`, or"
        " `pip install -r requirements-train.txt`."
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--recipe", required=True, help=f"{', '.join(names())}; or a file of your own that ends in .toml")
    parser.add_argument("--data", type=Path, metavar="DIR", help="rows: DIR/CONFIG/train.jsonl for each config of the recipe")
    parser.add_argument("--out", type=Path, default=Path("out/training"), help="a new folder (default out/training)")
    parser.add_argument("--seed", type=int, default=1, help="(default 1)")
    parser.add_argument("--cpu", action="store_true", help="train on the CPU although there is a GPU")
    parser.add_argument("--smoke", action="store_true", help="the same stages in minutes, with a tiny random model")
    judge = parser.add_argument_group("the judge of a shaped reward")
    judge.add_argument("--judge", type=Path, metavar="FILE", help="a local judge's weights")
    judge.add_argument("--judge-model", metavar="PROVIDER/NAME", help="a model, asked under --rubric")
    judge.add_argument("--judge-base", metavar="URL", help="its server, up to /v1")
    judge.add_argument("--judge-key-env", metavar="VAR", help="the variable that holds its key")
    judge.add_argument("--rubric", type=Path, metavar="FILE", help="the rubric as JSON or TOML")


def judge_of(given: argparse.Namespace) -> tuple[str, ...]:
    """The judge's options as they are handed on to the service."""
    named = ("judge", "judge_model", "judge_base", "judge_key_env", "rubric")
    return tuple(
        part for name in named if (value := getattr(given, name)) for part in (f"--{name.replace('_', '-')}", str(value))
    )


def work(given: argparse.Namespace) -> int:
    """Train by a recipe. Exit status: 0 done, 2 bad input or something missing, 4 the run failed, 130 interrupted."""
    if absent := missing():
        print(absent, file=sys.stderr)
        return BAD_INPUT
    try:
        recipe = read(given.recipe)
    except BadRecipe as error:
        print(error, file=sys.stderr)
        return BAD_INPUT
    recipe = recipe.small() if given.smoke else recipe
    command = shlex.join(["python", "-m", "agents.training", *sys.argv[1:]])
    wanted = Given(recipe, given.out, given.data, judge_of(given), given.seed, given.cpu, command)
    return carried_out(wanted)


def carried_out(wanted: Given) -> int:
    """Run it, told on standard error; the exit status. Ctrl-C and SIGTERM end everything that was started."""
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        made = run(wanted)
    except RunFailed as error:
        wanted.say(str(error))
        return BROKEN
    except KeyboardInterrupt:
        wanted.say(f"Interrupted; everything that was started has ended. What was recorded is in {wanted.out}.")
        return INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, before)
    wanted.say(f"Done: the model is in {made}, the curve in {wanted.out / 'curve.jsonl'}.")
    return 0


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def recipes(given: argparse.Namespace) -> int:
    """What recipes there are, and what was run of them."""
    for name in names():
        recipe = read(name)
        stages = ", ".join(f"{stage.name} ({stage.kind})" for stage in recipe.stages)
        print(f"{name}: {recipe.title}\n    stages: {stages}\n    {recipe.run}")
    return 0
