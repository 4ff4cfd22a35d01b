"""Recorded runs as a picture: the mean reward of each step, one thin line per seed, the mean of seeds in bold."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

WIDTH, HEIGHT = 720, 360
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 40, 48
PATIENCE = 10  # steps that the last ones are
SEEDS = ("#7aa6d8", "#d89b7a", "#86b88a", "#b48ac2", "#c2b45a")


class NoCurve(ValueError):
    """A file that holds no recorded run. The message is a sentence."""


def read(path: Path, stage: str = "") -> tuple[dict[str, Any], list[float]]:
    """(the run's first line, mean reward by step of the stage, of the first one with a reward unless it is named). NoCurve."""
    try:
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise NoCurve(f"The curve {path} cannot be read: {error}.") from None
    steps = [line for line in lines if line.get("kind") == "step" and isinstance(line.get("reward"), int | float)]
    wanted = stage or (steps[0]["stage"] if steps else "")
    rewards = [float(line["reward"]) for line in steps if line["stage"] == wanted]
    if not lines or lines[0].get("kind") != "run" or len(rewards) < 2:
        raise NoCurve(f"The file {path} holds no run with a reward for two steps or more.")
    return lines[0], rewards


def gain(rewards: Sequence[float], steps: int = PATIENCE) -> dict[str, float]:
    """First steps against last steps: their means, and the spread that the difference has to be larger than to mean anything:
    the larger of both standard deviations, never under 0.01."""
    steps = min(steps, len(rewards) // 2)
    first, last = rewards[:steps], rewards[-steps:]
    spread = max(stdev(first) if steps > 1 else 0.0, stdev(last) if steps > 1 else 0.0, 0.01)
    return {"first": fmean(first), "last": fmean(last), "spread": spread, "steps": float(steps)}


def picture(runs: Sequence[tuple[Mapping[str, Any], Sequence[float]]], title: str) -> str:
    """An SVG. All runs of one recipe; steps that not every run has are left out of the mean."""
    most = max(len(rewards) for _, rewards in runs)
    low = min(-1.0, min(min(rewards) for _, rewards in runs))
    high = max(max(rewards) for _, rewards in runs)
    high += 0.1 * (high - low or 1.0)

    def at(step: float, reward: float) -> str:
        x = LEFT + (WIDTH - LEFT - RIGHT) * (step - 1) / max(1, most - 1)
        y = HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (reward - low) / (high - low)
        return f"{x:.1f},{y:.1f}"

    def line(rewards: Sequence[float], style: str) -> str:
        points = " ".join(at(step, reward) for step, reward in enumerate(rewards, 1))
        return f'<polyline points="{points}" fill="none" {style}/>'

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-family="sans-serif"'
        f' font-size="12" fill="#333"><title>{escape(title)}</title><rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{LEFT}" y="20" font-size="14" font-weight="bold">{escape(title)}</text>',
    ]
    for reward in _ticks(low, high):
        x, y = at(1, reward).split(",")
        parts.append(f'<line x1="{x}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{float(y) + 4:.1f}" text-anchor="end">{reward:g}</text>')
    for step in sorted({1, *range(10, most + 1, 10 if most <= 100 else most // 10)}):
        x = at(step, low).split(",")[0]
        parts.append(f'<text x="{x}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{step}</text>')
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 10}" text-anchor="middle">step</text>')
    middle = (HEIGHT - BOTTOM + TOP) / 2
    turned = f'text-anchor="middle" transform="rotate(-90 14 {middle})"'
    parts.append(f'<text x="14" y="{middle}" {turned}>mean reward of a step</text>')
    for number, (head, rewards) in enumerate(runs):
        colour = SEEDS[number % len(SEEDS)]
        parts.append(line(rewards, f'stroke="{colour}" stroke-width="1"'))
        down = HEIGHT - BOTTOM - 12 - 16 * number
        parts.append(f'<text x="{WIDTH - RIGHT - 70}" y="{down}" fill="{colour}">seed {head["seed"]}</text>')
    if len(runs) > 1:
        shortest = min(len(rewards) for _, rewards in runs)
        mean = [fmean(rewards[step] for _, rewards in runs) for step in range(shortest)]
        parts.append(line(mean, 'stroke="#1b3a5c" stroke-width="2.5"'))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _ticks(low: float, high: float) -> list[float]:
    step = 0.5 if high - low <= 4 else 1.0
    first = round(low / step)
    return [step * k for k in range(first, int(high / step) + 1) if low <= step * k <= high]


def conditions(runs: Sequence[tuple[Mapping[str, Any], Sequence[float]]]) -> str:
    """One line: what was run, when, where and with what."""
    head = runs[0][0]
    versions = ", ".join(f"{name} {found}" for name, found in head["versions"].items())
    seeds = ", ".join(str(one["seed"]) for one, _ in runs)
    where = f"{head['date']}; {head['device']}; Python {head['python']}, {versions}"
    return f"{head['recipe']}, seeds {seeds}; {where}; `{head['command']}`"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("curves", type=Path, nargs="+", help="curve.jsonl of runs of one recipe")
    parser.add_argument("--out", type=Path, required=True, help="the SVG")
    parser.add_argument("--stage", default="", help="the stage that is drawn (default: the first with a reward)")


def run(given: argparse.Namespace) -> int:
    """Draw recorded runs. Exit status: 0 done, 2 where a file holds none."""
    try:
        runs = [read(path, given.stage) for path in given.curves]
    except NoCurve as error:
        print(error, file=sys.stderr)
        return 2
    if len({head["recipe"] for head, _ in runs}) > 1:
        print("The runs are of several recipes; draw each recipe for itself.", file=sys.stderr)
        return 2
    given.out.write_text(picture(runs, f"{runs[0][0]['recipe']}: mean reward by step"), encoding="utf-8")
    for head, rewards in runs:
        found = gain(rewards)
        print(
            f"seed {head['seed']}: first {found['steps']:.0f} steps {found['first']:.3f}, last {found['last']:.3f}, spread"
            f" {found['spread']:.3f}"
        )
    print(conditions(runs))
    return 0
