"""A runner's side of the site: join it, say that one is there, claim a job, stream its progress, deliver its report. Plain
HTTP, standard library only.

The web process may be away at any moment. Progress is buffered (bounded, logs shortened first) and sent again with growing
pauses; the report is repeated until it is accepted or the job has become somebody else's.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any, TypeVar

from gpu_runner.contracts import Progress, digest

log = logging.getLogger(__name__)
Said = TypeVar("Said")

FLUSH_S = 0.1  # at most ten batches a second,
SLOWER, SLOW_S = 10, 0.5  # and as many fewer, down to two, as keep a busy site with us for a tenth of the time
HEARTBEAT_S = 1.0  # a batch goes out this often even when there is nothing to say: it renews the lease and brings a cancel
MAX_PAUSE_S = 10.0
TIMEOUT_S = 30.0
MAX_BUFFERED = 2000  # progress messages kept while the web process is away
MAX_LOG = 64 * 1024  # characters of one stream kept in one message
MAX_BATCH = 200
CLAIM_PATIENCE_S = 300.0
FILE_PATIENCE_S = 60.0  # that a file beside a report, in either direction, is tried again
MAX_FAILED = 12  # answers of 500 to one report, about a minute and a half: longer than a database is busy


class Gone(Exception):
    """The job is done, cancelled or somebody else's: nothing more is wanted from this runner. `status`: of the answer."""

    def __init__(self, sentence: str, status: int = 0) -> None:
        super().__init__(sentence)
        self.status = status


class NotTaken(Exception):
    """The site does not let this runner in. The message is the site's own sentence."""


class NoAnswer(NotTaken):
    """Whoever answers there does not answer as a site does, or not to the end."""


@dataclass(frozen=True)
class Account:
    """What a runner knows of the site that it joined. `broker`: empty where REDIS_URL names it; `user`: its account there."""

    site: str
    name: str
    secret: str
    queues: tuple[str, ...]
    broker: str = ""
    user: str = ""

    @classmethod
    def read(cls, path: Path) -> Account:
        """From a file that `write` made. OSError, or ValueError when it is something else."""
        try:
            fields = json.loads(path.read_text())
            return cls(**fields | {"queues": tuple(fields["queues"])})
        except (TypeError, KeyError, ValueError) as error:
            raise ValueError(f"{path} is not a runner's account: {error}. Remove it and join again.") from error

    def write(self, path: Path) -> None:
        """For its owner alone: whoever reads it can take this runner's jobs."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(asdict(self), file)


def join(site: str, token: str, name: str) -> Account:
    """Spend a joining token. NotTaken with the site's sentence; OSError while the site cannot be reached."""
    site = site.rstrip("/")
    answer = _ask(f"{site}/runners/join", {"token": token, "name": name}, {})
    return Account(site=site, **answer | {"queues": tuple(answer["queues"])})


def present(account: Account, said: dict[str, Any]) -> str:
    """Say that the runner is there. What it is to do: `active`, or why it takes nothing. NotTaken when the site says that it
    was removed; OSError where it cannot be reached, or its answer is cut off or somebody else's, as while it starts again."""
    headers = {"X-Runner-Secret": account.secret}
    try:
        return str(_ask(f"{account.site}/runners/present", {"name": account.name, **said}, headers)["state"])
    except NoAnswer as trouble:
        raise OSError(str(trouble)) from trouble


def _ask(address: str, body: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
    if not address.startswith(("http://", "https://")):
        raise NotTaken(f"{address} is no address of a site: it begins with https:// or http://.")
    headers = {"Content-Type": "application/json"} | headers
    request = urllib.request.Request(address, data=json.dumps(body).encode(), headers=headers, method="POST")  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:  # noqa: S310  http or https, see above
            answer = json.loads(response.read())
    except urllib.error.HTTPError as error:
        if error.code not in (400, 401, 403, 404, 409, 410):
            raise
        try:
            sentence = str(json.loads(error.read())["error"])
        except (ValueError, KeyError, TypeError, HTTPException):
            raise NoAnswer(f"{address} answered {error.code}: is it the address of a StitchWeb site?") from error
        raise NotTaken(sentence) from error
    except (ValueError, HTTPException) as error:
        raise NoAnswer(f"{address} did not answer in JSON: is it the address of a StitchWeb site?") from error
    if not isinstance(answer, dict):
        raise NoAnswer(f"{address} did not answer as a site does.")
    return answer


class JobClient:
    """One job of the endpoint `base` (…/jobs/17), for the runner of that name and secret. Thread-safe; `close` ends the sender
    thread.

    `cancelled` is set when the endpoint's answer said so, or when the job is gone; `refused` when the runner itself is not to
    take jobs.
    """

    def __init__(self, base: str, token: str, worker: str, secret: str) -> None:
        self._base = base.rstrip("/")
        self._token = token
        self._worker = worker
        self._secret = secret
        self._claim = ""
        self._buffer: deque[Progress] = deque()
        self._batch = 0
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self.cancelled = threading.Event()
        self.gone = False
        self.refused = False
        self.task: dict[str, Any] = {}  # what is to be done: the site's word, once it is claimed
        self.keeps = False  # the site wants the library that this job builds
        self.library: dict[str, Any] | None = None  # what another host built for this job's candidate, as `contracts.Library`

    def claim(self) -> bool:
        """Take the job. False when it is not to be had (done, cancelled, or claimed by a living runner)."""
        deadline = time.monotonic() + CLAIM_PATIENCE_S
        pause = 0.2
        while True:
            try:
                answer = self._post("claim", {"worker": self._worker})
            except Gone as gone:
                self.refused = gone.status in (401, 423)
                return False
            except OSError as error:
                if time.monotonic() > deadline:
                    log.warning("%s cannot be reached (%s); the job will be sent again", self._base, error)
                    return False
                time.sleep(pause)
                pause = min(2 * pause, MAX_PAUSE_S)
                continue
            self._claim = str(answer["claim"])
            self.task = found if isinstance(found := answer.get("task"), dict) else {}
            self.keeps, self.library = answer.get("keeps") is True, answer.get("library")
            self._thread = threading.Thread(target=self._send_loop, name="progress", daemon=True)
            self._thread.start()
            return True

    def say(self, progress: Progress) -> None:
        """Queue a message. Log lines of one stream grow together until they are sent."""
        with self._lock:
            last = self._buffer[-1] if self._buffer else None
            same_log = last is not None and last.kind == progress.kind == "log"
            if last is not None and same_log and last.payload.get("stream") == progress.payload.get("stream"):
                text = (str(last.payload.get("text", "")) + str(progress.payload.get("text", "")))[-MAX_LOG:]
                self._buffer[-1] = Progress(kind="log", payload={**last.payload, "text": text})
                return
            if len(self._buffer) >= MAX_BUFFERED:
                self._buffer.popleft()
            self._buffer.append(progress)
        self._wake.set()

    def report(self, report: dict[str, Any] | None, error: str = "", seconds: float = 0.0) -> bool:
        """Deliver what came out: a report, or why the machine could not make one. True when it was accepted.

        All progress goes first, so that the page sees things in order. Blocks until the endpoint answers. What the endpoint
        does not understand, or fails over again and again, becomes a sentence: this runner's other jobs must not wait for it.
        """
        self._stop_sending()
        pause, failed = 0.2, 0
        while True:
            try:
                if failed < MAX_FAILED:
                    self._flush()
                self._post("report", {"claim": self._claim, "report": report, "error": error, "seconds": seconds})
                return True
            except Gone:
                self.gone = True
                return False
            except OSError as trouble:
                log.info("the report waits: %s", trouble)
                status = trouble.code if isinstance(trouble, urllib.error.HTTPError) else 0
                failed += MAX_FAILED if status in (400, 413) else status == 500
                if failed >= MAX_FAILED:
                    report, error = (
                        None,
                        f"The site could not take in the report of this step (status {status}); its log says why.",
                    )
                time.sleep(pause)
                pause = min(2 * pause, MAX_PAUSE_S)

    def artifact(self, name: str, data: bytes) -> None:
        """Store a file beside the report, with its digest. OSError when the endpoint does not take it within a minute; Gone."""
        self._patiently(lambda: self._post(f"artifacts/{name}", data))

    def built(self, limit: int) -> bytes:
        """The bytes of `library`, unchecked. OSError when they do not come within a minute, or are more than `limit`; Gone."""
        request = urllib.request.Request(f"{self._base}/library", headers=self._headers() | {"X-Claim": self._claim})  # noqa: S310

        def fetch() -> bytes:
            try:
                with self._opened(request) as response:
                    return bytes(response.read(limit + 1))
            except Gone as gone:
                if gone.status == 404:
                    raise FileNotFoundError("the site has it no more") from gone
                raise

        data = self._patiently(fetch)
        if len(data) > limit:
            raise OSError(f"it has more than {limit} bytes")
        return data

    def _patiently(self, ask: Callable[[], Said]) -> Said:
        """What is answered. Tried again while the site is away; not after it has refused."""
        deadline, pause = time.monotonic() + FILE_PATIENCE_S, 0.2
        while True:
            try:
                return ask()
            except OSError as trouble:
                final = isinstance(trouble, urllib.error.HTTPError) and trouble.code in (400, 413)
                final = final or isinstance(trouble, FileNotFoundError)
                if final or self.cancelled.is_set() or time.monotonic() + pause > deadline:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, MAX_PAUSE_S)

    def close(self) -> None:
        """End the sender thread. What is unsent is dropped."""
        self._stop_sending()

    def _stop_sending(self) -> None:
        self._closing.set()
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _send_loop(self) -> None:
        pause = 0.0
        while not self._closing.is_set():
            self._wake.wait(timeout=HEARTBEAT_S)
            self._wake.clear()
            if self._closing.wait(timeout=max(FLUSH_S, pause)):
                return
            began = time.monotonic()
            try:
                self._flush(heartbeat=True)
                pause = min(SLOWER * (time.monotonic() - began), SLOW_S)
            except Gone:
                self.gone = True
                self.cancelled.set()
                return
            except OSError as error:
                pause = min(max(SLOW_S, 2 * pause), MAX_PAUSE_S)
                log.info("progress waits %.1f s: %s", pause, error)

    def _flush(self, heartbeat: bool = False) -> None:
        """Send what is buffered, oldest first. A batch keeps its number until it is accepted, so one sent twice counts once."""
        while True:
            with self._lock:
                messages = [self._buffer[i] for i in range(min(MAX_BATCH, len(self._buffer)))]
            if not messages and not heartbeat:
                return
            body = {
                "claim": self._claim,
                "batch": self._batch + 1,
                "messages": [message.model_dump(mode="json") for message in messages],
            }
            answer = self._post("progress", body)
            self._batch += 1
            with self._lock:
                # New lines may have grown onto the last message while it was under way; those stay for the next batch.
                for message in messages:
                    if not self._buffer:
                        break
                    if self._buffer[0] is message:
                        self._buffer.popleft()
                    elif self._buffer[0].kind == message.kind == "log":
                        whole, sent = str(self._buffer[0].payload.get("text", "")), str(message.payload.get("text", ""))
                        rest = whole.removeprefix(sent)
                        self._buffer[0] = Progress(kind="log", payload={**message.payload, "text": rest})
            if answer.get("cancel"):
                self.cancelled.set()
            heartbeat = False

    def _post(self, action: str, body: dict[str, Any] | bytes) -> dict[str, Any]:
        """POST and answer. Gone for a final no; OSError (as urllib raises) for everything worth another try."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = self._headers() | {"Content-Type": "application/json"}
        if action == "claim":
            headers["X-Runner-Secret"] = self._secret
        if isinstance(body, bytes):
            headers |= {"Content-Type": "application/octet-stream", "X-Claim": self._claim, "X-Sha256": digest(body)}
        request = urllib.request.Request(f"{self._base}/{action}", data=data, headers=headers, method="POST")  # noqa: S310
        try:
            with self._opened(request) as response:
                answer = json.loads(response.read() or b"{}")
                return answer if isinstance(answer, dict) else {}
        except ValueError as error:
            raise OSError(f"{self._base}/{action} did not answer in JSON") from error

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"}

    @contextmanager
    def _opened(self, request: urllib.request.Request) -> Iterator[HTTPResponse]:
        """The answer to a request. Gone for a final no."""
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:  # noqa: S310  the address is ours
                yield response
        except urllib.error.HTTPError as error:
            if error.code in (401, 403, 404, 409, 410, 423):
                raise Gone(f"{request.full_url} answered {error.code}", error.code) from error
            raise
        except HTTPException as error:  # cut off in the middle, as when the site is started again
            raise OSError(f"{request.full_url} did not answer to the end: {error!r}") from error
