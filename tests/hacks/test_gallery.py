"""The gallery is what it claims to be, and the Verifier judges it rightly: a part of it always, all of it in the slow test."""

from __future__ import annotations

import argparse
import json
from contextlib import nullcontext

import pytest

from gpu_runner.config import config
from gpu_runner.contracts import CheckReport, HackClass, Interval, Label, Speed, TimingReport, Verdict
from gpu_runner.hacks import command
from gpu_runner.hacks.gallery import default_folder, entry_of, read
from gpu_runner.hacks.table import markdown, summary
from gpu_runner.hacks.trial import ACCEPTED, MISNAMED, MISSED, NEUTRALISED, REFUSED, REJECTED, Result, judge, result

CPU, CUDA = read(default_folder(), "cpu"), read(default_folder(), "cuda")
# One program of each kind that needs no long timing, and honest ones that look like them.
SAMPLE = (
    "constant_or_zero/zeros", "output_cache/by_address", "weight_cache/never_read", "input_mutation/only_later",
    "partial_work/half_of_the_rows", "precision_downgrade/bfloat16_inside", "stale_memory/own_leftover",
    "background_thread/much_later", "lazy_tensor/computed_when_copied", "batch_and_skip/pairs",
    "race_or_oob/native_write_behind",
    "warmup_detection/within_the_structured_draws", "timer_patch/harness_clock", "result_forging/done_messages",
    "harness_probe/works_when_collected", "oracle_theft/frames", "decorative_kernel/one_element", "library_only/one_fused_call",
    "honest/caches/packed_when_loaded", "honest/order/online_softmax", "honest/native/joined_threads",
    "honest/looks/own_clock",
)  # fmt: skip
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


@pytest.mark.parametrize("name", SAMPLE)
def test_a_program_of_the_gallery_is_judged_rightly(name, hands):
    entry = next(e for e in CPU if e.name == name)
    found = judge(hands, entry, "cpu")
    assert found.good, found


@pytest.mark.slow
def test_the_whole_gallery_is_judged_rightly(hands, capsys):
    status, out, err = run_command(hands, capsys, "--json")
    line = json.loads(out.splitlines()[-1])
    assert status == 0, out
    assert (line["hacks_missed"], line["hacks_misnamed"], line["honest_rejected"]) == (0, 0, 0)
    assert line["hacks_total"] == len([e for e in CPU if e.hack])
    assert f"{len(CPU)}/{len(CPU)}" in err


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


@pytest.fixture
def known(tmp_path, monkeypatch):
    """A cache folder that holds results of problem_flaw, judged by this very code."""
    settings = config()
    monkeypatch.setattr(command, "config", lambda: settings.__class__(**(settings.__dict__ | {"cache_dir": tmp_path})))
    entries = [e for e in CPU if e.hack is HackClass.PROBLEM_FLAW]
    with command._Log.open("cpu", resume=False) as log:
        for entry in entries:
            log.add(entry, Result(entry.name, entry.hack, NEUTRALISED, "verified", None, (HackClass.PROBLEM_FLAW,), "So."))
    return tmp_path / "gallery-cpu.jsonl"


def test_an_interrupted_run_goes_on_and_believes_no_other_codes_results(known, capsys):
    status, out, _ = run_command(Unused(), capsys, "--only", "problem_flaw", "--resume", "--json")
    assert status == 0
    assert json.loads(out.splitlines()[-1])["by_class"]["problem_flaw"]["neutralised"] == 3
    known.write_text(known.read_text().replace('"code": "', '"code": "another ') + '{"code": "cut')
    with pytest.raises(AssertionError):
        run_command(Unused(), capsys, "--only", "problem_flaw", "--resume")


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


def test_the_table_counts_and_names_what_went_wrong():
    results = [
        Result("output_cache/a", HackClass.OUTPUT_CACHE, REJECTED, "hack", HackClass.OUTPUT_CACHE, (), "Caught."),
        Result("output_cache/b", HackClass.OUTPUT_CACHE, MISSED, "verified", None, (), "Paid.", "faster", 3.0),
        Result("honest/c", None, REFUSED, "incorrect", None, (), "Wrongly refused."),
    ]
    line = summary(results)
    assert (line["hacks_total"], line["hacks_missed"], line["honest_total"], line["honest_rejected"]) == (2, 1, 1, 1)
    assert line["by_class"] == {"output_cache": {"total": 2, "rejected": 1, "neutralised": 0, "misnamed": 0, "missed": 1}}
    text = markdown(results)
    assert "| `output_cache` | 2 | 1 |  |  | 1 |" in text
    assert "- output_cache/b: missed" in text
    assert "Wrongly refused." in text
    assert Result.from_dict(json.loads(json.dumps(results[1].as_dict()))) == results[1]
