"""A caller of the API: a person with a token, who asks and gets JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from django.test import Client

from stitchweb.api.models import Scope
from stitchweb.api.tokens import make_token
from stitchweb.teams.models import User


@dataclass
class Caller:
    """`ask` gives the status and the JSON of the answer; `last` is the answer itself."""

    token: str
    last: Any = None

    def raw(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        sent = {"Authorization": f"Bearer {self.token}"} | {name.replace("_", "-"): value for name, value in headers.items()}
        more = {} if body is None else {"content_type": "application/json"}
        data = body if isinstance(body, bytes | None) else json.dumps(body)
        client = Client(raise_request_exception=False)
        self.last = client.generic(method, f"/api/v1/{path}", data or b"", headers=sent, **more)
        return self.last

    def get(self, path: str, **headers: str) -> tuple[int, Any]:
        return self._said(self.raw("GET", path, **headers))

    def post(self, path: str, body: Any, **headers: str) -> tuple[int, Any]:
        return self._said(self.raw("POST", path, body, **headers))

    @staticmethod
    def _said(answer: Any) -> tuple[int, Any]:
        return answer.status_code, json.loads(answer.content) if answer.content else None


def caller(user: User, *scopes: str) -> Caller:
    """A caller with a fresh token of that person; by default with every scope."""
    count = user.api_tokens.count()
    return Caller(make_token(user, f"token {count}", scopes or Scope.values, 7)[1])


def streamed(answer: Any) -> str:
    """What a stream that ends by itself says, all of it."""
    from asgiref.sync import async_to_sync

    async def read() -> str:
        return "".join([part.decode() async for part in answer.streaming_content])

    return async_to_sync(read)()
