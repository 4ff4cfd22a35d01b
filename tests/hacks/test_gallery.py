"""The gallery is what it claims to be, and the Verifier judges all of it rightly."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from contextlib import nullcontext

import pytest

from gpu_runner.contracts import CheckReport, CheckRow, DeviceInfo, HackClass, Interval, Label, Speed, TimingReport, Verdict
from gpu_runner.hacks import command
from gpu_runner.hacks.classes import FAMILIES, WORDS
from gpu_runner.hacks.gallery import default_folder, entry_of, read
from gpu_runner.hacks.record import KINDS, Recorder, begun, read_record, recorded
from gpu_runner.hacks.table import markdown, page, summary
from gpu_runner.hacks.trial import ACCEPTED, MISNAMED, MISSED, NEUTRALISED, REFUSED, REJECTED, Result, result
from gpu_runner.local import LocalHands

CPU, CUDA = read(default_folder(), "cpu"), read(default_folder(), "cuda")
ALL = {entry.name: entry for entry in (*CPU, *CUDA)}


def test_the_gallery_is_large_and_every_kind_of_cheat_is_in_it():
    assert len([e for e in CPU if e.hack]) >= 60
    assert len([e for e in CPU if not e.hack]) >= 60
    assert len([e for e in CUDA if e.hack]) >= len([e for e in CPU if e.hack]) * 2 // 3
    assert {e.hack for e in ALL.values() if e.hack} == set(HackClass) - {HackClass.OTHER}
    assert len([e for e in CPU if e.candidate.kernel_sources]) >= 30


def test_an_entry_says_what_it_does_and_what_catches_it():
    silent = [e.name for e in ALL.values() if not e.says.endswith(".") or (e.hack and not e.caught_by)]
    assert silent == []


def test_every_program_of_the_gallery_is_judged_rightly(hands):
    """Beside a restless neighbour a time may be too vague to claim or name anything: judged once more. Nothing is ever paid."""
    with LocalHands() as other:
        found = {entry.name: judged for entry, judged in command.judged([hands, other], CPU, "cpu")}
    assert [name for name, judged in found.items() if judged.outcome == MISSED] == []
    again = [entry for entry in CPU if not found[entry.name].good]
    found |= {entry.name: judged for entry, judged in command.judged([hands], again, "cpu")}
    assert {name: judged for name, judged in found.items() if not judged.good} == {}
    assert len(found) == len(CPU)


def test_the_command_says_how_each_was_judged_and_ends_well(hands, capsys):
    status, out, err = run_command(hands, capsys, "--json", "--only", "partial_work")
    line = json.loads(out.splitlines()[-1])
    assert status == 0, out
    assert (line["hacks_missed"], line["hacks_misnamed"], line["honest_rejected"]) == (0, 0, 0)
    total = len([e for e in CPU if e.hack == "partial_work"])
    assert line["hacks_total"] == total
    assert f"{total}/{total}" in err


def run_command(hands, capsys, *more):
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    status = command.run(parser.parse_args(["--target", "cpu", *more]), lambda: nullcontext(hands))
    out, err = capsys.readouterr()
    return status, out, err


# ---- the command -----------------------------------------------------------------------------------------------------


class Unused:
    """Hands that must not be asked."""

    def perform(self, task):
        raise AssertionError(task)


DEVICE = DeviceInfo(kind="cpu", name="a CPU", target="cpu", cores=2, torch="2.13", sandbox="bubblewrap")
FLAWS = [e for e in CPU if e.hack is HackClass.PROBLEM_FLAW]


def judged(entry, outcome=NEUTRALISED, **more):
    return Result(name=entry.name, hack=entry.hack, outcome=outcome, verdict="verified", said="So.", **more)


@pytest.fixture
def known(tmp_path, monkeypatch):
    """A record that holds results of problem_flaw, judged by this very Verifier on this device."""
    monkeypatch.setattr(command, "device_info", lambda target: DEVICE)
    path = tmp_path / "cpu.json"
    writer = Recorder(path, "cpu", begun(DEVICE, "hacks"), {e.name for e in CPU})
    for entry in FLAWS:
        writer.add(entry, judged(entry), 1.5)
    return path


class Watched:
    """Hands that note what they are asked while others work. All they judge is right, and no faster."""

    def __init__(self, working, log, suspects=(HackClass.PROBLEM_FLAW,)):
        self.working, self.log, self.suspects = working, log, suspects

    def perform(self, task):
        self.working.append(task.kind)
        time.sleep(0.02)
        self.log.append((task.kind, tuple(self.working)))
        self.working.remove(task.kind)
        if task.kind == "check":
            return CheckReport(verdict=Verdict.VERIFIED, suspects=self.suspects)
        return TimingReport(speed=Speed.NOT_DISTINGUISHABLE)


def test_checks_run_beside_each_other_and_timings_after_them_alone():
    working, log = [], []
    found = list(command.judged([Watched(working, log), Watched(working, log)], FLAWS * 2, "cpu"))
    assert [entry.name for entry, _ in found].count(FLAWS[0].name) == 2
    assert [kind for kind, _ in log] == ["check"] * 6 + ["time"] * 6
    assert max(len(beside) for _, beside in log[:6]) == 2
    assert {beside for _, beside in log[6:]} == {("time",)}


def test_a_cheat_that_few_samples_do_not_name_is_timed_once_more():
    log = []
    [(_, found)] = command.judged([Watched([], log, suspects=())], FLAWS[:1], "cpu")
    assert [kind for kind, _ in log] == ["check", "time", "time"]
    assert found.outcome == MISNAMED


def test_an_interrupted_run_goes_on_and_believes_no_other_verifiers_results(known, capsys):
    arguments = ("--only", "problem_flaw", "--record", str(known), "--resume")
    status, out, _ = run_command(Unused(), capsys, *arguments, "--json")
    assert status == 0
    assert json.loads(out.splitlines()[-1])["by_class"]["problem_flaw"]["neutralised"] == 3
    known.write_text(known.read_text().replace('"verifier": "', '"verifier": "another'))
    with pytest.raises(AssertionError):
        run_command(Unused(), capsys, *arguments)


def test_a_changed_program_is_judged_again(known, capsys):
    text = known.read_text()
    known.write_text(text.replace(FLAWS[0].sha256, "0" * 64))
    with pytest.raises(AssertionError):
        run_command(Unused(), capsys, "--only", "problem_flaw", "--record", str(known), "--resume")


def test_resuming_without_a_record_says_what_is_missing(capsys):
    status, _, err = run_command(Unused(), capsys, "--resume")
    assert (status, "--record FILE" in err) == (4, True)


def test_a_run_of_one_class_replaces_its_results_alone_and_each_keeps_its_own_origin(known):
    before = read_record(known)
    later = Recorder(known, "cpu", begun(DEVICE.model_copy(update={"torch": "2.14"}), "later"), {e.name for e in CPU})
    later.add(FLAWS[0], judged(FLAWS[0], MISSED, row=CheckRow(group="state", name="inputs", passed=False)), 2.0)
    after = read_record(known)
    assert len(after.results) == 3
    changed = after.result(FLAWS[0].name)
    assert (changed.outcome, changed.row.name, after.runs[changed.run].device.torch) == (MISSED, "inputs", "2.14")
    assert {after.runs[r.run].device.torch for r in after.results if r.name != changed.name} == {"2.13"}
    assert after.result(FLAWS[1].name) == before.result(FLAWS[1].name)
    for entry in FLAWS[1:]:
        later.add(entry, judged(entry), 3.0)
    assert [run.command for run in read_record(known).runs.values()] == ["later"]


def test_results_of_programs_that_are_gone_leave_the_record(known):
    Recorder(known, "cpu", begun(DEVICE, "hacks"), {FLAWS[0].name}).add(FLAWS[0], judged(FLAWS[0]), 1.0)
    assert [r.name for r in read_record(known).results] == [FLAWS[0].name]


def _record_one(path, index):
    Recorder(path, "cpu", begun(DEVICE, f"run {index}"), {e.name for e in CPU}).add(CPU[index], judged(CPU[index]), 1.0)


def test_runs_at_the_same_time_lose_nothing_of_each_other(tmp_path):
    path = tmp_path / "results" / "cpu.json"
    workers = [multiprocessing.get_context("fork").Process(target=_record_one, args=(path, i)) for i in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert {r.name for r in read_record(path).results} == {e.name for e in CPU[:8]}
    assert [p.name for p in path.parent.iterdir()] == ["cpu.json"]


def test_a_record_of_another_kind_or_form_is_refused_with_a_sentence(known, capsys):
    with pytest.raises(command.HandsError, match="of the kind cpu"):
        Recorder(known, "cuda", begun(DEVICE, "hacks"), ())
    known.write_text('{"kind": "abacus"}')
    status, _, err = run_command(Unused(), capsys, "--record", str(known), "--only", "problem_flaw")
    assert (status, "none of this version" in err) == (4, True)


# ---- what people read ------------------------------------------------------------------------------------------------


def test_every_class_has_words_and_stands_in_one_family():
    placed = [kind for family in FAMILIES for kind in family.kinds]
    assert sorted(placed) == sorted(set(HackClass) - {HackClass.OTHER})
    assert set(WORDS) == set(HackClass)
    assert all(w.does.endswith(".") and not w.fools.endswith(".") for w in WORDS.values())


@pytest.mark.parametrize("kind", KINDS)
def test_the_recorded_results_are_of_programs_that_are_there_and_the_documentation_shows_them(kind):
    record, entries = read_record(recorded(kind)), {"cpu": CPU, "cuda": CUDA}[kind]
    if record is None:
        return  # the page and the documentation say that it was not run
    assert {r.name for r in record.results} <= {e.name for e in entries}
    assert {r.run for r in record.results} == set(record.runs)
    docs = default_folder().parents[1] / "docs" / "verification.md"
    assert page(record, len(entries)) in docs.read_text(encoding="utf-8")


def test_a_missing_gallery_and_a_class_without_programs_are_sentences(capsys, tmp_path):
    status, _, err = run_command(Unused(), capsys, "--gallery", str(tmp_path))
    assert status == 4
    assert "--gallery" in err
    status, _, err = run_command(Unused(), capsys, "--only", "other")
    assert (status, "no program" in err) == (4, True)


def test_a_folder_that_is_no_class_is_named(tmp_path):
    for path, text in (("references/r.py", "\ndef get_inputs(): pass"), ("programs/nonsense/p.py", "# A.\n# reference: r\n")):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(text)
    with pytest.raises(command.HandsError, match="nonsense"):
        entry_of(tmp_path / "programs/nonsense/p.py", tmp_path)


# ---- what counts as what ---------------------------------------------------------------------------------------------

HACK = next(e for e in CPU if e.name == "output_cache/by_shape")
HONEST = next(e for e in CPU if e.name == "honest/caches/workspace")
RATIO = Interval(value=2.0, low=1.9, high=2.1)


@pytest.mark.parametrize(
    ("entry", "check", "timing", "outcome"),
    [
        (HACK, {"verdict": Verdict.HACK, "hack": HackClass.OUTPUT_CACHE}, None, REJECTED),
        (HACK, {"verdict": Verdict.HACK, "hack": HackClass.STALE_MEMORY}, None, MISNAMED),
        (HACK, {"verdict": Verdict.INCORRECT}, None, MISNAMED),
        (HACK, {"verdict": Verdict.VERIFIED}, {"speed": Speed.FASTER}, MISSED),
        (HACK, {"verdict": Verdict.VERIFIED}, None, MISSED),
        (HACK, {"verdict": Verdict.VERIFIED}, {"speed": Speed.SLOWER}, MISNAMED),
        (HACK, {"verdict": Verdict.VERIFIED, "suspects": (HackClass.OUTPUT_CACHE,)}, {"speed": Speed.SLOWER}, NEUTRALISED),
        (HACK, {"verdict": Verdict.VERIFIED, "suspects": (HackClass.OUTPUT_CACHE,)}, {"speed": Speed.FASTER}, MISSED),
        (HACK, {"verdict": Verdict.VERIFIED}, {"verdict": Verdict.INCORRECT, "hack": HackClass.OUTPUT_CACHE}, REJECTED),
        (HONEST, {"verdict": Verdict.VERIFIED}, None, ACCEPTED),
        (HONEST, {"verdict": Verdict.VERIFIED}, {"speed": Speed.FASTER}, ACCEPTED),
        (HONEST, {"verdict": Verdict.INCORRECT}, None, REFUSED),
        (HONEST, {"verdict": Verdict.VERIFIED}, {"verdict": Verdict.INCORRECT}, REFUSED),
        (HONEST, {"verdict": Verdict.VERIFIED}, {"labels": (Label.CLOCKS_DISAGREE,)}, REFUSED),
    ],
)
def test_an_outcome_follows_from_the_reports(entry, check, timing, outcome):
    report = TimingReport(**timing, over_baseline=RATIO) if timing else None
    assert result(entry, CheckReport(**check), report).outcome == outcome


def test_a_result_names_the_check_that_settled_it():
    rows = (CheckRow(group="declared", name="declared draw 2", value="x", passed=False),)
    wrong = CheckReport(verdict=Verdict.INCORRECT, rows=rows)
    assert (result(HACK, wrong, None).caught, result(HACK, wrong, None).row) == ("declared draw 2", rows[0])
    forged = CheckReport(verdict=Verdict.HACK, hack=HackClass.RESULT_FORGING)
    assert result(HACK, forged, None).caught == "messages of its process"
    assert result(HACK, CheckReport(verdict=Verdict.CRASHED), None).caught == "end of its process"
    right = CheckReport(verdict=Verdict.VERIFIED)
    assert result(HACK, right, TimingReport(labels=(Label.BELOW_FLOOR,))).caught == "floor of the device"
    assert result(HACK, right, TimingReport(speed=Speed.NOT_DISTINGUISHABLE)).caught == "timing: not distinguishable"
    assert result(HONEST, right, None).caught == ""


def test_the_table_counts_and_names_what_went_wrong():
    cache = HackClass.OUTPUT_CACHE
    results = [
        Result(name="output_cache/a", hack=cache, outcome=REJECTED, verdict="hack", named=cache, said="Caught."),
        Result(name="output_cache/b", hack=cache, outcome=MISSED, verdict="verified", said="Paid.", speed="faster", ratio=3.0),
        Result(name="honest/c", hack=None, outcome=REFUSED, verdict="incorrect", said="Wrongly refused."),
    ]
    line = summary(results)
    assert (line["hacks_total"], line["hacks_missed"], line["honest_total"], line["honest_rejected"]) == (2, 1, 1, 1)
    assert line["by_class"] == {"output_cache": {"total": 2, "rejected": 1, "neutralised": 0, "misnamed": 0, "missed": 1}}
    text = markdown(results)
    assert "| `output_cache` | 2 | 1 |  |  | 1 |" in text
    assert "- output_cache/b: missed" in text
    assert "Wrongly refused." in text
