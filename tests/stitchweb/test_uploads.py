"""Uploads: what is taken, what is refused and how it is said. Nothing of a text is ever run here."""

from __future__ import annotations

import io
import stat
import zipfile
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied

from stitchweb.programs.intake import read_files, read_zip
from stitchweb.programs.models import Program, Revision, Suite
from stitchweb.programs.services import Upload, UploadRefused, add_revision, create_program, create_suite
from stitchweb.programs.uploads import InputSpec, check_source, decode, outline, parse_shape, with_inputs
from tests.conftest import REFERENCE, World

BARE = "import torch\n\n\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return x + 1\n"
INPUTS = "\n\ndef get_inputs():\n    return [1]\n"


def codes(text: str, entry: str = "") -> list[str]:
    return [problem.code for problem in check_source(text, "a.py", entry)]


@pytest.mark.parametrize(
    "text",
    [
        REFERENCE,
        "from torch import nn\nclass Model(nn.Module): ...\nget_inputs = lambda: []\n",
        "import torch.nn as nn\nclass Base(nn.Module): ...\nclass Model(Base): ...\n" + INPUTS,
        "from torch.nn import Module\nclass Thing(Module): ...\n" + INPUTS,
        "# -*- coding: utf-8 -*-\n# naïve ×\n" + REFERENCE,
    ],
)
def test_a_module_with_inputs_is_taken(text: str) -> None:
    assert check_source(text) == []


HOSTILE = {
    "empty": ("  \n\t", "empty"),
    "prose": ("Please make my model fast.", "not-python"),
    "unclosed bracket": ("x = [1, 2\n" + REFERENCE, "not-python"),
    "bad indentation": ("def f():\nreturn 1\n", "not-python"),
    "python 2": ("print 'hello'\n", "not-python"),
    "tabs and spaces": ("if 1:\n\tx = 1\n        y = 2\n", "not-python"),
    "unterminated string": ("x = 'abc\n", "not-python"),
    "null byte": ("x = 1\0", "binary"),
    "lone surrogate": ("x = '\ud800'", "not-utf8"),
    "deep brackets": ("x = " + "(" * 5000 + ")" * 5000, "not-python"),
    "deep operators": ("x = " + "-" * 100_000 + "1", "not-python"),
    "too large": ("x = 1\n" * 400_000, "too-large"),
    "json": ('{"weights": [1, 2, 3]}', "no-module"),
    "notebook": ('{"cells": [], "nbformat": 4}', "notebook"),
    "c++": ("#include <cmath>\nint main() { return 0; }", "not-python"),
    "html": ("<html><body>404</body></html>", "not-python"),
    "no class": ("import torch\ndef f(x):\n    return x\n" + INPUTS, "no-module"),
    "class without module": ("class Model:\n    pass\n" + INPUTS, "no-module"),
    "module inside a function": ("import torch\ndef f():\n    class Model(torch.nn.Module): ...\n" + INPUTS, "no-module"),
    "no inputs": (BARE, "no-inputs"),
    "several modules": (BARE + BARE.replace("Net", "Other") + INPUTS, "which-module"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_program_is_refused_with_the_reason_and_a_way_out(name: str) -> None:
    text, code = HOSTILE[name]
    [problem] = check_source(text, "upload.py")
    assert problem.code == code
    assert problem.sentence.endswith(".")
    assert problem.way_out


def test_the_line_of_a_mistake_is_named() -> None:
    [problem] = check_source("import torch\n\nclass Model(torch.nn.Module:\n    pass\n", "a.py")
    assert problem.line == 3
    assert "line 3" in problem.sentence


def test_an_entry_must_be_one_of_the_modules() -> None:
    text = BARE + BARE.replace("Net", "Other") + INPUTS
    assert codes(text, "Net") == []
    assert codes(text, "Nothing") == ["no-entry"]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\xff\xfe\x00", "binary"),
        (b"x = '\xe9'\n", "not-utf8"),
        (b"PK\x03\x04\x00\x00", "binary"),
        (b"x" * (1024 * 1024 + 1), "too-large"),
    ],
)
def test_bytes_that_are_no_text_are_refused(data: bytes, code: str) -> None:
    text, [problem] = decode(data, "a.py")
    assert (text, problem.code) == ("", code)


def test_windows_files_are_read_like_any_other() -> None:
    assert decode(b"\xef\xbb\xbfx = 1\r\ny = 2\r\n", "a.py") == ("x = 1\ny = 2\n", [])


def test_inputs_from_the_form_make_a_module_a_program() -> None:
    specs = [InputSpec((4, 8)), InputSpec((4,), "int64", high=10), InputSpec((), "bool")]
    text = with_inputs(BARE, "Net", specs, "512, 'relu', True")
    assert check_source(text, entry="Net") == []
    assert outline(text).has_init_inputs
    namespace: dict[str, Any] = {}
    exec("def get_init_inputs" + text.partition("def get_init_inputs")[2], namespace)  # our own lines, not the upload's
    assert namespace["get_init_inputs"]() == [512, "relu", True]


@pytest.mark.parametrize(
    ("specs", "init", "said"),
    [
        ([], "", "at least one input"),
        ([InputSpec((2,), "float128")], "", "not known"),
        ([InputSpec((2,), "int64", high=0)], "", "at least 1"),
        ([InputSpec((2,))], "__import__('os').system('true')", "not plain values"),
        ([InputSpec((2,))], "a=1", "not plain values"),
        ([InputSpec((2,))], "1e999", "not plain values"),
    ],
)
def test_a_form_that_makes_no_sense_is_said(specs: list[InputSpec], init: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        with_inputs(BARE, "Net", specs, init)


@pytest.mark.parametrize(
    ("init", "arguments"), [("", []), ("512, 4", [512, 4]), ("[512, 4]", [512, 4]), ("[1, 2], 3", [[1, 2], 3])]
)
def test_constructor_arguments_are_read_as_people_write_them(init: str, arguments: list[Any]) -> None:
    assert with_inputs(BARE, "Net", [InputSpec((2,))], init).rstrip().endswith(f"return {arguments!r}")


@pytest.mark.parametrize(
    ("text", "shape"), [("16, 128", (16, 128)), ("16x128", (16, 128)), ("[2,3,4]", (2, 3, 4)), ("", ()), ("(7,)", (7,))]
)
def test_shapes_are_read_as_people_write_them(text: str, shape: tuple[int, ...]) -> None:
    assert parse_shape(text) == shape


@pytest.mark.parametrize("text", ["abc", "-1, 2", "1.5", "1,2,3,4,5,6,7,8,9", "99999999999"])
def test_what_is_no_shape_is_said(text: str) -> None:
    with pytest.raises(ValueError, match="The shape"):
        parse_shape(text)


# ---- batches


def zipped(files: dict[str, bytes], **more: Any) -> io.BytesIO:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files.items():
            archive.writestr(path, data)
    made.seek(0)
    return made


def test_a_zip_becomes_programs_with_levels() -> None:
    files = {f"KernelBench/level{n}/{n}_net.py": REFERENCE.encode() for n in (1, 2)}
    batch = read_zip(zipped(files | {"KernelBench/README.md": b"x", "KernelBench/level1/__init__.py": b""}), "bench.zip")
    assert [(item.path, item.level, item.problems) for item in batch.items] == [
        ("level1/1_net.py", 1, []),
        ("level2/2_net.py", 2, []),
    ]


def test_a_bad_file_of_a_batch_is_left_out_with_its_reason(world: World) -> None:
    batch = read_files([("level1/good.py", REFERENCE.encode()), ("level1/bad.py", b"def"), ("level1/bin.py", b"\0")], "mixed")
    suite = create_suite(world.owner, world.team, batch)
    assert [program.name for program in suite.programs.all()] == ["good"]
    assert {item.path: [p.code for p in item.problems] for item in batch.items if item.problems} == {
        "level1/bad.py": ["not-python"],
        "level1/bin.py": ["binary"],
    }


def bomb() -> io.BytesIO:
    return zipped({f"a{n}.py": b"#" * 1024 * 1024 for n in range(70)})


def link() -> io.BytesIO:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        info = zipfile.ZipInfo("passwd.py")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, "/etc/passwd")
    made.seek(0)
    return made


def damaged() -> io.BytesIO:
    data = bytearray(zipped({"a.py": REFERENCE.encode() * 20}).getvalue())
    for place in range(60, 160):
        data[place] ^= 0xFF
    return io.BytesIO(bytes(data))


@pytest.mark.parametrize(
    ("archive", "code"),
    [
        (lambda: io.BytesIO(b"not a zip"), "not-zip"),
        (lambda: zipped({"../../etc/cron.d/a.py": b"x"}), "path"),
        (lambda: zipped({"/etc/a.py": b"x"}), "path"),
        (lambda: zipped({"C:\\a.py": b"x"}), "path"),
        (lambda: zipped({"notes.txt": b"x"}), "nothing"),
        (lambda: zipped({}), "nothing"),
        (lambda: zipped({f"f{n}.txt": b"" for n in range(5001)}), "too-many"),
        (lambda: zipped({f"f{n}.py": b"" for n in range(501)}), "too-many"),
        (bomb, "bomb"),
        (link, "link"),
    ],
)
def test_an_archive_that_is_no_batch_is_refused_whole(world: World, archive: Any, code: str) -> None:
    batch = read_zip(archive(), "upload.zip")
    assert [problem.code for problem in batch.problems] == [code]
    with pytest.raises(UploadRefused):
        create_suite(world.owner, world.team, batch)
    assert not Suite.objects.exists()


def test_a_damaged_archive_is_refused() -> None:
    assert read_zip(damaged(), "upload.zip").problems[0].code in ("not-zip", "damaged")


def test_a_zip_in_a_zip_is_not_opened() -> None:
    inner = zipped({"a.py": REFERENCE.encode()}).getvalue()
    assert [p.code for p in read_zip(zipped({"inner.zip": inner}), "outer.zip").problems] == ["nothing"]


# ---- rows


def test_a_refused_upload_leaves_no_row(world: World) -> None:
    before = Program.objects.count(), Revision.objects.count()
    for text, _ in HOSTILE.values():
        with pytest.raises(UploadRefused):
            create_program(world.owner, world.team, Upload(text=text))
    assert (Program.objects.count(), Revision.objects.count()) == before


def test_a_program_has_its_name_from_what_is_known(world: World) -> None:
    def name(**more: Any) -> str:
        return create_program(world.owner, world.team, Upload(text=REFERENCE, **more)).program.name

    assert name(name="Mine", filename="x.py") == "Mine"
    assert name(filename="folder/layer_norm.py") == "layer_norm"
    assert name() == "Untitled program"


def test_tags_are_cleaned(world: World) -> None:
    revision = create_program(world.owner, world.team, Upload(text=REFERENCE, tags=(" Norm ", "norm", "", "CPU")))
    assert revision.program.tags == ["cpu", "norm"]


def test_a_revision_is_numbered_and_the_same_text_is_the_same_revision(world: World) -> None:
    program = world.revision.program
    second = add_revision(world.teammate, program, REFERENCE + "\n# changed\n")
    assert second.number == 2
    assert add_revision(world.owner, program, REFERENCE) == world.revision
    assert add_revision(world.owner, program, REFERENCE + "\n# changed\n") == second


@pytest.mark.parametrize("who", ["viewer", "expert"])
def test_who_only_watches_uploads_nothing(world: World, who: str) -> None:
    person = getattr(world, who)
    with pytest.raises(PermissionDenied):
        create_program(person, world.team, Upload(text=REFERENCE))
    with pytest.raises(PermissionDenied):
        add_revision(person, world.revision.program, REFERENCE)


@pytest.mark.parametrize("line", ["from helpers import norm", "import helpers.norm", "from . import norm"])
def test_a_program_of_a_zip_that_needs_a_file_beside_it_is_left_out_and_says_so(line: str) -> None:
    program = REFERENCE.replace("import torch\n", f"import torch\n{line}\n", 1)
    files = {"set/one.py": program.encode(), "set/two.py": REFERENCE.encode(), "set/helpers/__init__.py": b"norm = 1\n"}
    one, two = read_zip(zipped(files), "set.zip").items
    assert not two.problems
    assert [(p.code, p.line) for p in one.problems] == [("other-file", 2)]
    assert "a program is one file" in one.problems[0].sentence
    assert one.problems[0].sentence.count("one.py") == 1
