"""Those who play at a site under load (`load.py`): viewers of live runs and reviewers, all in this process.

It reads one line of JSON, says "ready", and plays until another line comes; then it prints what they saw, as one line.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

FIRST_WAIT_S = 0.5  # of a page whose socket was closed
THINK_S = 4.0  # of a reviewer over a page, and again before submitting: an item in eight seconds, where people take minutes
ROW = re.compile(r'<li id="ev-(\d+)"')
SCORES = {"anti_hacking": 4, "cuda_engineering": 3, "operator_coverage": 3, "skill_compliance": 4}
FORM = {f"level-{key}": str(level) for key, level in SCORES.items()} | {"hack_level": "none"}
ACTS = ("next", "save", "submit", "page")


@dataclass
class Seen:
    """What the players saw. `came`: per viewer, run and log row, when it came first; `twice`: rows that came again."""

    came: list[dict[int, float]] = field(default_factory=list)
    twice: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    acts: dict[str, list[float]] = field(default_factory=lambda: {act: [] for act in ACTS})
    submitted: list[int] = field(default_factory=list)
    reconnects: int = 0


async def view(session: Any, live_base: str, cookie: str, run: int, seen: Seen, stop: asyncio.Event) -> None:
    """One viewer: follows the run over a WebSocket, and comes back with its cursor."""
    import aiohttp

    came: dict[int, float] = {}
    seen.came.append(came)
    cursor, first, wait, since = 0, True, FIRST_WAIT_S, time.monotonic()
    headers = {"Cookie": f"sessionid={cookie}", "Origin": live_base}
    while not stop.is_set():
        try:
            address = f"{live_base.replace('http', 'ws', 1)}/ws/runs/{run}/?since={cursor}"
            async with session.ws_connect(address, headers=headers, max_msg_size=0) as socket:
                seen.reconnects += not first
                first, since = False, time.monotonic()
                while not stop.is_set():
                    message = await socket.receive(timeout=30)
                    if message.type is not aiohttp.WSMsgType.TEXT:
                        break
                    now, body = time.time(), json.loads(message.data)
                    for row in map(int, ROW.findall(body.get("html", ""))):
                        seen.twice += row in came
                        came.setdefault(row, now)
                    cursor = body["seq"]
                    await socket.send_str(json.dumps({"ack": cursor}))
        except (OSError, aiohttp.ClientError, TimeoutError) as error:
            seen.errors[type(error).__name__] += 1
        # As the page does (static/js/live.js): a socket that held for a while starts from the shortest wait again.
        wait = FIRST_WAIT_S if time.monotonic() - since > 5 else wait
        await asyncio.sleep(wait * random.uniform(0.75, 1.25))
        wait, since = min(2 * wait, 10.0), time.monotonic()


async def review(session: Any, base: str, cookie: str, project: int, seen: Seen, stop: asyncio.Event) -> None:
    """One reviewer: next item, draft, submit. What got no answer is asked again."""
    token = "b" * 32
    headers = {"Cookie": f"sessionid={cookie}; csrftoken={token}", "X-CSRFToken": token, "Referer": base, "Origin": base}

    async def ask(act: str, method: str, path: str, **more: Any) -> tuple[int, Any, bytes]:
        while True:
            began = time.perf_counter()
            try:
                more_headers = headers | more.pop("headers", {})
                async with session.request(method, base + path, headers=more_headers, allow_redirects=False, **more) as answer:
                    body = await answer.read()
            except Exception as error:
                if stop.is_set():
                    raise asyncio.CancelledError from None
                seen.errors[type(error).__name__] += 1
                await asyncio.sleep(0.5)
                continue
            seen.statuses[answer.status] += 1
            if answer.status >= 500:
                if stop.is_set():
                    raise asyncio.CancelledError
                await asyncio.sleep(0.5)
                continue
            seen.acts[act].append(1000 * (time.perf_counter() - began))
            return answer.status, answer.headers, body

    while not stop.is_set():
        status, told, _ = await ask("next", "POST", f"/review/projects/{project}/next")
        place = told.get("Location", "")
        if status != 302 or "/items/" not in place:
            seen.errors[f"next: {status} {place}"] += 1
            await asyncio.sleep(2)
            continue
        await ask("page", "GET", place)
        await asyncio.sleep(THINK_S)
        await ask("save", "POST", place, data=FORM | {"comment": "load", "act": "save"}, headers={"Accept": "application/json"})
        await asyncio.sleep(THINK_S)
        status, _, _ = await ask("submit", "POST", place, data=FORM | {"act": "submit"})
        if status == 302:
            seen.submitted.append(int(re.findall(r"/items/(\d+)/", place)[0]))
        else:
            seen.errors[f"submit: {status}"] += 1


async def play(task: dict[str, Any]) -> None:
    """All viewers and reviewers, until a line comes on standard input; then what they saw, as one line."""
    import aiohttp

    seen, stop = Seen(), asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin, stop.set)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=60)) as session:
        jobs = [
            asyncio.create_task(view(session, task["live_base"], cookie, task["live"][n % len(task["live"])], seen, stop))
            for n, cookie in enumerate(task["viewers"])
        ]
        jobs += [asyncio.create_task(review(session, task["base"], c, task["project"], seen, stop)) for c in task["reviewers"]]
        print("ready", flush=True)
        await stop.wait()
        _, pending = await asyncio.wait(jobs, timeout=40)
        for job in pending:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
    runs = [task["live"][n % len(task["live"])] for n in range(len(task["viewers"]))]
    print(json.dumps({
        "came": [list(came.items()) for came in seen.came], "runs": runs, "twice": seen.twice, "statuses": seen.statuses,
        "errors": seen.errors, "acts": seen.acts, "submitted": seen.submitted, "reconnects": seen.reconnects,
    }), flush=True)  # fmt: skip


if __name__ == "__main__":
    asyncio.run(play(json.loads(sys.stdin.readline())))
