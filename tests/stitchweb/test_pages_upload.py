"""Uploading in the browser's terms: what is taken, what is refused, and that nothing half-done stays behind."""

from __future__ import annotations

import io
import re
import zipfile
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from stitchweb.programs.gallery import examples
from stitchweb.programs.models import Program, Suite
from stitchweb.runs.models import Job, Run
from tests.conftest import REFERENCE, World
from tests.stitchweb.conveyor import heard

pytestmark = pytest.mark.django_db
OPTIONS = {
    "target": "cpu", "coder": "offline", "protocol": "strict", "mode": "eval", "precision": "as-reference", "attempts": "5",
    "minutes": "3",
}  # fmt: skip
BARE = """import torch.nn as nn


class Net(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.l = nn.Linear(n, n)

    def forward(self, x):
        return self.l(x)
"""


@pytest.fixture
def client(world: World) -> Client:
    client = Client()
    client.force_login(world.owner)
    return client


def post(client: Client, **fields: Any) -> Any:
    return client.post("/upload/", OPTIONS | fields)


def nothing_new() -> bool:
    """Nothing beside the world's own program."""
    return Program.objects.count() == 1 and not Run.objects.exists() and not Job.objects.exists() and not Suite.objects.exists()


def test_a_pasted_program_becomes_a_run_with_the_chosen_options(client: Client) -> None:
    response = post(
        client, text=REFERENCE + "# new\n", name="mine", tags="Norm, gelu", description="d", approve_plan="on", tokens_k="5"
    )
    run = Run.objects.get()
    assert response.headers["Location"] == f"/runs/{run.pk}/"
    options = run.load().options
    assert (options.budget.attempts, options.budget.wall_s, options.budget.tokens, options.approve_plan) == (
        5,
        180.0,
        5000,
        True,
    )
    assert run.revision.program.tags == ["gelu", "norm"]


@pytest.mark.parametrize("ticked", [True, False])
def test_own_kernels_are_required_where_the_box_is_ticked_and_the_run_page_says_so(client: Client, ticked: bool) -> None:
    response = post(client, text=REFERENCE + "# new\n", **{"require_own_kernels": "on"} if ticked else {})
    assert Run.objects.get().load().options.require_own_kernels is ticked
    page = client.get(response.headers["Location"]).content.decode()
    assert ("own kernels required" in page) is ticked


def test_a_refused_form_keeps_its_ticks(client: Client) -> None:
    page = post(client, text="class", require_own_kernels="on").content.decode()
    assert 'name="require_own_kernels" checked' in page
    assert 'name="approve_plan" checked' not in page


def test_only_analyse_makes_a_program_and_a_job_but_no_run(client: Client) -> None:
    response = post(client, text=REFERENCE + "# new\n", action="save")
    program = Program.objects.latest("pk")
    assert response.headers["Location"] == f"/programs/{program.pk}/"
    assert Job.objects.get().revision is not None
    assert not Run.objects.exists()
    assert "Waits for a runner" in client.get(f"/programs/{program.pk}/").content.decode()


def test_a_file_is_named_after_itself(client: Client) -> None:
    post(client, files=SimpleUploadedFile("my_block.py", (REFERENCE + "# f\n").encode()))
    assert Program.objects.latest("pk").name == "my_block"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("x = (\n", "line 1"),
        ("def f(:\n    pass\n", "line 1"),
        ("import torch\n", "no class that derives from torch.nn.Module"),
        (BARE, "does not define get_inputs()"),
        ("a" * 20 + "\0", "Null characters"),
    ],
)
def test_a_text_that_is_no_program_is_refused_beside_itself(client: Client, text: str, said: str) -> None:
    response = post(client, text=text)
    html = response.content.decode()
    assert response.status_code == 422
    assert said in html
    assert "refused" in html
    assert nothing_new()
    if text.strip("\0").strip() and "\0" not in text:
        assert text.strip().split("\n")[0].split("(")[0] in html  # the text stays in the form


def test_the_line_of_an_error_is_shown_with_its_neighbours(client: Client) -> None:
    html = post(client, text="import torch\nx = 1\ny = = 2\nz = 3\n").content.decode()
    assert "line 3" in html
    assert '<tr class="del"><td class="ln">3</td>' in html


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("m.py", b"\xff\xfe\x00bad", "null bytes"),
        ("m.py", b"caf\xe9 = 1\n", "not UTF-8"),
        ("m.zip", b"not a zip", "cannot be read as a zip"),
        ("m.py", b"#" * (1024 * 1024 + 1), "at most 1024 KB"),
    ],
)
def test_a_file_that_is_no_program_is_refused_by_name(client: Client, name: str, data: bytes, said: str) -> None:
    response = post(client, files=SimpleUploadedFile(name, data))
    assert response.status_code == 422
    assert said in response.content.decode()
    assert nothing_new()


def test_inputs_are_built_from_shapes_for_a_bare_module(client: Client) -> None:
    response = post(client, text=BARE, shape=["4, 16"], dtype=["float32"], high=[""], init="16")
    assert response.status_code == 302
    text = Program.objects.latest("pk").revisions.get().text
    assert "torch.randn((4, 16), dtype=torch.float32)" in text
    assert "return [16]" in text


def test_a_wrong_shape_is_refused_with_everything_still_in_the_form(client: Client) -> None:
    response = post(client, text=BARE, shape=["4, y"], dtype=["int64"], high=["10"], init="16")
    html = response.content.decode()
    assert response.status_code == 422
    assert "is not a list of whole numbers" in html
    assert 'value="4, y"' in html
    assert "<option selected>int64</option>" in html
    assert nothing_new()


def test_several_modules_are_offered_by_name(client: Client) -> None:
    two = BARE + BARE.replace("class Net", "class Other") + "def get_inputs():\n    return []\n"
    html = post(client, text=two).content.decode()
    assert "Which module?" in html
    assert 'value="Other"' in html
    assert post(client, text=two, entry="Other").status_code == 302


def test_a_zip_becomes_a_suite_and_says_what_it_left_out(client: Client) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("set/level1/a.py", REFERENCE + "# a\n")
        archive.writestr("set/level2/b.py", REFERENCE + "# b\n")
        archive.writestr("set/level2/bad.py", "x = (\n")
    response = client.post("/upload/", OPTIONS | {"files": SimpleUploadedFile("set.zip", packed.getvalue())}, follow=True)
    html = response.content.decode()
    suite = Suite.objects.get()
    assert suite.programs.count() == 2
    assert Run.objects.count() == 2
    assert "1 of 3 files were left out" in html
    assert "level2/bad.py" in html


def test_a_folder_keeps_its_paths(client: Client) -> None:
    files = [
        SimpleUploadedFile("a.py", (REFERENCE + "# 1\n").encode()),
        SimpleUploadedFile("a.py", (REFERENCE + "# 2\n").encode()),
    ]
    post(client, files=files, paths="kb/level1/a.py\nkb/level2/a.py", action="save")
    assert sorted(Program.objects.filter(suite__isnull=False).values_list("level", flat=True)) == [1, 2]


def test_options_that_make_no_sense_are_named(client: Client) -> None:
    response = post(client, text=REFERENCE + "#\n", attempts="0", target="toaster")
    html = response.content.decode()
    assert response.status_code == 422
    assert "attempts" in html
    assert "toaster" in html
    assert nothing_new()


def test_a_refused_option_is_called_what_the_page_calls_it(client: Client) -> None:
    numbers = ("attempts", "minutes", "device_seconds", "tokens_k", "money", "target_speedup")
    html = post(client, text=REFERENCE + "#\n", **dict.fromkeys(numbers, "many")).content.decode()
    labels = dict(re.findall(r'<span>([^<]+)</span><input class="in" name="(\w+)"', html))
    assert set(numbers) <= set(labels.values())
    for label, name in labels.items():
        if name in numbers:
            assert f"{label}: Enter a" in html
    assert nothing_new()


def test_the_gallery_fills_the_form(client: Client) -> None:
    assert len(examples()) >= 16
    for example in examples():
        assert example.title
        assert example.family != "other"
    html = client.get("/upload/?example=lstm").content.decode()
    assert "nn.LSTM" in html


def test_a_new_revision_belongs_to_its_program(client: Client, world: World) -> None:
    program = world.revision.program
    assert world.revision.text.splitlines()[0] in client.get(f"/upload/?program={program.pk}").content.decode()
    post(client, program=str(program.pk), text=world.revision.text + "# second\n")
    assert program.revisions.count() == 2


def test_a_viewer_cannot_upload(world: World) -> None:
    viewer = Client()
    viewer.force_login(world.viewer)
    assert viewer.post("/upload/", OPTIONS | {"text": REFERENCE}).status_code == 403
    assert nothing_new()


def test_a_target_that_no_runner_serves_says_so_before_it_is_chosen(client: Client) -> None:
    heard("one@host", ["run.cpu"])
    page = client.get("/upload/").content.decode()
    assert '<option value="cpu" selected>cpu</option>' in page
    assert '<option value="sm_90">sm_90, no runner now</option>' in page


def test_a_run_may_write_several_programs_at_once(client: Client) -> None:
    post(client, text=REFERENCE + "# new\n", width="4", beam="2")
    search = Run.objects.get().load().options.search
    assert (search.width, search.beam, search.samples) == (4, 2, False), "offline always answers alike"


def test_more_programs_to_start_from_than_are_written_are_refused_beside_the_field(client: Client) -> None:
    html = post(client, text=REFERENCE + "#\n", width="2", beam="3").content.decode()
    assert "From the best: More programs to start from" in html
    assert 'name="beam" inputmode="numeric" value="3"' in html
    assert nothing_new()
