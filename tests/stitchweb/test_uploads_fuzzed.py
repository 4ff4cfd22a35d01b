"""Hostile bytes at both doors for uploads, the page's and the API's: whatever comes, the answer is never our own error.

The bytes are drawn from a seed, so a failure names what to send again. Some are noise, most are something good that was hurt.
"""

from __future__ import annotations

import io
import json
import random
import zipfile
from collections import Counter
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client

from tests.conftest import REFERENCE, World
from tests.stitchweb.api_world import Caller, caller

OPTIONS = {
    "target": "cpu", "planner": "offline", "coder": "offline", "verifier": "offline", "protocol": "strict", "mode": "eval",
    "precision": "as-reference", "attempts": "5", "action": "save",
}  # fmt: skip
GOOD = REFERENCE.encode()
BOUNDARY = "fuzz"
NAMES = [
    "a.py", "a.zip", "../../etc/passwd", "a\x00.py", "ü\u202e.py", "", "." * 300, "C:\\x.py", "a.PY", "level1/x.py", '"; x="',
    "%00",
]  # fmt: skip
PIECES = [
    b"\x00", b"\xff\xfe", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80", b"\r", b"\x1a", b"'''", b'"""', b"\\\n", b"(" * 90,
    b"[" * 5000, b"f'{" * 40, b"@" * 50, b"lambda:" * 60, b"1_" * 40, b"0x" + b"f" * 5000, b"1" * 6000, b"\t \t",
    b"if 1:\n" * 150, b"\xe2\x80\xae", b"\xef\xbb\xbf", b"class Model(\n", b"async " * 30, b"-" * 9000 + b"1",
    b"# -*- coding: utf-7 -*-\n", b"# coding: nothing\n", b"~" * 3000,
]  # fmt: skip


def hurt(draw: random.Random, data: bytes) -> bytes:
    """Something good with a few wounds: bytes cut, doubled, flipped, or put in."""
    for _ in range(draw.randint(1, 6)):
        at = draw.randint(0, len(data))
        match draw.randrange(6):
            case 0:
                data = data[:at] + draw.choice(PIECES) + data[at:]
            case 1:
                data = data[:at]
            case 2:
                data = data[:at] + draw.randbytes(draw.randint(1, 40)) + data[at:]
            case 3:
                data = data[:at] + data[at + draw.randint(1, 60) :]
            case 4 if data:
                at = draw.randrange(len(data))
                data = data[:at] + bytes([data[at] ^ (1 << draw.randrange(8))]) + data[at + 1 :]
            case _:
                data = data[at:] + data[:at] if draw.random() < 0.3 else data + data[at : at + 200]
    return data


def a_text(draw: random.Random) -> bytes:
    if draw.random() < 0.15:
        return draw.randbytes(draw.randint(0, 3000))
    return GOOD if draw.random() < 0.12 else hurt(draw, GOOD)


def an_archive(draw: random.Random) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", draw.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])) as archive:
        for number in range(draw.randint(1, 4)):
            name = draw.choice(
                [*NAMES[:1], "b.py", f"level{number}/c.py", "../d.py", "e/../f.py", "__init__.py", f"{number}.py"]
            )
            archive.writestr(name, a_text(draw) if draw.random() < 0.7 else GOOD)
    return hurt(draw, packed.getvalue()) if draw.random() < 0.8 else packed.getvalue()


def a_form(draw: random.Random) -> tuple[bytes, str]:
    """A body of the upload page, in parts, with its content type."""
    parts = []
    for name, value in OPTIONS.items():
        if draw.random() < 0.1:
            value = draw.choice(["", "x" * 9000, "\x00", "-1", "9" * 30, "nan", "1e999", "✓"])
        parts.append(f'Content-Disposition: form-data; name="{name}"\r\n\r\n{value}'.encode("utf-8", "replace"))
    for _ in range(draw.choice([0, 1, 1, 1, 2, 3])):
        name, archive = draw.choice(NAMES), draw.random() < 0.35
        head = f'Content-Disposition: form-data; name="files"; filename="{"a.zip" if archive else name}"\r\n'
        parts.append(head.encode("utf-8", "replace") + b"\r\n" + (an_archive(draw) if archive else a_text(draw)))
    if draw.random() < 0.4:
        parts.append(b'Content-Disposition: form-data; name="text"\r\n\r\n' + a_text(draw))
    edge = f"--{BOUNDARY}\r\n".encode()
    body = b"".join(edge + part + b"\r\n" for part in parts) + f"--{BOUNDARY}--\r\n".encode()
    if draw.random() < 0.2:
        body = hurt(draw, body)
    kind = f"multipart/form-data; boundary={BOUNDARY}"
    if draw.random() < 0.05:
        kind = draw.choice(
            ["multipart/form-data", "text/plain", "application/json", f"{kind}; charset=utf-99", "application/zip"]
        )
    return body, kind


def a_json(draw: random.Random) -> bytes:
    """A body of the API's upload."""
    errors = "surrogateescape" if draw.random() < 0.1 else "replace"
    said: dict[str, Any] = {"text": a_text(draw).decode(draw.choice(["utf-8", "latin-1"]), errors)}
    for name in ("name", "filename", "team", "entry", "description", "tags", "analyse"):
        if draw.random() < 0.06:
            said[name] = draw.choice([*NAMES, [], ["a"], None, 7, True, {"a": 1}, "\ud800", "x" * 5000])
    body = json.dumps(said).encode()
    return hurt(draw, body) if draw.random() < 0.2 else body


def send(draw: random.Random, page: Client, api: Caller) -> tuple[int, str]:
    if draw.random() < 0.5:
        body, kind = a_form(draw)
        answer = page.generic("POST", "/upload/", body, content_type=kind)
        return answer.status_code, "page"
    return api.raw("POST", "programs", a_json(draw)).status_code, "api"


def fuzz(world: World, settings: Any, seed: int, count: int) -> Counter[tuple[str, int]]:
    """How often each door answered what. Fails with the seed of a request that was answered with an error of ours."""
    settings.UPLOADS_PER_HOUR = settings.RUNS_AT_ONCE = settings.API_PER_MINUTE = 10**9
    settings.UPLOAD_FORMS_PER_MINUTE = settings.WRITES_PER_MINUTE = 10**9
    cache.clear()
    page, api = Client(raise_request_exception=False), caller(world.owner)
    page.force_login(world.owner)
    seen: Counter[tuple[str, int]] = Counter()
    for number in range(seed * 1_000_000, seed * 1_000_000 + count):
        status, door = send(random.Random(number), page, api)
        assert status < 500, f"the {door} answered {status} to request {number}"
        seen[door, status] += 1
    return seen


@pytest.mark.filterwarnings("ignore")  # archives with the same name twice, escapes that are none: they are meant
def test_hostile_uploads_are_refused_or_taken(world: World, settings: Any) -> None:
    seen = fuzz(world, settings, 0, 250)
    assert {status for _, status in seen} >= {201, 302, 400, 422}  # some are good, most are not


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(1, 11))
def test_ten_thousand_hostile_uploads_are_refused_or_taken(world: World, settings: Any, part: int) -> None:
    print(part, sorted(fuzz(world, settings, part, 1000).items()))
