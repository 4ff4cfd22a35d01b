"""Who wrote a candidate is hidden in its texts, its paths and the names of its kernels, however it is spelled."""

from __future__ import annotations

import dataclasses
import json

import pytest

from agents.state import BlobStore
from gpu_runner.contracts import BlobRef
from stitchweb.review.blind import mask_of, scored_files, stored_paths, subject_of
from stitchweb.review.mask import HIDDEN, Mask
from stitchweb.review.models import Item
from stitchweb.runs.blobs import RunBlobs
from stitchweb.runs.history import view_of
from stitchweb.runs.models import Event
from stitchweb.teams.models import User
from tests.stitchweb.review_world import make_desk
from tests.stitchweb.world_for_tests import make_world

MASK = Mask(
    ["Ada Byron", "quentin@example.org", "Quentin", "llm:acme/gigacoder-9", "gigacoder-9", "José", "王伟"],
    ["verified", "output_cache", "timed-out"], as_written=["Ada", "Max"],
)  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "by ada byron", "ADA_BYRON", "adaByron()", "ada-byron", "Ada.  Byron", "Ada\u00a0Byron", "ada\u200bbyron",
        "А\u0434a Byron".replace("\u0434", "d"), "Αda Bуron", "Ａｄａ Ｂｙｒｏｎ", "𝐀𝐝𝐚 𝐁𝐲𝐫𝐨𝐧", "Ada\u00adByron", "Ädá Byrön",
        "QUENTIN", "quentin_norm_kernel", "myQuentinKernel", "Q-u-e-n-t-i-n", "q u e n t i n", "quentin AT example.org",
        "gigacoder9", "Giga Coder 9", "GIGACODER_9", "jose", "JOSÉ", "作者王伟写的",
    ],
)  # fmt: skip
def test_a_name_is_hidden_in_every_spelling(text: str) -> None:
    shown = MASK.code(f"// {text}\nint x;\n")
    assert HIDDEN in shown
    assert shown.endswith("\nint x;\n")
    letters = "".join(c for c in shown.casefold() if c.isalnum())
    assert not any(name in letters for name in ("byron", "quentin", "gigacoder", "jose", "王伟"))


@pytest.mark.parametrize(
    "text", ["row_max = torch.max(x)", "radar.run(y)", "adapt(a)", "giga = coder(9)", "float4 v = __ldg(p);", "josephson"]
)
def test_code_that_only_resembles_a_name_stays(text: str) -> None:
    assert MASK.code(text) == text


def test_a_first_name_is_hidden_as_it_is_written() -> None:
    assert MASK.code("# thanks, Ada; Max_tile") == f"# thanks, {HIDDEN}; {HIDDEN}_tile"


def test_words_of_a_verdict_are_hidden_in_prose_alone() -> None:
    assert MASK.prose("an output cache, Timed out, VERIFIED") == f"an {HIDDEN}, {HIDDEN}, {HIDDEN}"
    assert MASK.prose("verifiedness") == "verifiedness"
    assert MASK.code("verified = output_cache(x)") == "verified = output_cache(x)"


def test_lines_stay_lines() -> None:
    text = "a\r\nAda\nByron\n\n\u2028Ada Byron\n"
    assert MASK.code(text).count("\n") == text.count("\n")


@pytest.mark.django_db
def test_paths_and_kernels_are_masked_and_what_is_kept_finds_its_file() -> None:
    world = make_world()
    desk = make_desk(world.team, world.owner)
    item = _profiled(desk.project.items.select_related("run__owner", "run__revision__program"))
    User.objects.filter(pk=item.run.owner_id).update(name="Quentin Author")
    blobs: BlobStore = RunBlobs(item.run_id)
    files = {"kernels/quentin.cu": "// one", "kernels/Quentin.cu": "// two", "model_new.py": "import Quentin"}
    kept = {path: blobs.put(text.encode()).model_dump(mode="json") for path, text in files.items()}
    _retell(item, kept, blobs)
    item = Item.objects.select_related("run__owner", "run__revision__program").get(pk=item.pk)
    subject = subject_of(item, lambda anchor, **wishes: "#")
    assert subject is not None
    assert "quentin" not in repr(dataclasses.asdict(subject)).lower()
    assert stored_paths(item) == {
        f"kernels/{HIDDEN}.cu": "kernels/Quentin.cu",
        f"kernels/2-{HIDDEN}.cu": "kernels/quentin.cu",
        "model_new.py": "model_new.py",
    }
    assert scored_files(item)["candidate"] == {stored: files[path] for stored, path in stored_paths(item).items()}
    assert subject.files["candidate"].keys() == scored_files(item)["candidate"].keys()
    assert HIDDEN in repr(subject.profile)
    assert HIDDEN in mask_of(item, view_of(item.run_id)).code("Quentin")


def _profiled(items: object) -> Item:
    """An item whose candidate has a profile."""
    return next(i for i in items if view_of(i.run_id).profiles.get(i.candidate))  # type: ignore[attr-defined]


def _retell(item: Item, files: dict[str, object], blobs: BlobStore) -> None:
    """The candidate with these files, and its profile with kernels named after its author."""
    for event in Event.objects.filter(run=item.run_id):
        payload = event.payload
        if event.kind == "candidate.changed" and payload.get("id") == item.candidate:
            Event.objects.filter(pk=event.pk).update(payload=payload | {"files": files})
        if event.kind == "profile.done" and payload.get("candidate") == item.candidate:
            report = json.loads(blobs.get(BlobRef.model_validate(payload["blob"])))
            for kernel in (report.get("summary") or {}).get("kernels", []):
                kernel["name"] = f"quentin_{kernel['name']}"
            ref = blobs.put(json.dumps(report).encode()).model_dump(mode="json")
            Event.objects.filter(pk=event.pk).update(payload=payload | {"blob": ref})
