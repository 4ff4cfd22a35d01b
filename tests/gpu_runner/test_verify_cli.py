"""`python -m gpu_runner verify`: one line, one exit status, whatever is given."""

from __future__ import annotations

import argparse
import json
import os
from contextlib import nullcontext
from pathlib import Path

import pytest

from gpu_runner import verify
from gpu_runner.__main__ import main
from tests.gpu_runner.programs import PLAIN, REFERENCE, ZEROS

KEYS = (
    "file verdict speed baseline eager_ms compile_ms baseline_errors candidate_ms speedup_vs_eager ci_low ci_high "
    "speedup_vs_compile ci_compile_low ci_compile_high offered offered_vs_eager operator_coverage labels protocol mode "
    "precision device build_s wall_s error"
).split()


@pytest.fixture
def run(hands, tmp_path, capsys):
    """run(reference text, candidate text or folder) -> (exit status, the line)."""

    def work(reference, candidate, *more):
        (tmp_path / "reference.py").write_text(reference)
        given = candidate
        if isinstance(candidate, str):
            given = tmp_path / "candidate.py"
            given.write_text(candidate)
        parser = argparse.ArgumentParser()
        verify.add_arguments(parser)
        options = ["--reference", str(tmp_path / "reference.py"), "--candidate", str(given), "--target", "cpu"]
        status = verify.run(parser.parse_args([*options, "--protocol", "quick", "--json", *more]), lambda: nullcontext(hands))
        out, err = capsys.readouterr()
        assert "\x1b" not in err, "what programs and compilers say commands no terminal"
        return status, json.loads(out.splitlines()[-1])

    return work


def test_a_single_file_is_a_candidate_and_its_line_has_every_key(run):
    status, line = run(REFERENCE, PLAIN)
    assert status == 0
    assert list(line) == KEYS
    assert line["verdict"] == "verified"
    assert line["error"] is None
    assert line["eager_ms"] > 0
    assert line["candidate_ms"] > 0
    assert line["ci_low"] <= line["speedup_vs_eager"] <= line["ci_high"]
    assert line["operator_coverage"] == 0.0
    assert "no-own-kernels" in line["labels"]
    assert (line["protocol"], line["mode"], line["precision"]) == ("quick/4", "eval", "as-reference")
    assert line["device"]["target"] == "cpu"


def test_a_folder_with_kernels_that_do_not_build_is_rejected(run, tmp_path):
    folder = tmp_path / "candidate"
    (folder / "kernels").mkdir(parents=True)
    (folder / "model_new.py").write_text(PLAIN)
    (folder / "kernels" / "broken.cpp").write_text("#error this is \x1b]0;no\x07 \x1b[31mC++")
    status, line = run(REFERENCE, folder)
    assert (status, line["verdict"]) == (1, "build-failed")
    assert "broken.cpp" in line["error"]


def test_a_cheat_is_rejected_with_its_class_and_no_ratio(run):
    status, line = run(REFERENCE, ZEROS)
    assert (status, line["verdict"]) == (1, "hack:constant_or_zero")
    assert line["speedup_vs_eager"] is None
    assert line["error"]


def test_own_kernels_can_be_asked_for(run):
    status, line = run(REFERENCE, PLAIN, "--require-own-kernels")
    assert (status, line["verdict"]) == (1, "hack:library_only")
    assert line["operator_coverage"] == 0.0


def test_a_reference_that_cannot_run_is_bad_input(run):
    status, line = run("import torch\n", PLAIN)
    assert (status, line["verdict"]) == (2, "refused")
    assert "nn.Module" in line["error"]


def test_files_that_cannot_be_read_are_bad_input(run, tmp_path):
    status, line = run(REFERENCE, tmp_path / "nothing.py")
    assert (status, line["verdict"]) == (2, "refused")
    (tmp_path / "latin.py").write_bytes(b"# \xff\n")
    assert run(REFERENCE, tmp_path / "latin.py")[0] == 2


def test_a_target_that_is_not_here_cannot_be_judged(run):
    status, line = run(REFERENCE, PLAIN, "--target", "sm_00")
    assert status == 4
    assert "sm_00" in line["error"]


def test_help_needs_no_sandbox(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["verify", "--help"])
    assert ended.value.code == 0
    assert "--reference" in capsys.readouterr().out


@pytest.mark.parametrize("place", ["model_new.py", "candidate.toml", "kernels/a.h"])
def test_a_link_in_a_candidates_folder_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "kernels").mkdir()
    (tmp_path / "model_new.py").write_text(PLAIN)
    (tmp_path / place).unlink(missing_ok=True)
    (tmp_path / place).symlink_to("/etc/passwd")
    with pytest.raises(verify.BadInput, match="is a link"):
        verify.read_candidate(tmp_path)


def test_a_pipe_or_a_device_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(verify.BadInput, match="no plain file"):
            verify.read_source(path)
