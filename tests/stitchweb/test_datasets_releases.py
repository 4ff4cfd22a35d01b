"""A release is frozen, hashed and the same each time; a changed label shows; people are pseudonyms."""

from __future__ import annotations

import hashlib
import io
import json
from collections import Counter
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from agents.rubric import DIMENSIONS
from stitchweb.datasets.configs import CONFIGS, OF_RATINGS, Data, rows_of, splits_of
from stitchweb.datasets.configs.data import MOST_PAIRS
from stitchweb.datasets.models import Keyring, Release, WorkState
from stitchweb.datasets.progress import Refused, Stopped
from stitchweb.datasets.services.releases import load, make_release, request_release
from stitchweb.review.models import Rating, Review
from tests.conftest import World
from tests.stitchweb.datasets_world import exported, labelled, released

pytestmark = pytest.mark.django_db
PAIRED = ("judge_pairwise", "judge_pref", "program_pref", "program_pref_flat")


def digests(folder: Path) -> dict[str, str]:
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def test_every_config_has_rows_and_a_file_per_split_each_row_with_its_group(world: World, tmp_path: Path) -> None:
    team = labelled(world, 150, 30)
    released(team)
    exported(team, "r1", tmp_path)
    ids: Counter[str] = Counter()
    for config in CONFIGS:
        assert {p.name for p in (tmp_path / config).iterdir()} == {f"{split}.jsonl" for split in splits_of(config)}
        rows = {split: lines(tmp_path / config / f"{split}.jsonl") for split in splits_of(config)}
        assert rows["train"], config
        for row in (row for some in rows.values() for row in some):
            assert row["ref_group_id"]
            assert row["meta"]["origin"] == "synthetic"
            assert row["meta"]["license"] == "Apache-2.0"
            ids[row["row_id"]] += 1
        groups = Counter(row["ref_group_id"] for some in rows.values() for row in some)
        if config in PAIRED:
            assert max(groups.values()) <= MOST_PAIRS
        assert ("gold" in rows) == (config in OF_RATINGS)
    assert max(ids.values()) == 1
    assert lines(tmp_path / "ratings_raw" / "gold.jsonl")


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_release_exported_twice_is_the_same_to_the_byte_in_both_formats(world: World, tmp_path: Path) -> None:
    team = labelled(world)
    released(team)
    for form in ("jsonl", "parquet"):
        first = digests(exported(team, "r1", tmp_path / "a" / form, form))
        assert first == digests(exported(team, "r1", tmp_path / "b" / form, form))
        assert len(first) == sum(len(splits_of(config)) for config in CONFIGS)


def test_the_same_labels_have_the_same_digest_and_one_changed_label_another_which_the_changelog_names(world: World) -> None:
    team = labelled(world)
    first, again = released(team, "r1"), released(team, "r2")
    assert first.sha256 == again.sha256
    assert again.changes == ["Nothing changed."]
    rating = Rating.objects.filter(review__item__gold=False, level=3).first()
    assert rating is not None
    Rating.objects.filter(pk=rating.pk).update(level=5)
    third = released(team, "r3")
    assert third.sha256 != first.sha256
    [line] = [change for change in third.changes if change.startswith("label")]
    assert f"label a{rating.review.assignment_id} changed" in line
    assert f"levels.{rating.dimension} 3 → 5" in line


def test_what_was_frozen_stays_whatever_changes_after(world: World, tmp_path: Path) -> None:
    team = labelled(world)
    released(team)
    before = digests(exported(team, "r1", tmp_path / "a"))
    Rating.objects.update(level=1)
    assert digests(exported(team, "r1", tmp_path / "b")) == before


def test_raters_are_pseudonyms_by_the_teams_key_and_names_are_hidden_in_free_text(world: World) -> None:
    team = labelled(world)
    review = Review.objects.exclude(user=None).first()
    assert review is not None
    Rating.objects.filter(review=review).update(reason="As Gail Example said, and gail@example.org too.")
    snapshot = load(released(team))
    text = json.dumps(snapshot)
    assert "Gail" not in text
    assert "gail@" not in text
    pids = {row["pid"] for row in snapshot["ratings"]}
    assert len(pids) == 5
    Keyring.objects.filter(team=team).update(secret="ab" * 32)
    other = {row["pid"] for row in load(released(team, "r2"))["ratings"]}
    assert not pids & other


def test_labels_come_to_a_median_or_the_final_label_and_gold_to_its_answer(world: World) -> None:
    snapshot = load(released(labelled(world)))
    data = Data(snapshot)
    finals = {row["sha256"]: row for row in snapshot["finals"]}
    assert finals
    for one in data.labelled:
        if one.sha256 in finals:
            assert one.made.level == {key: finals[one.sha256]["levels"][key] for key in DIMENSIONS}
            assert one.made.source == "adjudicated"
    for split, row in rows_of(data, "program_pref"):
        assert row["margin"] is not None
        assert split in ("train", "validation", "test")


def test_no_name_is_used_twice_and_what_is_asked_of_nothing_says_so(world: World, tmp_path: Path) -> None:
    team = labelled(world)
    released(team)
    with pytest.raises(CommandError, match="never changed: choose another name"):
        call_command("create_release", "r1", team=team.slug)
    with pytest.raises(CommandError, match=r"has no release 'other'\. It has: r1"):
        call_command("export_dataset", release="other", team=team.slug, config="pointwise", out=tmp_path)
    with pytest.raises(CommandError, match="There is no team 'nowhere'"):
        call_command("create_release", "r2", team="nowhere")
    with pytest.raises(CommandError, match="no demo team"):
        call_command("create_release", "r2")
    with pytest.raises(Refused, match="lower-case"):
        request_release(None, team, "No Name")


def test_the_command_says_digest_and_counts(world: World) -> None:
    team, said = labelled(world), io.StringIO()
    call_command("create_release", "r1", team=team.slug, stdout=said, stderr=io.StringIO())
    row = Release.objects.get()
    assert row.sha256 in said.getvalue()
    assert "grpo_skill1" in said.getvalue()


def test_a_team_without_candidates_has_nothing_to_release(world: World) -> None:
    with pytest.raises(Refused, match="nothing to release"):
        released(world.team)
    assert Release.objects.get().state == WorkState.FAILED


def test_a_cancelled_release_ends_as_cancelled_and_leaves_no_file(world: World) -> None:
    team = labelled(world)
    row = request_release(None, team, "r1", send=False)

    def tell(doing: str, at: int = 0, of: int = 0) -> None:
        if doing == "Reading labels":
            raise Stopped

    make_release(row, tell)
    row.refresh_from_db()
    assert (row.state, row.file) == (WorkState.CANCELLED, "")


def test_a_file_that_was_changed_is_refused(world: World, settings: object) -> None:
    from django.core.files.base import ContentFile
    from django.core.files.storage import default_storage

    from stitchweb.datasets.services import releases

    row = released(labelled(world))
    releases._unpacked.cache_clear()
    with default_storage.open(row.file) as file:
        whole = releases.gzip.decompress(file.read())
    default_storage.delete(row.file)
    default_storage.save(row.file, ContentFile(releases._packed(whole.replace(b'"train"', b'"test"', 1))))
    with pytest.raises(Refused, match="not what was frozen"):
        load(row)
