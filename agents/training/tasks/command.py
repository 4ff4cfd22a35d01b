"""The command `tasks`."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agents.training.prompts import coder_messages
from agents.training.record import device
from agents.training.service.process import local_hands
from agents.training.tasks.compose import VERSION, Proposal, propose
from agents.training.tasks.filters import Found, Likeness, held_out, measured
from gpu_runner.contracts import digest
from gpu_runner.device import resolve_target
from gpu_runner.hands import Cancelled, Hands, HandsError

BAD_INPUT, BROKEN, INTERRUPTED = 2, 4, 130
ROOT = Path(__file__).resolve().parents[3]
HELD_OUT = (ROOT / "examples", ROOT / "bench" / "suite")  # where they lie beside us
HARNESS = "quick/4"
MOST_TRIES = 40  # proposals per task that is wanted, before it is given up
MOST_BROKEN = 3  # times in a row that the machine may fail


@dataclass
class Made:
    """What a run of the generator came to. `rejected`: causes with how often."""

    proposed: int = 0
    kept: int = 0
    rejected: Counter[str] = field(default_factory=Counter)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--count", type=int, required=True, help="tasks that are wanted")
    parser.add_argument("--out", type=Path, required=True, help="a new folder")
    parser.add_argument("--seed", type=int, default=1, help="(default 1)")
    parser.add_argument("--target", default="cpu", help="cpu, cuda or an architecture: where a call takes 1 to 100 ms")
    parser.add_argument("--least-ms", type=float, default=1.0, help="(default 1)")
    parser.add_argument("--most-ms", type=float, default=100.0, help="(default 100)")
    parser.add_argument(
        "--held-out", type=Path, action="append", default=[], metavar="PLACE",
        help="programs or exported rows that nothing may be near to; our examples and benchmark programs always are",
    )  # fmt: skip


def run(given: argparse.Namespace, make: Callable[[], Hands] = local_hands) -> int:
    """Compose new references and keep those that are tasks. Exit status: 0 done, 2 bad input, 3 too few, 4 otherwise."""
    try:
        if given.out.exists() and any(given.out.iterdir()):
            raise ValueError(f"The folder {given.out} is not empty; name a new one.")
        near = Likeness()
        for name, text in held_out([*(place for place in HELD_OUT if place.is_dir()), *given.held_out]).items():
            near.add(name, text)
        target = resolve_target(given.target)
        (given.out / "programs").mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        print(f"{error}", file=sys.stderr)
        return BAD_INPUT
    except HandsError as error:
        print(error, file=sys.stderr)
        return BROKEN
    made = Made()
    before = signal.signal(signal.SIGTERM, _interrupt)
    hands = make()
    try:
        with (given.out / "grpo_skill1.jsonl").open("w", encoding="utf-8") as rows:
            for proposal, found in tasks(given, hands, target, near, made):
                text = proposal.text
                (given.out / "programs" / f"{proposal.name}.py").write_text(text, encoding="utf-8")
                rows.write(json.dumps(row_of(proposal, found, target), ensure_ascii=False) + "\n")
                rows.flush()
    except HandsError as error:
        print(f"{error} The machine failed {MOST_BROKEN} times in a row, so this stops.", file=sys.stderr)
        return BROKEN
    except (Cancelled, KeyboardInterrupt):
        print(f"Interrupted; {made.kept} tasks are in {given.out}.", file=sys.stderr)
        return INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, before)
        close = getattr(hands, "close", None)
        if close is not None:
            close()
        (given.out / "report.json").write_text(json.dumps(report(given, target, near, made), indent=1) + "\n", encoding="utf-8")
    causes = ", ".join(f"{count} {cause}" for cause, count in made.rejected.most_common())
    print(f"{made.kept} tasks of {made.proposed} proposals in {given.out}; rejected: {causes or 'none'}.", file=sys.stderr)
    return 0 if made.kept >= given.count else 3


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def tasks(given: argparse.Namespace, hands: Hands, target: str, near: Likeness, made: Made) -> Iterator[tuple[Proposal, Found]]:
    """The proposals that are tasks, with their times; counts in `made`. HandsError where the machine fails repeatedly."""
    broken = 0
    while made.kept < given.count and made.proposed < MOST_TRIES * given.count:
        proposal = propose(given.seed, made.proposed)
        made.proposed += 1
        found = near.near(proposal.text)
        if not found.cause:
            try:
                found = measured(hands, proposal.text, target, given.least_ms, given.most_ms)
                broken = 0
            except HandsError:
                broken += 1
                made.rejected["the machine failed"] += 1
                if broken >= MOST_BROKEN:
                    raise
                continue
        if found.cause:
            made.rejected[found.cause] += 1
            _say(proposal, f"{found.cause}. {found.detail}")
            continue
        made.kept += 1
        near.add(proposal.name, proposal.text, own=True)
        _say(proposal, f"task {made.kept} of {given.count}: {found.eager_ms:.3g} ms, compiled {found.compile_ms:.3g} ms")
        yield proposal, found


def row_of(proposal: Proposal, found: Found, target: str) -> dict[str, Any]:
    """The task as a row of `grpo_skill1`."""
    return {
        "prompt": coder_messages(proposal.text, target), "task_id": f"composed/{proposal.name}/{target}", "skill": "skill1",
        "reference_code": proposal.text, "harness_id": HARNESS, "gpu_target": target,
        "baseline_us": found.eager_ms * 1000 if found.eager_ms else None, "rubric_ref": "",
        "ref_sha256": digest(proposal.text.encode()), "operators": list(proposal.operators),
    }  # fmt: skip


def report(given: argparse.Namespace, target: str, near: Likeness, made: Made) -> dict[str, Any]:
    """What was done, with what and on what."""
    return {
        "generator": VERSION, "seed": given.seed, "target": target, "device": device(), "wanted": given.count,
        "kept": made.kept, "proposed": made.proposed, "rejected": dict(made.rejected.most_common()),
        "held_out": len(near.grams) - len(near.own), "ms": [given.least_ms, given.most_ms],
    }  # fmt: skip


def _say(proposal: Proposal, text: str) -> None:
    print(f"{proposal.name} ({', '.join(proposal.operators)}): {text}", file=sys.stderr, flush=True)
