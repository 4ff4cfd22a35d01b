"""The broker's and the runner's stand-ins: messages delivered in order, jobs done by given hands over the real endpoint."""

from __future__ import annotations

import json
from collections import deque
from typing import Any

from django.test import Client
from pydantic import TypeAdapter

from gpu_runner.broker import TASK
from gpu_runner.contracts import Progress, Task
from gpu_runner.hands import Hands, HandsError
from stitchweb.runs import dispatch, hosts
from stitchweb.runs.models import Job
from stitchweb.runs.orchestrator import advance
from stitchweb.runs.thinking import think_step


class BrokerAway(Exception):
    """What a client of an absent broker raises."""


class Conveyor:
    """`messages` are (name, queue, arguments). `away` makes sending fail."""

    def __init__(self) -> None:
        self.messages: deque[tuple[str, str, dict[str, Any]]] = deque()
        self.away = False

    def send(self, name: str, queue: str, **arguments: Any) -> None:
        if self.away:
            raise BrokerAway
        self.messages.append((name, queue, arguments))

    def sent(self, name: str) -> list[dict[str, Any]]:
        return [arguments for sent, _, arguments in self.messages if sent == name]

    def run(self, hands: Hands | None = None, most: int = 1000) -> None:
        """Deliver until nothing waits; without hands, jobs stay where they are."""
        kept: list[tuple[str, str, dict[str, Any]]] = []
        while self.messages and most:
            most -= 1
            if (left := self.step(hands)) is not None:
                kept.append(left)
        assert most, "the conveyor never came to rest"
        self.messages.extend(kept)

    def step(self, hands: Hands | None) -> tuple[str, str, dict[str, Any]] | None:
        """Deliver the next message, and give it back when nobody is there for it."""
        name, queue, arguments = self.messages.popleft()
        if name == dispatch.ADVANCE:
            advance(**arguments)
        elif name == dispatch.THINK:
            think_step(**arguments)
        elif name == TASK and hands is not None:
            Runner(arguments["job"]).work(hands)
        else:
            return name, queue, arguments
        return None


class Runner:
    """One delivery of a job, at the endpoint as a runner reaches it."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.job = job
        self.claim_token = ""
        self.told: dict[str, Any] = {}  # the answer to the claim
        self.batch = 0
        self.client = Client()

    def post(self, action: str, body: dict[str, Any], token: str | None = None, secret: str = "") -> tuple[int, dict[str, Any]]:
        answer = self.client.post(
            f"/jobs/{self.job['id']}/{action}",
            json.dumps(body),
            content_type="application/json",
            headers={"Authorization": f"Bearer {token or self.job['token']}", "X-Runner-Secret": secret},
        )
        return answer.status_code, answer.json()

    def claim(self, worker: str = "a runner") -> bool:
        """As a runner of that name, which serves the job's queue and has just been started."""
        secret = hosts.admit(worker, list(Job.objects.filter(pk=self.job["id"]).values_list("queue", flat=True)))
        status, answer = self.post("claim", {"worker": worker}, secret=secret)
        if status == 200:
            self.claim_token, self.told = answer["claim"], answer
        return status == 200

    def progress(self, *messages: Progress, batch: int | None = None) -> tuple[int, dict[str, Any]]:
        self.batch = batch if batch is not None else self.batch + 1
        body = {"claim": self.claim_token, "batch": self.batch, "messages": [m.model_dump(mode="json") for m in messages]}
        return self.post("progress", body)

    def report(self, report: dict[str, Any] | None, error: str = "", seconds: float = 0.5) -> tuple[int, dict[str, Any]]:
        return self.post("report", {"claim": self.claim_token, "report": report, "error": error, "seconds": seconds})

    def work(self, hands: Hands) -> None:
        if not self.claim():
            return
        try:
            done = hands.perform(TypeAdapter(Task).validate_python(self.told["task"]), lambda said: self.progress(said))
        except HandsError as error:
            self.report(None, str(error))
        else:
            self.report(done.model_dump(mode="json"))


def heard(name: str, queues: list[str]) -> None:
    """A runner that was started and has said that it is there."""
    secret = hosts.admit(name, queues)
    assert hosts.present(hosts.known(name, secret), {}, "", {}) == "active"
