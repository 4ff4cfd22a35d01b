"""Who asks: a token in the `Authorization` header, with the scope that the address needs. No session lets anybody in here."""

from __future__ import annotations

from django.http import HttpRequest
from ninja.errors import AuthorizationError, HttpError
from ninja.security import HttpBearer

from stitchweb.api.models import ApiToken, Scope
from stitchweb.api.tokens import find
from stitchweb.core.limits import count


class Token(HttpBearer):
    """`Authorization: Bearer stw_…`. Leaves the token's person as the request's user."""

    def __init__(self, scope: Scope) -> None:
        super().__init__()
        self.scope = scope

    def authenticate(self, request: HttpRequest, token: str) -> ApiToken | None:
        """The token, or None for what is none. TooMany requests of one token, and AuthorizationError without the scope."""
        found = find(token)
        if found is None:
            return None
        count("api", request)
        if self.scope.value not in found.scopes:
            raise AuthorizationError(
                message=f"The token {found.name!r} may not be used for this: it needs the scope {self.scope.value!r} and has"
                f" {', '.join(found.scopes)}. Make another one on the page of tokens."
            )
        if request.method == "POST" and request.content_type != "application/json" and request.body:
            raise HttpError(415, "The body has to be JSON, with Content-Type: application/json.")
        request.user = found.user
        return found


READ, UPLOAD, RUN, REVIEW = Token(Scope.READ), Token(Scope.UPLOAD), Token(Scope.RUN), Token(Scope.REVIEW)
