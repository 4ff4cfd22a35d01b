"""What every template may use."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest


def site(request: HttpRequest) -> dict[str, Any]:
    """`unsafe_sandbox`: programs run without isolation, which every page says in a banner."""
    return {"unsafe_sandbox": settings.SANDBOX == "unsafe"}
