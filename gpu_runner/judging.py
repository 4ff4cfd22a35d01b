"""The parent's side of the judge's process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpu_runner.config import config
from gpu_runner.job import Job
from gpu_runner.peers import Peer, Selections, start
from gpu_runner.values import Value


class JudgePeer(Peer):
    """Compares. No user code. `allclose`: by that rule alone (see `Protocol`)."""

    allclose = False

    @classmethod
    def start(cls, job: Job) -> JudgePeer:
        # Few threads: its many short operations would otherwise wait for one another on a busy machine.
        return cls("judge", start(job, "judge", {}, threads=max(1, min(4, config().threads // 2))), job)

    def _named(self, kind: str, values: Mapping[str, Value], payload: Mapping[str, Any]) -> Any:
        body = {**payload, **{name: value.manifest for name, value in values.items()}, "fds": list(values)}
        return self.ask(kind, body, [value.memory for value in values.values()])

    def compare(
        self,
        protocol_rtol: Mapping[str, float],
        slack_ratio: float,
        candidate: Value,
        eager: Value,
        truth: Value | None = None,
        group: str | None = None,
        slack: Sequence[float] | None = None,
        against: Mapping[str, Value] | None = None,
        bits: bool = False,
        selections: Selections | None = None,
    ) -> dict[str, Any]:
        """The numbers of `child.judge.compare`; `bits` counts the elements that are not the same."""
        values = {"candidate": candidate, "eager": eager} | ({"truth": truth} if truth else {}) | dict(against or {})
        payload = {
            "rtol": dict(protocol_rtol),
            "slack_ratio": slack_ratio,
            "group": group,
            "slack": list(slack) if slack else None,
            "bits": bits,
            "allclose": self.allclose,
        }
        payload["against"] = {name: value.manifest for name, value in (against or {}).items()}
        if selections is not None:
            values["sources"], payload["selections"] = selections.sources, selections.found
        reply: dict[str, Any] = self._named("compare", values, payload)
        return reply

    def nulls(self, rtol: Mapping[str, float], slack_ratio: float, values: Mapping[str, Value]) -> dict[str, Any]:
        """The numbers of each trivial program: `{name: {"leaves": […]}}`."""
        payload = {"rtol": dict(rtol), "slack_ratio": slack_ratio, "allclose": self.allclose}
        reply: dict[str, Any] = self._named("nulls", values, payload)["nulls"]
        return reply

    def signal(self, group: str) -> list[float | None]:
        """What the inputs change in each result, over the draws of a group."""
        return list(self.ask("signal", {"group": group})["signal"])

    def reset(self) -> None:
        self.ask("reset", {})

    def ceilings(self, beyond_cache: int) -> dict[str, float]:
        """What the device can do at most, measured now; see `child.ceilings`. It runs no user code, so it can be believed."""
        payload = {"device": self.job.device, "threads": config().threads, "beyond_cache": beyond_cache}
        return {name: float(value) for name, value in self.ask("ceilings", payload).items()}
