#!/usr/bin/env python3
"""StitchWeb on the command line. One file, Python 3.9 or newer, nothing to install.

    python3 client.py login https://stitch.example.org      asks for a token and keeps it
    python3 client.py upload model.py                       a program; says its number
    python3 client.py run 12 --watch                        a run of program 12, watched until it ends
    python3 client.py run model.py --watch                  upload and run in one
    python3 client.py runs                                  your runs, the newest first
    python3 client.py watch 34                              what happens in run 34, as it happens
    python3 client.py cancel 34
    python3 client.py download 34                           the best candidate as a zip

STITCHWEB_URL and STITCHWEB_TOKEN are taken before what `login` kept. Exit status: 0 done; 1 the run gave nothing or the site
refused; 2 the command makes no sense; 130 interrupted.
"""

from __future__ import annotations

import argparse
import getpass
import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

KEPT = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "stitchweb.json"
TRIES = 5
TIMEOUT_S = 60.0


class Refused(Exception):
    """The site said no, or cannot be reached. The message is for the person."""

    def __init__(self, sentence: str, status: int = 0) -> None:
        super().__init__(sentence)
        self.status = status


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A token goes to the site that it is for, and nowhere else."""

    def redirect_request(self, *_: Any) -> None:
        return None


class Site:
    """A site with its token. Every method raises Refused with a sentence."""

    def __init__(self, url: str, token: str) -> None:
        if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
            raise Refused(f"{url} is no address of a site. It begins with https://")
        self.url = url.rstrip("/")
        self._token = token
        self._opener = urllib.request.build_opener(_NoRedirects)

    def ask(self, path: str, body: Any = None, **headers: str) -> http.client.HTTPResponse:
        """The answer to a GET, or with a body to a POST. Tried again while the site is away; a POST names itself for that."""
        data = None if body is None else json.dumps(body).encode()
        sent = {"Authorization": f"Bearer {self._token}", "User-Agent": "stitchweb-client/1"}
        sent.update({name.replace("_", "-"): value for name, value in headers.items()})
        if data is not None:
            sent.update({"Content-Type": "application/json", "Idempotency-Key": str(uuid.uuid4())})
        for attempt in range(1, TRIES + 1):
            request = urllib.request.Request(f"{self.url}/api/v1/{path}", data, sent)
            try:
                return self._opener.open(request, timeout=TIMEOUT_S)
            except urllib.error.HTTPError as error:
                wait = error.headers.get("Retry-After", "")
                if error.code in (429, 502, 503, 504) and attempt < TRIES:
                    time.sleep(min(60, int(wait)) if wait.isdigit() else 2**attempt)
                    continue
                raise _refusal(error) from None
            except (OSError, http.client.HTTPException) as error:
                if attempt == TRIES:
                    raise Refused(f"{self.url} cannot be reached: {getattr(error, 'reason', error)}.") from None
                time.sleep(min(8, 2 ** (attempt - 1)) / 2)
        raise AssertionError

    def get(self, path: str, **query: Any) -> Any:
        wanted = urllib.parse.urlencode({key: value for key, value in query.items() if value})
        with self.ask(f"{path}?{wanted}" if wanted else path) as answer:
            return json.load(answer)

    def post(self, path: str, body: Any) -> Any:
        with self.ask(path, body) as answer:
            return json.load(answer)

    def events(self, run: int, after: int = 0) -> Iterator[dict[str, Any]]:
        """Every event after that number, then those to come, until the run has ended. Comes back where it was cut off."""
        failures = 0
        while True:
            try:
                with self.ask(f"runs/{run}/watch", Last_Event_ID=str(after), Accept="text/event-stream") as answer:
                    for kind, data in _frames(answer):
                        failures = 0
                        if kind == "end":
                            return
                        if kind == "closed":
                            raise Refused(data["reason"])
                        if kind != "again":
                            after = data["seq"]
                            yield data
            except (OSError, http.client.HTTPException):  # cut off
                failures += 1
                if failures > TRIES:
                    raise Refused(f"{self.url} cannot be reached any more. The run goes on without you.") from None
            time.sleep(1)


def _frames(lines: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Kind and data of each server-sent event."""
    kind, data = "", ""
    for raw in lines:
        line = raw.decode("utf-8").rstrip("\r\n")
        if not line:
            if data:
                yield kind, json.loads(data)
            kind, data = "", ""
        elif line.startswith("event: "):
            kind = line[7:]
        elif line.startswith("data: "):
            data += line[6:]


def _refusal(error: urllib.error.HTTPError) -> Refused:
    try:
        said = json.load(error)
        flaws = [f"  {flaw['at']}: {flaw['detail']} {flaw['way_out']}".rstrip() for flaw in said["errors"]]
        return Refused("\n".join([said["detail"], *flaws]), error.code)
    except (ValueError, KeyError, TypeError, OSError):
        return Refused(f"The site answered {error.code} {error.reason}. Is this the address of a StitchWeb?", error.code)


def told(event: dict[str, Any], before: dict[str, str]) -> str:
    """One event in a line, empty for what a watcher need not see. `before`: what was said last, by thing."""
    kind, said = event["kind"], event["payload"]
    line = ""
    if kind == "run.status":
        line = said.get("doing") or said.get("waiting") or str(said.get("status", "")).replace("_", " ")
    elif kind == "plan.made":
        line = "Plan: " + "; ".join(str(todo["title"]) for todo in said.get("todos", ()))
    elif kind == "candidate.changed" and said.get("verdict"):
        line = f"{said['id']}: {said['verdict']}. {said.get('sentence', '')}"
        kind += said["id"]
    elif kind == "best.changed" and said.get("candidate"):
        line = f"Best so far: {said['candidate']}"
    elif kind == "run.finished":
        line = f"{said.get('verdict', '')}: {said.get('sentence', '')}"
    if before.get(kind) == line:
        return ""
    before[kind] = line
    return line.strip()


def watch(site: Site, run: int) -> int:
    """Follow a run to its end. 0 when something verified came of it."""
    before: dict[str, str] = {}
    for event in site.events(run):
        if line := told(event, before):
            print(f"{event['at'][11:19]}  {line}", flush=True)
    found = site.get(f"runs/{run}")
    print(found["sentence"] or found["status"])
    print(found["page"])
    return 0 if found["best"] else 1


def login(given: argparse.Namespace) -> int:
    token = given.token or getpass.getpass(f"A token of {given.url}/settings/tokens/: ")
    site = Site(given.url, token.strip())
    teams = site.get("teams")
    KEPT.parent.mkdir(parents=True, exist_ok=True)
    KEPT.touch(mode=0o600)
    KEPT.chmod(0o600)
    KEPT.write_text(json.dumps({"url": site.url, "token": token.strip()}))
    print(f"Kept in {KEPT}. Teams: {', '.join(team['slug'] for team in teams) or 'none'}")
    return 0


def _site() -> Site:
    try:
        kept = json.loads(KEPT.read_text())
    except (OSError, ValueError):
        kept = {}
    url, token = os.environ.get("STITCHWEB_URL") or kept.get("url"), os.environ.get("STITCHWEB_TOKEN") or kept.get("token")
    if not (url and token):
        raise Refused("No site yet. First: python3 client.py login https://…  (or set STITCHWEB_URL and STITCHWEB_TOKEN)")
    return Site(url, token)


def _text_of(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise Refused(f"{path} is not UTF-8 at byte {error.start}. Save it as UTF-8.") from None


def upload(given: argparse.Namespace) -> int:
    made = _uploaded(_site(), given)
    print(f"Program {made['id']}: {made['name']}\n{made['page']}")
    return 0


def _uploaded(site: Site, given: argparse.Namespace) -> dict[str, Any]:
    body = {"text": _text_of(given.file), "filename": Path(given.file).name}
    body.update({"name": given.name, "team": given.team, "entry": given.entry})
    made: dict[str, Any] = site.post("programs", body)
    return made


def run(given: argparse.Namespace) -> int:
    site = _site()
    program = int(given.file) if given.file.isdigit() else _uploaded(site, given)["id"]
    body = {"program": program, "target": given.target, "protocol": given.protocol}
    body.update({"attempts": given.attempts, "minutes": given.minutes})
    made = site.post("runs", body)
    print(f"Run {made['id']} of program {program}\n{made['page']}", flush=True)
    return watch(site, made["id"]) if given.watch else 0


def runs(given: argparse.Namespace) -> int:
    for row in _site().get("runs", limit=given.most)["items"]:
        over = f"{row['speedup']['value']:.2f}×" if row["speedup"] and row["speed"] == "faster" else ""
        print(f"{row['id']:>6}  {row['status']:<18} {row['verdict']:<20} {over:>7}  {row['name']}")
    return 0


def cancel(given: argparse.Namespace) -> int:
    made = _site().post(f"runs/{given.run}/cancel", {})
    print(f"Run {made['id']} was asked to end.")
    return 0


def download(given: argparse.Namespace) -> int:
    site = _site()
    found = site.get(f"runs/{given.run}")
    candidate = given.candidate or found["best"]
    if not candidate:
        raise Refused(f"Run {given.run} has no best candidate (it is {found['status']}). Name one: --candidate c1")
    path = Path(given.output or f"run-{given.run}-{candidate}.zip")
    with site.ask(f"runs/{given.run}/candidates/{candidate}/bundle.zip") as answer:
        data = answer.read()
    path.write_bytes(data)
    print(f"{path}, {len(data)} bytes")
    return 0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="client.py", description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name: str, does: Any, about: str) -> argparse.ArgumentParser:
        part = commands.add_parser(name, help=about)
        part.set_defaults(does=does)
        return part

    part = command("login", login, "keep a site's address and a token")
    part.add_argument("url")
    part.add_argument("--token", help="asked for without it, so that no list of processes shows it")
    for name, does, about in (("upload", upload, "upload a program"), ("run", run, "start a run")):
        part = command(name, does, about)
        part.add_argument("file", help="a Python file" if name == "upload" else "a Python file, or the number of a program")
        part.add_argument("--name", default="")
        part.add_argument("--team", default="", help="its slug; your first one without it")
        part.add_argument("--entry", default="", help="the module class, where it is not called Model")
    part.add_argument("--target", default="cpu")
    part.add_argument("--protocol", default="strict", choices=["strict", "quick", "kernelbench"])
    part.add_argument("--attempts", type=int, default=12)
    part.add_argument("--minutes", type=float, default=15)
    part.add_argument("--watch", action="store_true", help="follow it to its end")
    part = command("runs", runs, "list your runs")
    part.add_argument("--most", type=int, default=20)
    part = command("watch", lambda given: watch(_site(), given.run), "follow a run to its end")
    part.add_argument("run", type=int)
    part = command("cancel", cancel, "end a run")
    part.add_argument("run", type=int)
    part = command("download", download, "take a candidate home")
    part.add_argument("run", type=int)
    part.add_argument("--candidate", default="", help="such as c1; the best one without it")
    part.add_argument("-o", "--output", default="")
    given = parser.parse_args(arguments)
    try:
        return int(given.does(given))
    except Refused as refusal:
        print(f"error: {refusal}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
