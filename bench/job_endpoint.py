"""A stand-in for the site's side of runners, for a machine without Django: it lets them join, hands out jobs, takes reports.

It answers as `stitchweb.runs.jobs` and `stitchweb.runs.host_views` do, with the same broker accounts, and refuses what those
would refuse. Everything is kept in memory.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import redis
from celery import Celery
from kombu import Exchange, Queue
from pydantic import TypeAdapter

from gpu_runner.broker import BUILD_QUEUE, TASK, access_rules, celery_settings
from gpu_runner.contracts import AnalyseTask, BuildReport, Library, Progress, Report, Task, digest
from gpu_runner.contracts.candidate import LIBRARY_FILE, MODEL_FILE

_PROGRESS: TypeAdapter[list[Progress]] = TypeAdapter(list[Progress])
_REPORT: TypeAdapter[Report] = TypeAdapter(Report)


class Refused(Exception):
    """The answer is this status and nothing else."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@dataclass
class Job:
    """One job. Times are of `time.monotonic`, in seconds; `heard_at`: every word of its runner; `seconds`: as that says."""

    number: int
    name: str
    queue: str
    task: Task
    token: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    claim: str = ""
    runner: str = ""
    cancel: bool = False
    said: list[Progress] = field(default_factory=list)
    batch: int = 0
    report: Report | None = None
    error: str = ""
    files: dict[str, bytes] = field(default_factory=dict)  # sent beside the report
    fetches: int = 0  # of a library
    seconds: float = 0.0
    sent_at: float = 0.0
    heard_at: list[float] = field(default_factory=list)
    done: threading.Event = field(default_factory=threading.Event)

    @property
    def kernels(self) -> dict[str, str]:
        """What its library is made from; empty without a candidate."""
        files = None if isinstance(self.task, AnalyseTask) else self.task.candidate
        return {path: text for path, text in files.files.items() if path != MODEL_FILE} if files else {}

    @property
    def answered_s(self) -> float:
        """From the message to the report; 0 without one."""
        return self.heard_at[-1] - self.sent_at if self.done.is_set() else 0.0

    @property
    def silent_s(self) -> float:
        """The longest that its runner said nothing between the claim and the report."""
        return max((b - a for a, b in zip(self.heard_at, self.heard_at[1:], strict=False)), default=0.0)


class Site:
    """Listens on loopback; a context. `broker`: an address whose account may make others."""

    def __init__(self, broker: str) -> None:
        self.broker = broker
        self.jobs: dict[int, Job] = {}
        self.runners: dict[str, tuple[str, tuple[str, ...]]] = {}  # name: secret, queues
        self.about: dict[str, dict[str, Any]] = {}  # name: what it said of itself
        self._tokens: dict[str, tuple[str, ...]] = {}
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Site:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def token(self, *queues: str) -> str:
        """Joins one runner to these queues, once."""
        made = secrets.token_urlsafe(16)
        self._tokens[made] = queues
        return made

    def queue(self, name: str, queue: str, task: Task) -> Job:
        """A job, and its message in the queue."""
        job = Job(len(self.jobs) + 1, name, queue, task, sent_at=time.monotonic())
        self.jobs[job.number] = job
        # Reached by its name and not declared, as runners may not: see `gpu_runner.worker.serve`.
        place = Queue(queue, Exchange("stitchweb"), routing_key=queue, no_declare=True)
        with Celery("sender") as sender:
            sender.conf.update(celery_settings(self.broker))
            sender.send_task(TASK, kwargs={"job": {"id": job.number, "token": job.token}}, queue=place)
        return job

    # ---- what runners ask, by the last words of the address

    def join(self, body: dict[str, Any]) -> dict[str, Any]:
        queues = self._tokens.pop(body["token"], None)
        if queues is None or body["name"] in self.runners:
            raise Refused(409)
        name, secret, account = body["name"], secrets.token_urlsafe(16), f"runner-{len(self.runners) + 1}"
        known = hashlib.sha256(secret.encode()).hexdigest()
        with redis.Redis.from_url(self.broker) as broker:
            broker.execute_command("ACL", "SETUSER", account, "reset", "on", f"#{known}", *access_rules(account, queues))
        self.runners[name] = secret, queues
        place = self.broker.rpartition("@")[2]
        return {
            "name": name, "secret": secret, "queues": queues, "user": account, "broker": f"redis://{account}:{secret}@{place}",
        }  # fmt: skip

    def present(self, body: dict[str, Any], secret: str) -> dict[str, Any]:
        self._known(body["name"], secret)
        self.about[body["name"]] = {"about": body["about"], "health": body["health"]}
        return {"state": "active"}

    def claim(self, job: Job, body: dict[str, Any], secret: str) -> dict[str, Any]:
        queues = self._known(body["worker"], secret)
        if job.claim or job.queue not in queues:
            raise Refused(410)
        job.claim, job.runner = uuid.uuid4().hex, body["worker"]
        found = self._built(job)
        told = found and Library(sha256=digest(found[0]), report=found[1]).model_dump(mode="json")
        keeps = job.queue == BUILD_QUEUE and job.task.kind == "build"
        return {"claim": job.claim, "task": job.task.model_dump(mode="json"), "keeps": keeps, "library": told}

    def _built(self, job: Job) -> tuple[bytes, BuildReport] | None:
        """What a builder made of the kernels that a job measures."""
        if job.task.kind in ("analyse", "build") or not job.kernels:
            return None
        for other in reversed(self.jobs.values()):
            library, report = other.files.get(LIBRARY_FILE), other.report
            if (
                library
                and isinstance(report, BuildReport)
                and (other.kernels, other.task.target) == (job.kernels, job.task.target)
            ):
                return library, report
        return None

    def artifact(self, job: Job, name: str, data: bytes, sha256: str) -> dict[str, Any]:
        if digest(data) != sha256:
            raise Refused(400)
        job.files.setdefault(name, data)
        return {}

    def library(self, job: Job) -> bytes:
        if (found := self._built(job)) is None:
            raise Refused(404)
        job.fetches += 1
        return found[0]

    def progress(self, job: Job, body: dict[str, Any]) -> dict[str, Any]:
        said = _PROGRESS.validate_python(body["messages"])
        if body["batch"] > job.batch:
            job.said += said
            job.batch = body["batch"]
        return {"cancel": job.cancel}

    def report(self, job: Job, body: dict[str, Any]) -> dict[str, Any]:
        if not job.done.is_set():
            job.report = None if body["report"] is None else _REPORT.validate_python(body["report"])
            job.error, job.seconds = body["error"], body["seconds"]
            job.done.set()
        return {}

    def _known(self, name: str, secret: str) -> tuple[str, ...]:
        known, queues = self.runners.get(name, ("", ()))
        if not known or not secrets.compare_digest(known, secret):
            raise Refused(401)
        return queues

    def answer(self, path: str, data: bytes | None, headers: Any) -> dict[str, Any] | bytes:
        """What an address answers; `data` None: it is asked by GET. Refused where the site refuses."""
        secret = headers.get("X-Runner-Secret", "")
        with self._lock:
            match path.strip("/").split("/"):
                case ["jobs", number, "library"] if data is None:
                    return self.library(self._held(number, headers))
                case ["jobs", number, "artifacts", name] if data is not None:
                    return self.artifact(self._held(number, headers), name, data, headers.get("X-Sha256", ""))
                case ["runners", "join"] if data is not None:
                    return self.join(json.loads(data))
                case ["runners", "present"] if data is not None:
                    return self.present(json.loads(data), secret)
                case ["jobs", number, action] if data is not None:
                    return self._of_job(self._job(number, headers), action, json.loads(data), secret)
        raise Refused(404)

    def _job(self, number: str, headers: Any) -> Job:
        job = self.jobs.get(int(number))
        if job is None or headers.get("Authorization") != f"Bearer {job.token}":
            raise Refused(401)
        return job

    def _held(self, number: str, headers: Any) -> Job:
        """A job that this claim holds."""
        job = self._job(number, headers)
        if job.done.is_set() or not job.claim or headers.get("X-Claim") != job.claim:
            raise Refused(410)
        job.heard_at.append(time.monotonic())
        return job

    def _of_job(self, job: Job, action: str, body: dict[str, Any], secret: str) -> dict[str, Any]:
        if action == "claim":
            told = self.claim(job, body, secret)
        elif body.get("claim") != job.claim or (job.done.is_set() and action != "report"):
            raise Refused(410)
        else:
            told = {"progress": self.progress, "report": self.report}[action](job, body)
        job.heard_at.append(time.monotonic())
        return told


def handler_of(site: Site) -> Callable[..., BaseHTTPRequestHandler]:
    """The class that answers for a site."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer(None)

        def do_POST(self) -> None:
            self.answer(self.rfile.read(int(self.headers["Content-Length"])))

        def answer(self, data: bytes | None) -> None:
            status = 200
            told: dict[str, Any] | bytes = {}
            try:
                told = site.answer(self.path, data, self.headers)
            except Refused as refused:
                status = refused.status
            except (KeyError, ValueError, TypeError):
                status = 400
            self.send_response(status)
            self.end_headers()
            self.wfile.write(told if isinstance(told, bytes) else json.dumps(told).encode())

        def log_message(self, *words: object) -> None:
            pass

    return Handler
