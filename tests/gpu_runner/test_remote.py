"""A runner and its job's endpoint: progress in order and once, a web process that goes away, cancels, and reports."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gpu_runner import remote
from gpu_runner.contracts import Progress, digest
from gpu_runner.hands import Cancelled, HandsError
from gpu_runner.remote import Account, Gone, JobClient, NotTaken
from tests.agents.loop_world import FakeHands, analysis


class Endpoint:
    """A web process: keeps what it is told, answers with `status`, says `cancel` when asked to. It can be away."""

    def __init__(self) -> None:
        self.said: list[tuple[str, Any]] = []
        self.status: dict[str, int] = {}
        self.refuses: Callable[[dict[str, Any]], int] = lambda body: 200
        self.cancel = False
        self.lost_answers = 0  # requests taken in whose answer never arrives
        self.digests: list[str] = []  # of the files sent
        self.library = b""
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                action = self.path.removeprefix("/jobs/7/")
                data = self.rfile.read(int(self.headers["Content-Length"]))
                assert self.headers["Authorization"] == "Bearer secret"
                endpoint.said.append((action, json.loads(data) if self.headers["Content-Type"].endswith("json") else data))
                if "X-Sha256" in self.headers:
                    endpoint.digests.append(self.headers["X-Sha256"])
                if endpoint.lost_answers:
                    endpoint.lost_answers -= 1
                    self.close_connection = True
                    return
                body = endpoint.said[-1][1]
                refused = endpoint.refuses(body) if isinstance(body, dict) else 200
                self.send_response(endpoint.status.get(action, refused))
                self.end_headers()
                self.wfile.write(json.dumps({"claim": "c", "task": TASK, "cancel": endpoint.cancel}).encode())

            def do_GET(self) -> None:
                action = self.path.removeprefix("/jobs/7/")
                endpoint.said.append((action, self.headers["X-Claim"]))
                self.send_response(endpoint.status.get(action, 200))
                self.end_headers()
                self.wfile.write(endpoint.library)

            def log_message(self, *words: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/jobs/7"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def messages(self) -> list[str]:
        """The texts told so far, each batch counted once, as the real endpoint does."""
        batches = {body["batch"]: body["messages"] for action, body in self.said if action == "progress"}
        return [message["payload"]["text"] for number in sorted(batches) for message in batches[number]]


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    monkeypatch.setattr(remote, "HEARTBEAT_S", 0.05)
    monkeypatch.setattr(remote, "FLUSH_S", 0.01)
    monkeypatch.setattr(remote, "MAX_PAUSE_S", 0.05)
    made = Endpoint()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def client(endpoint: Endpoint) -> Iterator[JobClient]:
    made = JobClient(endpoint.url, "secret", "a runner", "its secret")
    yield made
    made.close()


def line(text: str, stream: str = "build") -> Progress:
    return Progress(kind="log", payload={"stream": stream, "text": text})


def stage(text: str) -> Progress:
    return Progress(kind="stage", payload={"text": text})


def wait_for(look: Any) -> None:
    deadline = time.monotonic() + 20
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_progress_arrives_in_order_and_before_the_report(endpoint: Endpoint, client: JobClient) -> None:
    assert client.claim()
    for number in range(500):
        client.say(stage(str(number)))
    assert client.report({"kind": "analysis"}, seconds=1.5)
    assert endpoint.messages() == [str(number) for number in range(500)]
    action, body = endpoint.said[-1]
    assert (action, body["claim"], body["report"], body["seconds"]) == ("report", "c", {"kind": "analysis"}, 1.5)


def test_log_lines_grow_together_and_none_is_lost(endpoint: Endpoint, client: JobClient) -> None:
    client.claim()
    for number in range(300):
        client.say(line(f"{number}\n"))
        if number % 50 == 0:
            time.sleep(0.005)  # some go out in between
    client.report(None, "done")
    assert "".join(endpoint.messages()) == "".join(f"{number}\n" for number in range(300))


def test_a_batch_whose_answer_is_lost_is_sent_again_under_its_number(endpoint: Endpoint, client: JobClient) -> None:
    client.claim()
    endpoint.lost_answers = 2
    client.say(stage("once"))
    wait_for(lambda: not endpoint.lost_answers)
    client.say(stage("more"))
    client.report(None, "done")
    assert endpoint.messages().count("once") == 1
    assert endpoint.messages()[-1] == "more"


def test_a_web_process_that_is_away_is_waited_for(endpoint: Endpoint, client: JobClient) -> None:
    client.claim()
    endpoint.status = {"progress": 503, "report": 502}
    client.say(stage("while away"))
    done = threading.Thread(target=client.report, args=({"kind": "build"},))
    done.start()
    wait_for(lambda: len(endpoint.said) > 4)
    assert done.is_alive()
    endpoint.status = {}
    done.join(20)
    assert not done.is_alive()
    assert "while away" in endpoint.messages()
    assert endpoint.said[-1][0] == "report"


def test_what_waits_while_nobody_listens_is_bounded(
    endpoint: Endpoint, client: JobClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "MAX_BUFFERED", 10)
    endpoint.status = {"progress": 503}
    client.claim()
    for number in range(100):
        client.say(stage(str(number)))
    endpoint.status = {}
    client.report(None, "done")
    assert len(set(endpoint.messages())) <= 12
    assert endpoint.messages()[-1] == "99"


def test_a_cancel_comes_with_any_answer(endpoint: Endpoint, client: JobClient) -> None:
    client.claim()
    assert not client.cancelled.is_set()
    endpoint.cancel = True
    assert client.cancelled.wait(20)


@pytest.mark.parametrize("status", [401, 404, 409, 410])
def test_a_job_that_is_not_to_be_had_is_left_alone(endpoint: Endpoint, client: JobClient, status: int) -> None:
    endpoint.status = {"claim": status}
    assert not client.claim()


def test_a_job_that_became_anothers_is_given_up(endpoint: Endpoint, client: JobClient) -> None:
    client.claim()
    endpoint.status = {"progress": 410, "report": 410}
    assert client.cancelled.wait(20)
    assert client.gone
    assert not client.report({"kind": "build"})


@pytest.mark.parametrize(("status", "times"), [(413, 1), (400, 1), (500, remote.MAX_FAILED)])
def test_a_report_that_the_site_cannot_take_in_becomes_a_sentence(
    endpoint: Endpoint, client: JobClient, status: int, times: int
) -> None:
    client.claim()
    delivered: list[bool] = []
    endpoint.refuses = lambda body: status if body.get("report") else 200
    sender = threading.Thread(target=lambda: delivered.append(client.report({"kind": "build"})), daemon=True)
    sender.start()
    sender.join(20)
    assert delivered == [True], "the runner waits for ever, and its queue with it"
    sent = [body for action, body in endpoint.said if action == "report"]
    assert [body["report"] for body in sent] == [{"kind": "build"}] * times + [None]
    assert f"status {status}" in sent[-1]["error"]


def test_an_artifact_is_sent_with_the_claim(endpoint: Endpoint, client: JobClient) -> None:
    client.claim()
    client.artifact("trace.json", b"\x00\x01")
    assert ("artifacts/trace.json", b"\x00\x01") in endpoint.said
    assert endpoint.digests == [digest(b"\x00\x01")]


def test_an_artifact_waits_for_a_web_process_that_is_away_and_not_for_one_that_refuses(
    endpoint: Endpoint, client: JobClient
) -> None:
    client.claim()
    endpoint.status = {"artifacts/a": 503, "artifacts/b": 413}
    sender = threading.Thread(target=client.artifact, args=("a", b"a"), daemon=True)
    sender.start()
    wait_for(lambda: [action for action, _ in endpoint.said].count("artifacts/a") > 2)
    endpoint.status.pop("artifacts/a")
    sender.join(20)
    assert not sender.is_alive()
    with pytest.raises(OSError, match="413"):
        client.artifact("b", b"b")
    assert [action for action, _ in endpoint.said].count("artifacts/b") == 1


def test_a_library_is_fetched_with_the_claim_and_bounded(endpoint: Endpoint, client: JobClient) -> None:
    client.claim()
    endpoint.library = b"\x7fELF"
    assert client.built(4) == b"\x7fELF"
    assert ("library", "c") in endpoint.said
    with pytest.raises(OSError, match="more than 3 bytes"):
        client.built(3)


def test_a_library_that_is_there_no_more_is_missed_once(endpoint: Endpoint, client: JobClient) -> None:
    client.claim()
    endpoint.status = {"library": 404}
    with pytest.raises(FileNotFoundError, match="has it no more"):
        client.built(4)
    assert [action for action, _ in endpoint.said].count("library") == 1
    endpoint.status = {"library": 410}
    with pytest.raises(Gone):
        client.built(4)


# ---- the worker around it

TASK = {
    "kind": "analyse", "target": "cpu", "source": {"text": "x", "entry": ""}, "protocol": {"name": "strict"},
    "mode": "eval", "precision": "as-reference",
}  # fmt: skip


def reported(endpoint: Endpoint) -> dict[str, Any]:
    [body] = [body for action, body in endpoint.said if action == "report"]
    return dict(body)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (HandsError("No compiler: install g++."), "No compiler: install g++."),
        (Cancelled(), "The job was cancelled."),
        (ZeroDivisionError("ours"), "The runner failed: ZeroDivisionError: ours"),
    ],
)
def test_whatever_happens_is_reported(endpoint: Endpoint, client: JobClient, answer: Exception, said: str) -> None:
    from gpu_runner.worker import work

    client.claim()
    work(TASK, client, FakeHands(analyse=answer), time.monotonic())
    assert (reported(endpoint)["report"], reported(endpoint)["error"]) == (None, said)


def test_a_report_is_delivered_with_its_duration(endpoint: Endpoint, client: JobClient) -> None:
    from gpu_runner.worker import work

    client.claim()
    work(TASK, client, FakeHands(), time.monotonic() - 5)
    assert reported(endpoint)["report"] == analysis().model_dump(mode="json")
    assert reported(endpoint)["seconds"] >= 5
    assert endpoint.messages() == ["Doing analyse", "analyse line\n"]


def test_what_is_to_be_done_the_site_says_and_no_message(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    from gpu_runner import worker

    hands = FakeHands()
    account = Account(endpoint.url.removesuffix("/jobs/7"), "one@here", "secret", ("run.cpu",))
    monkeypatch.setitem(worker.app.conf, "runner_account", account)
    monkeypatch.setattr(worker, "hands", lambda: hands)
    worker.perform({"id": 7, "token": "secret", "task": TASK | {"source": {"text": "forged", "entry": ""}}})
    assert [task.source.text for task in hands.tasks if task.kind == "analyse"] == ["x"]
    assert reported(endpoint)["report"] is not None


def test_a_task_of_another_version_is_answered(endpoint: Endpoint, client: JobClient) -> None:
    from gpu_runner.worker import work

    client.claim()
    work(TASK | {"surprise": 1}, client, FakeHands(), time.monotonic())
    assert "does not understand the task" in reported(endpoint)["error"]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ([], "Join a site first"),
        (["--join", "ftp://site", "token"], "is no address of a site"),
        (["--join", "http://127.0.0.1:1", "token"], "refused"),
        (["--join", "http://127.0.0.1:1", "/no/such/file"], "No such file"),
    ],
)
def test_a_runner_that_cannot_start_says_why(
    call: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from gpu_runner.serve import main

    assert main([*call, "--account", str(tmp_path / "account.json")]) == 2
    assert said in capsys.readouterr().err


def test_an_account_is_kept_for_its_owner_alone(tmp_path: Path) -> None:
    account = Account("http://site", "one@here", "secret", ("run.cpu",), "redis://broker", "runner-1")
    path = tmp_path / "folder" / "account.json"
    account.write(path)
    assert Account.read(path) == account
    assert path.stat().st_mode & 0o077 == 0
    path.write_text("{}")
    with pytest.raises(ValueError, match="is not a runner's account"):
        Account.read(path)


def test_a_runner_that_is_to_take_nothing_learns_it_with_its_claim(endpoint: Endpoint, client: JobClient) -> None:
    endpoint.status = {"claim": 423}
    assert not client.claim()
    assert client.refused


def test_an_answer_that_was_cut_off_removes_no_runner_and_a_no_of_the_site_does() -> None:
    """A site that is started again answers half a sentence, or with a proxy's page. An account given up for that is lost."""
    answers: list[tuple[int, bytes, int]] = []

    class Site(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            status, body, length = answers.pop(0)
            self.send_response(status)
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(body)
            self.close_connection = True

        def log_message(self, *words: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    account = Account(f"http://127.0.0.1:{server.server_address[1]}", "gpu0@host", "secret", ("run.cpu",))
    try:
        for answer in ((200, b'{"sta', 19), (200, b"", 19), (404, b"<html>no backend</html>", 23), (200, b"[]", 2)):
            answers.append(answer)
            with pytest.raises(OSError, match="answer"):
                remote.present(account, {})
        no = b'{"error": "There is no runner gpu0@host any more."}'
        answers += [(200, b'{"state": "active"}', 19), (404, no, len(no))]
        assert remote.present(account, {}) == "active"
        with pytest.raises(NotTaken, match="no runner gpu0@host any more"):
            remote.present(account, {})
    finally:
        server.shutdown()
        server.server_close()
