"""A recipe from its first stage to its last: rows, the reward service, the trainer's processes, one after another.

Whatever ends this, ends what it started: children have their own sessions, so that Ctrl-C reaches this process alone, and a
pipe as standard input, so that they end with it even where it is killed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from agents.training import toy
from agents.training.job import DONE, FAILED, KEPT_ROWS, SAID, STEP, Job
from agents.training.judge import synthetic_judge
from agents.training.recipe import TINY, Recipe, Stage
from agents.training.record import header
from agents.training.service.client import Client, NoService
from agents.training.service.contracts import Terms
from agents.training.service.process import end, started
from gpu_runner.device import resolve_target
from gpu_runner.hands import HandsError

FEW = 2  # rows of a release that a tiny model is shown
LAST = 4000  # bytes of a trainer's log that its last words are looked for in


class RunFailed(Exception):
    """The run ended before its end. The message is a sentence."""


@dataclass
class Given:
    """What a run is of. `data`: a folder with `CONFIG/train.jsonl` (or `CONFIG.jsonl`) for each config; None: the toy's rows.
    `judge`: arguments of the reward service that name one."""

    recipe: Recipe
    out: Path
    data: Path | None = None
    judge: Sequence[str] = ()
    seed: int = 1
    cpu: bool = False
    command: str = ""
    say: Callable[[str], None] = field(default=lambda text: print(text, file=sys.stderr, flush=True))


def run(given: Given) -> Path:
    """Carry out all stages; the folder of the last model. Raises RunFailed, and KeyboardInterrupt where it is interrupted; in
    any case nothing that it started runs on."""
    recipe, out = given.recipe, given.out
    rows = {stage.data: small(given, stage.data, rows_for(given, stage.data)) for stage in recipe.stages}
    judges = _judge(given)
    if recipe.launch.processes > 1 and (there := gpus()) < recipe.launch.processes:
        raise RunFailed(
            f"The recipe {recipe.name} trains on {recipe.launch.processes} GPUs and this machine shows {there}."
            " Run it with --smoke, or copy the recipe and change its [launch]."
        )
    began = time.monotonic()
    start = ""
    try:
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise RunFailed(f"The folder {out} is not empty; name a new one with --out.")
        with (out / "curve.jsonl").open("w", encoding="utf-8") as curve, ExitStack() as services:
            _line(curve, header(recipe, given.seed, given.command))
            for name, found in rows.items():
                with (out / f"{name}.jsonl").open("w", encoding="utf-8") as lines:
                    lines.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in found)
            doors: dict[str, Path] = {}
            for number, stage in enumerate(recipe.stages, 1):
                folder = out / f"{number}-{stage.name}"
                folder.mkdir()
                door = _door(given, stage, judges, doors, services)
                job = Job(
                    role=recipe.role, stage=stage, model=recipe.model, start=start, rows=str(out / f"{stage.data}.jsonl"),
                    out=str(folder), door=door, seed=given.seed, cpu=given.cpu,
                )  # fmt: skip
                count = len(rows[stage.data])
                given.say(f"Stage {number} of {len(recipe.stages)}: {stage.name} ({stage.kind} on {count} rows)")
                start = _stage(given, job, curve, began)
                if door:
                    _line(curve, {"kind": "service", "stage": stage.name, **Client.at(Path(door)).health()})
    except OSError as error:
        raise RunFailed(f"The run in {out} cannot go on: {error}.") from error
    except NoService as error:
        raise RunFailed(str(error)) from error
    return Path(start)


def rows_for(given: Given, config: str) -> list[dict[str, Any]]:
    """The rows of a config. Raises RunFailed where there are none."""
    if given.data is None:
        if given.recipe.model.name != TINY:
            raise RunFailed("This recipe trains a real model, so it needs rows: --data DIR, or --smoke for a tiny model.")
        try:
            return toy.rows_of(config, seed=given.seed)
        except ValueError as error:
            raise RunFailed(str(error)) from None
    places = (given.data / config / "train.jsonl", given.data / f"{config}.jsonl")
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise RunFailed(f"There is neither {places[0]} nor {places[1]}; export the config {config} of a release there.")
    try:
        rows = [json.loads(line) for line in found.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise RunFailed(f"The rows in {found} cannot be read: {error}.") from None
    if not rows:
        raise RunFailed(f"There is no row in {found}: the release has nothing of {config} to train on.")
    return rows


def small(given: Given, config: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows that can be trained on here: of targets that this machine can measure, and for a tiny model a few of them beside
    the toy's, of which it can learn. Raises RunFailed where none is left."""
    if rows and "gpu_target" in rows[0]:
        here = targets()
        kept = [row for row in rows if row["gpu_target"] in here]
        words = ", ".join(sorted(here))
        if not kept:
            raise RunFailed(f"No row of {config} is for a target that is here ({words}).")
        if len(kept) < len(rows):
            given.say(f"{len(rows) - len(kept)} of {len(rows)} rows of {config} are for other targets than {words}.")
        rows = kept
    if given.recipe.model.name != TINY or given.data is None:
        return rows
    few = list({row.get("task_id", at): row for at, row in enumerate(rows)}.values())[:FEW]
    own = toy.rows_of(config, seed=given.seed)
    keys = few[0].keys() & own[0].keys()  # one set of columns
    return [{key: row[key] for key in keys} for row in (*few, *own)]


def gpus() -> int:
    """How many GPUs the driver of this machine knows."""
    try:
        return subprocess.run(["nvidia-smi", "-L"], capture_output=True, timeout=30, check=True).stdout.count(b"GPU ")
    except (OSError, subprocess.SubprocessError):
        return 0


def targets() -> set[str]:
    """What can be measured on this machine."""
    try:
        return {"cpu", resolve_target("cuda")}
    except HandsError:
        return {"cpu"}


def _judge(given: Given) -> tuple[str, ...]:
    """What names the judge to the service; a synthetic one where a tiny model needs one and none is named."""
    needing = [stage for stage in given.recipe.stages if stage.reward is not None and stage.reward.needs_levels]
    if given.judge or not needing:
        return tuple(given.judge)
    if given.recipe.model.name != TINY:
        raise RunFailed(
            f"The reward of the stage {needing[0].name} rests on rubric levels, so it needs a judge: --judge FILE with a local"
            " one, or --judge-model."
        )
    path = given.out.with_name(f"{given.out.name}-judge.json")
    given.say("The shaped reward needs a judge and none is named: training one on the synthetic set.")
    path.parent.mkdir(parents=True, exist_ok=True)
    synthetic_judge(path)
    return ("--judge", str(path.resolve()))


def _door(given: Given, stage: Stage, judge: Sequence[str], doors: dict[str, Path], services: ExitStack) -> str:
    """The door of a service that prices by the stage's terms; started where none does. Empty where none is needed."""
    if stage.reward is None:
        return ""
    key = stage.reward.model_dump_json()
    if key not in doors:
        services.close()  # one service at a time: two would disturb each other's timings
        doors.clear()
        folder = given.out / f"service-{stage.name}"
        folder.mkdir()
        arguments = [*arguments_of(stage.reward), *(judge if stage.reward.needs_levels else ())]
        given.say(f"Starting the reward service ({stage.reward.preset})")
        door, _ = services.enter_context(started(folder, arguments, devices=given.recipe.launch.service_devices))
        doors[key] = door
    return str(doors[key])


def arguments_of(terms: Terms) -> list[str]:
    """The terms as arguments of `serve`."""
    return [
        "--preset", terms.preset, "--change", json.dumps(terms.change), "--protocol", terms.protocol,
        "--check-seconds", str(terms.check_s), "--time-seconds", str(terms.time_s), "--parallel", str(terms.parallel),
        *(["--with-compile"] if terms.with_compile else []),
    ]  # fmt: skip


def _stage(given: Given, job: Job, curve: TextIO, began: float) -> str:
    """A stage to its end; the folder of its model. What rejection samples is fine-tuned on by another process, for one samples
    and as many learn as there are GPUs."""
    if job.stage.kind == "rejection":
        kept = Path(job.out) / KEPT_ROWS
        _process(given, job, "sampling", kept, curve, began)
        learning = job.stage.model_copy(update={"kind": "sft", "reward": None})
        job = job.model_copy(update={"stage": learning, "rows": str(kept), "door": ""})
    _process(given, job, "trainer", job.made, curve, began, given.recipe.launch.processes)
    return str(job.made)


def _process(
    given: Given, job: Job, name: str, makes: Path, curve: TextIO, began: float, processes: int = 1
) -> None:  # fmt: skip
    """One trainer to its end. RunFailed where it does not make what it is there for."""
    place, log = Path(job.out) / f"{name}.json", Path(job.out) / f"{name}.log"
    place.write_text(job.model_dump_json(indent=1), encoding="utf-8")
    failure = ""
    with log.open("ab") as words:
        child = subprocess.Popen(
            trainer(given, place, processes),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=words,
            start_new_session=True,
        )
        try:
            for raw in child.stdout or ():
                line = _read(raw)
                if line is None:
                    continue
                at = round(time.monotonic() - began, 2)
                if line["kind"] == FAILED:
                    failure = failure or str(line["sentence"])
                elif line["kind"] == STEP:
                    _line(curve, line | {"at": at})
                    given.say(f"[{at:6.1f} s] {sentence(line)}")
                elif line["kind"] == SAID:
                    given.say(f"[{at:6.1f} s] {line['sentence']}")
            status = child.wait()
        finally:
            end(child)
    if status != 0 or not makes.exists():
        raise RunFailed(failure or f"The stage {job.stage.name} ended with status {status}: {last_words(log)} (whole: {log})")


def trainer(given: Given, job: Path, processes: int = 1) -> list[str]:
    """The command of a trainer: a process, or one per GPU under accelerate."""
    devices = given.recipe.launch.devices
    seen = ["env", f"CUDA_VISIBLE_DEVICES={devices}"] if devices else []
    many = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", str(processes)]
    return [*seen, sys.executable, *(many if processes > 1 else []), "-m", "agents.training.learning", str(job)]


def sentence(line: dict[str, Any]) -> str:
    """A step for people."""
    told = [
        f"{name.replace('_', ' ')} {line[name]:.3f}" for name in ("reward", "reward_std", "loss") if line.get(name) is not None
    ]
    counts = ", ".join(f"{count} {word}" for word, count in (line.get("outcomes") or {}).items())
    return f"{line['stage']} {line['step']}/{line['of']}: {', '.join(told)}" + (f" ({counts})" if counts else "")


def last_words(log: Path) -> str:
    said = log.read_bytes()[-LAST:].decode(errors="replace").strip().splitlines()
    return said[-1][:400] if said else "it said nothing"


def _read(raw: bytes) -> dict[str, Any] | None:
    try:
        line = json.loads(raw)
    except ValueError:
        return None
    return line if isinstance(line, dict) and line.get("kind") in (STEP, SAID, FAILED, DONE) else None


def _line(out: TextIO, line: dict[str, Any]) -> None:
    out.write(json.dumps(line, ensure_ascii=False) + "\n")
    out.flush()
