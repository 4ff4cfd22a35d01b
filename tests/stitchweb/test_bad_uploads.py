"""Malformed and hostile uploads, as a browser sends them: each is refused with the thing, the reason and a way out.

None leaves a row, a file, a message or a process, and what was typed stays in the form.
"""

from __future__ import annotations

import html
import io
import os
import re
import stat
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from tests.conftest import REFERENCE, World
from tests.e2e.processes import descendants
from tests.stitchweb.conveyor import Conveyor

pytestmark = [pytest.mark.django_db, pytest.mark.filterwarnings("ignore:Duplicate name")]  # meant, in one archive
OPTIONS = {
    "target": "cpu",
    "planner": "offline",
    "coder": "offline",
    "verifier": "offline",
    "protocol": "strict",
    "mode": "eval",
    "precision": "as-reference",
    "attempts": "5",
}
BARE = "import torch.nn as nn\n\n\nclass Net(nn.Module):\n    def forward(self, x):\n        return x + 1\n"
INPUTS = "\n\ndef get_inputs():\n    return []\n"
GOOD = REFERENCE.encode()


@dataclass(frozen=True)
class Bad:
    """`fields` of the form and `files` (name, bytes); `said` and `way` stand in the sentence and in the way out."""

    said: str
    way: str
    fields: dict[str, Any] = field(default_factory=dict)
    files: Callable[[], list[tuple[str, bytes]]] = list
    status: int = 422


def text(content: str, said: str, way: str, **more: Any) -> Bad:
    return Bad(said, way, {"text": content, **more})


def file(name: str, data: bytes, said: str, way: str) -> Bad:
    return Bad(said, way, {"text": "# a draft\n"}, lambda: [(name, data)])


def archive(fill: Callable[[zipfile.ZipFile], None], said: str, way: str, name: str = "set.zip") -> Bad:
    return Bad(said, way, {}, lambda: [(name, packed(fill))])


def packed(fill: Callable[[zipfile.ZipFile], None]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as target:
        fill(target)
    return made.getvalue()


def holding(*paths: str, data: bytes = GOOD) -> Callable[[zipfile.ZipFile], None]:
    return lambda target: [target.writestr(path, data) for path in paths] and None


def link(target: zipfile.ZipFile) -> None:
    info = zipfile.ZipInfo("model.py")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    target.writestr(info, "/etc/passwd")


def encrypted() -> bytes:
    data = bytearray(packed(holding("model.py")))
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + place] |= 1
    return bytes(data)


def lying_about_its_size() -> bytes:
    data = packed(holding("model.py", data=b"#" * 100_000))
    return data.replace((100_000).to_bytes(4, "little"), (10).to_bytes(4, "little"))


PICK = "Choose one of"
SPLIT = "shorter statements"
PYTHON = "Correct this line"
BAD = {
    # a text that is no program
    "nothing at all": text("", "is empty", "gallery"),
    "only white space": text(" \n\t\n", "is empty", "gallery"),
    "only a byte order mark": text("\ufeff", "is empty", "gallery"),
    "prose": text("Please make it fast.", "line 1: invalid syntax", PYTHON),
    "an open bracket": text(f"x = [1, 2\n{REFERENCE}", "line 1: '[' was never closed", PYTHON),
    "a mistake far down": text(f"{REFERENCE}y = = 2\n", f"line {REFERENCE.count(chr(10)) + 1}", PYTHON),
    "null characters": text("x = 1\0", "Text: Null characters", "plain text"),
    "text that turns around": text("class Model\u202e:\n    pass\n", "U+202E", PYTHON),
    "no module": text("import torch\n", "no class that derives from torch.nn.Module", "class Model(nn.Module)"),
    "a module that only a function makes": text(f"def f():\n    class Model: ...\n{INPUTS}", "no class that derives", "Model"),
    "no get_inputs": text(BARE, "does not define get_inputs()", "shapes and types"),
    "no such module": text(BARE + INPUTS, "no module named Other", "Choose", entry="Other"),
    "several modules": text(BARE + BARE.replace("Net", "Other") + INPUTS, "several modules", "Choose which"),
    "a notebook": text('{"cells": [], "nbformat": 4}', "is a notebook", "Export"),
    "brackets beyond the parser": text(f"x = {'(' * 9000}{')' * 9000}", "nested more than", PYTHON),
    "signs beyond the parser": text(f"x = {'-' * 90_000}1", "nested too deep", SPLIT),
    "a base class beyond recursion": text(f"class Model(a{' + a' * 700}): ...\n", "no class that derives", "Model"),
    "a sum beyond recursion": text(f"x = 1{'+1' * 40_000}", "nested too deep", SPLIT),
    "more signs than a program has": text("x=1;" * 100_000, "words and signs", SPLIT),
    "two megabytes": text("# weights\n" * 210_000, "too large: at most 1024 KB", "Weights do not belong"),
    "half a megabyte in one broken line": text(f"x = '{'a' * 500_000}\nx = = 1", "line 1: unterminated string", PYTHON),
    "a number of ten thousand digits": text(f"x = {'9' * 10_000}", "digits", PYTHON),
    # a file that is no text, or no program
    "an empty file": file("m.py", b"", "m.py is empty", "gallery"),
    "a picture by another name": file("m.py", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "m.py is not a text", "Upload the .py file"),
    "a machine program": file("m.py", b"\x7fELF\2\1\1\0", "null bytes", "Upload the .py file"),
    "weights": file("m.pt", b"PK\x03\x04\0\0", "m.pt is not a text", "Upload the .py file"),
    "latin 1": file("m.py", b"# caf\xe9\n", "not UTF-8: byte 5 is 0xe9", "Save the file as UTF-8"),
    "UTF-16": file("m.py", "import torch\n".encode("utf-16"), "null bytes", "Upload the .py file"),
    "ten megabytes in one line": file("m.py", b"x" * 10_000_000, "m.py is too large", "Weights do not belong"),
    "a mark before nothing": file("m.py", b"\xef\xbb\xbf", "m.py is empty", "gallery"),
    "a page of HTML": file("m.py", b"<html><script>alert(1)</script>", "m.py is not Python: line 1", PYTHON),
    "markup as its name": file("<img src=x onerror=alert(1)>.py", b"x = (", "onerror=alert(1)>.py is not Python", PYTHON),
    # an archive that is no batch
    "no archive": file("set.zip", b"not a zip", "cannot be read as a zip archive", "Pack the folder again"),
    "half an archive": Bad("cannot be read", "Pack", {}, lambda: [("set.zip", packed(holding("a.py"))[:60])]),
    "an empty archive": archive(holding(), "no Python file", "folder of .py files"),
    "an archive in an archive": archive(holding("b.zip", data=packed(holding("a.py"))), "no Python file", "folder of .py"),
    "a path out of it": archive(holding("../../etc/cron.d/a.py"), "../../etc/cron.d/a.py", "Pack the folder again"),
    "a path from the root": archive(holding("/etc/a.py"), "/etc/a.py", "Pack the folder again"),
    "a path of Windows": archive(holding("C:\\a.py"), "C:", "Pack the folder again"),
    "a name with control characters": archive(holding("a\x1b[31m.py"), r"a\x1b[31m.py", "Pack the folder again"),
    "a name that turns around": archive(holding("a\u202eyp.py"), r"a\u202eyp.py", "Pack the folder again"),
    "a name without end": archive(holding("a" * 400 + ".py"), "no plain path", "Pack the folder again"),
    "a link to a password file": archive(link, "holds the link 'model.py'", "Put the file itself"),
    "one name twice": archive(holding("a.py", "a.py"), "a.py is in it more than once", "Keep one"),
    "too many files": archive(holding(*(f"{n}.txt" for n in range(5001)), data=b""), "5001 files", "in parts"),
    "too many programs": archive(holding(*(f"{n}.py" for n in range(501)), data=b""), "501 programs", "in parts"),
    "a bomb": archive(holding(*(f"{n}.py" for n in range(80)), data=b"#" * 1_000_000), "unpacks to more than 64", "in parts"),
    "a password": Bad("model.py in set.zip is encrypted", "without a password", {}, lambda: [("set.zip", encrypted())]),
    "a size that lies": Bad("set.zip", "Pack", {}, lambda: [("set.zip", lying_about_its_size())]),
    "only bad programs": archive(holding("a.py", "b.py", data=b"x = ("), "a.py is not Python", PYTHON),
    "a folder with a path out of it": Bad(
        "'../../a.py' is no plain path", "Rename", {"paths": "../../a.py\nb.py"}, lambda: [("a.py", GOOD), ("b.py", GOOD)]
    ),
    "a folder with one name twice": Bad(
        "m/a.py is in it more than once", "Keep one", {"paths": "m/a.py\nm/a.py"}, lambda: [("a.py", GOOD), ("a.py", GOOD)]
    ),
    # inputs that cannot be
    "a negative shape": text(BARE, "'-1, 4' is not a list of whole numbers", "inputs form", shape=["-1, 4"]),
    "a shape in words": text(BARE, "'big' is not a list of whole numbers", "inputs form", shape=["big"]),
    "a shape beyond memory": text(BARE, "is too large", "inputs form", shape=["2147483647, 2147483647"]),
    "a size of a thousand digits": text(BARE, "not a list of whole numbers", "inputs form", shape=["9" * 1000]),
    "an unknown type": text(BARE, "'float7' is not known. Choose one of float32", "inputs form", shape=["4"], dtype=["float7"]),
    "code as a type": text(BARE, "is not known", "inputs form", shape=["4"], dtype=["x); import os; (y"]),
    "a bound in words": text(BARE, "'many' is not a whole number", "inputs form", shape=["4"], dtype=["int64"], high=["many"]),
    "code as an argument": text(BARE, "not plain values", "inputs form", shape=["4"], init="__import__('os')"),
    "more inputs than the form builds": text(BARE, "There are 9 inputs", "inputs form", shape=["4"] * 9, dtype=["float32"] * 9),
    # options that mean nothing
    "an unknown target": text(REFERENCE, "toaster is not one of the available choices", PICK, target="toaster"),
    "an unknown engineer": text(REFERENCE, "Planner: There is no such model", f"{PICK} the list", planner="root"),
    "an unknown protocol": text(REFERENCE, "Protocol", f"{PICK} strict", protocol="none"),
    "no attempts": text(REFERENCE, "Attempts", "from 1 to 200", attempts="0"),
    "a negative budget": text(REFERENCE, "Wall time, min", "from 0.1 to 1440", minutes="-5"),
    "a budget that is no number": text(REFERENCE, "Cost, USD", "from 0.01 to 10000", money="nan"),
    "a name that clears screens": text(REFERENCE, "Name: It contains the invisible character U+001B", "plain", name="a\x1b[2J"),
    "tags that turn around": text(REFERENCE, "Tags: It contains the invisible character U+202E", "plain", tags="a\u202eb"),
    "a name longer than a page": text(REFERENCE, "Name", "Shorten it", name="n" * 5000),
}  # fmt: skip


@dataclass(frozen=True)
class Traces:
    """What an upload could leave: rows by table, files, messages to workers, processes."""

    rows: dict[str, int]
    files: tuple[str, ...]
    messages: int
    processes: tuple[int, ...]


@pytest.fixture
def traces(world: World, settings: Any, tmp_path: Path, conveyor: Conveyor) -> Iterator[None]:
    """Fails when anything is left after the test."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    settings.FILE_UPLOAD_TEMP_DIR = str(scratch)

    def now() -> Traces:
        models = [*apps.get_app_config("programs").get_models(), *apps.get_app_config("runs").get_models()]
        return Traces(
            {model.__name__: model._default_manager.count() for model in models},
            tuple(sorted(str(path) for path in tmp_path.rglob("*"))),
            len(conveyor.messages),
            tuple(sorted(descendants(os.getpid()))),
        )

    before = now()
    yield
    assert now() == before


@pytest.fixture
def client(world: World) -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(world.owner)
    return client


def sent(client: Client, bad: Bad) -> Any:
    files = [SimpleUploadedFile(name, data) for name, data in bad.files()]
    return client.post("/upload/", OPTIONS | bad.fields | ({"files": files} if files else {}))


def refusals(page: str) -> list[tuple[str, str]]:
    """Sentence and way out of each reason on the page."""
    found = re.findall(r'<div class="note bad" role="alert">.*?<p><b>(.*?)</b>(.*?)</p>', page, re.DOTALL)
    return [(html.unescape(sentence).strip(), html.unescape(way).strip()) for sentence, way in found]


def typed(page: str) -> str:
    """The text in the form."""
    [found] = re.findall(r'<textarea class="in source"[^>]*>(.*?)</textarea>', page, re.DOTALL)
    return html.unescape(found)


@pytest.mark.usefixtures("traces")
@pytest.mark.parametrize("name", BAD)
def test_it_is_refused_with_reason_and_way_out_and_leaves_nothing(name: str, client: Client) -> None:
    bad = BAD[name]
    response = sent(client, bad)
    page = response.content.decode()
    assert response.status_code == bad.status
    told = refusals(page)
    assert any(bad.said in sentence and bad.way in way for sentence, way in told), told
    assert all(sentence.endswith(".") and way.endswith(".") for sentence, way in told), told
    assert "Nothing was stored." in page
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    if not bad.files() and "\0" not in bad.fields["text"]:
        assert typed(page) == bad.fields["text"].removeprefix("\ufeff")


def test_there_are_dozens_of_them() -> None:
    assert len(BAD) >= 30


@pytest.mark.usefixtures("traces")
def test_a_form_of_ten_megabytes_is_refused_with_its_limit(client: Client) -> None:
    response = sent(client, text("x" * 10_000_000, "", ""))
    assert response.status_code == 413
    assert "its fields may have 8 MB. Nothing was stored. Shorten the text." in response.content.decode()


@pytest.mark.usefixtures("traces")
def test_more_files_than_are_taken_are_refused_with_their_limit(client: Client) -> None:
    response = sent(client, Bad("", "", {}, lambda: [(f"{n}.py", b"") for n in range(501)]))
    assert response.status_code == 413
    assert "at most 500 are taken. Nothing was stored. Upload them in parts or as a .zip." in response.content.decode()


@pytest.mark.usefixtures("traces")
def test_a_form_without_its_token_is_refused(world: World) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(world.owner)
    response = sent(strict, text(REFERENCE, "", ""))
    assert response.status_code == 403
    assert "reload" in response.content.decode().lower()


@pytest.mark.usefixtures("traces")
@pytest.mark.parametrize("who", ["viewer", "expert"])
def test_who_only_watches_is_told_to_ask_an_owner(who: str, world: World) -> None:
    watcher = Client()
    watcher.force_login(getattr(world, who))
    response = sent(watcher, text(REFERENCE, "", ""))
    assert response.status_code == 403
    assert "Ask an owner of a team" in response.content.decode()


@pytest.mark.usefixtures("traces")
def test_who_is_not_signed_in_is_sent_to_the_door() -> None:
    response = sent(Client(), text(REFERENCE, "", ""))
    assert (response.status_code, response.headers["Location"]) == (302, "/login/?next=/upload/")


@pytest.mark.usefixtures("traces")
def test_a_team_of_others_takes_nothing_and_no_other_team_takes_it_instead(client: Client, world: World) -> None:
    response = sent(client, text(REFERENCE, "", "", team=world.others.slug))
    assert response.status_code == 403
    assert "not a member of the team that you chose" in response.content.decode()


@pytest.mark.usefixtures("traces")
@pytest.mark.parametrize("program", ["999999999999999999999", "-1", "1 or 1=1", "theirs"])
def test_a_program_that_is_not_theirs_gets_no_revision(program: str, world: World) -> None:
    outsider = Client()
    outsider.force_login(world.outsider)
    chosen = str(world.revision.program_id) if program == "theirs" else program
    assert sent(outsider, text(REFERENCE, "", "", program=chosen)).status_code == 404


def test_a_text_with_a_byte_order_mark_is_taken_like_any_other(client: Client, world: World) -> None:
    assert sent(client, text(f"\ufeff{REFERENCE}", "", "")).status_code == 302
