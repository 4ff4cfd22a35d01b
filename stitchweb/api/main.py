"""The API as a whole: its routers, how it reads a body, and its description (OpenAPI 3.1)."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from django.http import HttpRequest
from ninja import NinjaAPI
from ninja.openapi.schema import OpenAPISchema
from ninja.parser import Parser

from stitchweb.api.auth import Token
from stitchweb.api.once import HEADER, LONGEST
from stitchweb.api.problems import MEDIA_TYPE, TITLES, Malformed, Problem, set_answers
from stitchweb.api.rest import programs, review, runs, teams, watch

DESCRIPTION = """Programs, runs and reviews of StitchWeb for other programs.

Every request carries `Authorization: Bearer stw_…`. Tokens are made on the page Settings, API tokens; each has scopes, an end
and a limit of requests a minute. What a token may see and do is what its person may, and no more.
"""


class _Parser(Parser):
    """What is nested without end is refused like any other body that is no JSON."""

    def parse_body(self, request: HttpRequest) -> Any:
        try:
            return super().parse_body(request)
        except RecursionError:
            raise Malformed("The body is JSON within JSON without end.") from None
        except UnicodeDecodeError:
            raise Malformed("The body is not UTF-8.") from None


class Api(NinjaAPI):
    """What django-ninja makes, and what it does not know: errors, scopes and headers that all operations share."""

    def get_openapi_schema(self, **options: Any) -> OpenAPISchema:
        """Made once per process: anybody may ask for it, and the addresses stay as they are."""
        return self._described

    @cached_property
    def _described(self) -> OpenAPISchema:
        schema = super().get_openapi_schema()
        problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
        parts = schema["components"].setdefault("schemas", {})
        parts |= problem.pop("$defs") | {"Problem": problem}
        schema["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        scopes = self._scopes()
        for path, methods in schema["paths"].items():
            for method, operation in methods.items():
                scope = scopes[operation["operationId"]]
                operation["security"] = [{"token": [scope]}]
                operation["x-scope"] = scope
                takes = method == "post"
                if takes:
                    operation["parameters"].append(_KEY)
                for status in (400, 401, 403, 404, 429, *((409, 413, 415, 422) if takes else ())):
                    operation["responses"].setdefault(
                        status, {"description": TITLES[status], "content": {MEDIA_TYPE: {"schema": _PROBLEM}}}
                    )
                operation["responses"] = {str(status): said for status, said in operation["responses"].items()}
                if path.endswith(("/runs/{pk}", "/source", "/{cid}", "/files/{path}")):
                    operation["responses"].setdefault("304", {"description": "You have it already (If-None-Match)"})
        return schema

    def _scopes(self) -> dict[str, str]:
        """Operation to the scope that it needs."""
        found: dict[str, str] = {}
        for router in self._get_bound_routers():
            for view in router.path_operations.values():
                for operation in view.operations:
                    token = next(auth for auth in operation.auth_callbacks if isinstance(auth, Token))
                    found[operation.operation_id or self.get_openapi_operation_id(operation)] = token.scope.value
        return found

    def get_openapi_operation_id(self, operation: Any) -> str:
        """The name of the function, which is short and stable."""
        return f"{operation.view_func.__module__.rsplit('.', 1)[-1]}.{operation.view_func.__name__}"


_PROBLEM = {"$ref": "#/components/schemas/Problem"}
_KEY = {
    "in": "header", "name": HEADER, "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": LONGEST, "pattern": r"^[\x21-\x7e]+$"},
    "description": "Names this request: sent again with the same body, it is done once and answered the same, for a day.",
}  # fmt: skip

api = Api(
    title="StitchWeb", version="1", description=DESCRIPTION, urls_namespace="api", docs_url=None, parser=_Parser(),
    servers=[{"url": "/"}],
)  # fmt: skip
for part in (teams, programs, runs, watch, review):
    api.add_router("", part.router)
set_answers(api)
