"""Headers that each answer carries."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

# Everything comes from the site itself and nothing is inline. `data:` images are the icons in style sheets.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)

# The vendored viewer of profiles writes its own style element. It gets that right, on its own path, and nothing else.
VIEWER = "/static/vendor/speedscope/"
VIEWER_POLICY = CONTENT_SECURITY_POLICY.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'")

# The form that begins a sign-in elsewhere is answered with the way there, which a browser holds against this, too.
ELSEWHERE = "/account/by/"
ELSEWHERE_POLICY = CONTENT_SECURITY_POLICY.replace("form-action 'self'", "form-action 'self' https:")


def security_headers(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Adds the Content-Security-Policy and Permissions-Policy, and keeps pages of people out of shared caches."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        is_viewer = request.path.startswith(VIEWER) and response.status_code in (200, 304)
        policy = VIEWER_POLICY if is_viewer else CONTENT_SECURITY_POLICY
        if request.path.startswith(ELSEWHERE):
            policy = ELSEWHERE_POLICY
        response.headers.setdefault("Content-Security-Policy", policy)
        response.headers.setdefault("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
        if not request.path.startswith("/static/"):
            response.headers.setdefault("Cache-Control", "private, no-cache")
        return response

    return middleware
