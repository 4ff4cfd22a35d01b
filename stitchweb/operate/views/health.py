"""What watches the site asks: does the process live, is it ready, what are its measures. Answered without a session."""

from __future__ import annotations

import logging

import redis
from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.crypto import constant_time_compare
from django.views.decorators.http import require_safe

logger = logging.getLogger(__name__)
_HERE = ("127.0.0.1", "::1")
_migrated = False


@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """The process answers. It asks nobody else, so a database that is away restarts no web process."""
    return JsonResponse({"ok": True})


@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """200 when database, its tables and the broker are there, else 503: send people to another process."""
    parts = {"database": _database(), "broker": _broker()}
    return JsonResponse({"ok": all(parts.values()), **parts}, status=200 if all(parts.values()) else 503)


def _database() -> bool:
    global _migrated
    try:
        if _migrated:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")
        else:
            executor = MigrationExecutor(connection)
            _migrated = not executor.migration_plan(executor.loader.graph.leaf_nodes())
    except DatabaseError as error:
        logger.warning("not ready: the database does not answer (%s)", error)
        return False
    return _migrated


def _broker() -> bool:
    try:
        with redis.Redis.from_url(settings.BROKER_URL, socket_connect_timeout=2, socket_timeout=2) as broker:
            return bool(broker.ping())
    except redis.RedisError as error:
        logger.warning("not ready: the broker does not answer (%s)", error)
        return False


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """For Prometheus: with `Authorization: Bearer METRICS_TOKEN`, or, where none is set, from this machine without a proxy."""
    if not _may_measure(request):
        raise PermissionDenied("Set METRICS_TOKEN and send it as a bearer token, or ask from the same machine.")
    from stitchweb.operate.measures import text  # here: nobody else needs the library

    return HttpResponse(text(), content_type="text/plain; version=0.0.4; charset=utf-8")


def _may_measure(request: HttpRequest) -> bool:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if settings.METRICS_TOKEN:
        return scheme == "Bearer" and constant_time_compare(token, settings.METRICS_TOKEN)
    return request.META.get("REMOTE_ADDR") in _HERE and "X-Forwarded-For" not in request.headers
