"""A runner's side of the job endpoint: claim a job, stream its progress, deliver its report. Plain HTTP, standard library only.

The web process may be away at any moment. Progress is buffered (bounded, logs shortened first) and sent again with growing
pauses; the report is repeated until it is accepted or the job has become somebody else's.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import urllib.error
import urllib.request
from collections import deque
from typing import Any

from gpu_runner.contracts import Progress

log = logging.getLogger(__name__)

FLUSH_S = 0.1  # at most ten batches a second
HEARTBEAT_S = 1.0  # a batch goes out this often even when there is nothing to say: it renews the lease and brings a cancel
MAX_PAUSE_S = 10.0
TIMEOUT_S = 30.0
MAX_BUFFERED = 2000  # progress messages kept while the web process is away
MAX_LOG = 64 * 1024  # characters of one stream kept in one message
MAX_BATCH = 200
CLAIM_PATIENCE_S = 300.0
MAX_FAILED = 12  # answers of 500 to one report, about a minute and a half: longer than a database is busy


class Gone(Exception):
    """The job is done, cancelled or somebody else's: nothing more is wanted from this runner."""


class JobClient:
    """One job of the endpoint `base` (…/jobs/17). Thread-safe; `close` ends the sender thread.

    `cancelled` is set when the endpoint's answer said so, or when the job is gone.
    """

    def __init__(self, base: str, token: str, worker: str) -> None:
        self._base = base.rstrip("/")
        self._token = token
        self._worker = worker
        self._claim = ""
        self._buffer: deque[Progress] = deque()
        self._batch = 0
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self.cancelled = threading.Event()
        self.gone = False

    def claim(self) -> bool:
        """Take the job. False when it is not to be had (done, cancelled, or claimed by a living runner)."""
        deadline = time.monotonic() + CLAIM_PATIENCE_S
        pause = 0.2
        while True:
            try:
                answer = self._post("claim", {"worker": self._worker})
            except Gone:
                return False
            except OSError as error:
                if time.monotonic() > deadline:
                    log.warning("%s cannot be reached (%s); the job will be sent again", self._base, error)
                    return False
                time.sleep(pause)
                pause = min(2 * pause, MAX_PAUSE_S)
                continue
            self._claim = str(answer["claim"])
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
        """Store a file beside the report. Sent once; OSError when the endpoint does not take it."""
        self._post(f"artifacts/{name}", data)

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
            try:
                self._flush(heartbeat=True)
                pause = 0.0
            except Gone:
                self.gone = True
                self.cancelled.set()
                return
            except OSError as error:
                pause = min(max(0.2, 2 * pause), MAX_PAUSE_S)
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
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        if isinstance(body, bytes):
            headers |= {"Content-Type": "application/octet-stream", "X-Claim": self._claim}
        request = urllib.request.Request(f"{self._base}/{action}", data=data, headers=headers, method="POST")  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:  # noqa: S310  the address is ours
                answer = json.loads(response.read() or b"{}")
                return answer if isinstance(answer, dict) else {}
        except urllib.error.HTTPError as error:
            if error.code in (401, 403, 404, 409, 410):
                raise Gone(f"{self._base}/{action} answered {error.code}") from error
            raise
        except ValueError as error:
            raise OSError(f"{self._base}/{action} did not answer in JSON") from error
