"""manage.py up: everything on this machine with one command, and nothing left when it ends."""

from __future__ import annotations

import signal
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import connections

from gpu_runner.broker import runner_name
from gpu_runner.remote import Account
from stitchweb.core.embedded import broker, running
from stitchweb.core.embedded.gpus import visible_gpus
from stitchweb.core.embedded.ports import holder, is_free
from stitchweb.core.embedded.supervisor import CannotStart, Child, Supervisor
from stitchweb.runs import hosts
from stitchweb.runs.first import login_address
from stitchweb.runs.sweeper import release_everything

READY_S = 60.0
_COLOURS = {"web": 34, "agent": 35, "broker": 33, "sweeper": 36}


class Command(BaseCommand):
    help = "Starts web, agent worker, runners, broker and sweeper, and prints a login link. Ctrl-C stops all of it."
    requires_migrations_checks = False

    def handle(self, *args: Any, **options: Any) -> None:
        self._lock = threading.Lock()
        if where := running.address(settings.DATA_DIR, settings.BROKER_SOCKET):
            raise CommandError(
                f"The site of {settings.DATA_DIR} runs already, at {where}. A new login link: "
                f"{sys.executable} manage.py login_link. Another site beside it: "
                f"DATA_DIR=FOLDER PORT={settings.PORT + 1} make run"
            )
        if not is_free(settings.HOST, settings.PORT):
            raise CommandError(
                f"Port {settings.PORT} is in use by {holder(settings.PORT)}. "
                f"Stop it, or choose another port: PORT={settings.PORT + 1} make run"
            )
        settings.DATA_DIR.mkdir(parents=True, exist_ok=True)
        supervisor = Supervisor(self._line, settings.BASE_DIR)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, supervisor.request_stop)
        try:
            with ExitStack() as notes:
                self._start(supervisor, notes)
                supervisor.run()
        except (CannotStart, broker.BrokerError) as error:
            raise CommandError(str(error)) from error
        finally:
            if supervisor.children:
                self._line("up", "stopping")
            supervisor.stop()
            if any(child.name == "broker" for child in supervisor.children):
                broker.clean(settings.BROKER_SOCKET)

    def _start(self, supervisor: Supervisor, notes: ExitStack) -> None:
        with self._telling("database"):
            call_command("migrate", interactive=False, verbosity=0)
        with self._telling("static files"):
            call_command("collectstatic", interactive=False, verbosity=0)
        if not settings.REDIS_URL:
            with self._telling("broker"):
                supervisor.start(Child("broker", broker.prepare(settings.DATA_DIR, settings.BROKER_SOCKET)))
                broker.wait(settings.BROKER_SOCKET)
            # Its private broker makes this the only site on the data, so whatever was being worked on no longer is.
            notes.enter_context(running.noted(settings.DATA_DIR, settings.SITE_URL))
            release_everything()
        for child in self._children():
            supervisor.start(child)
        for name, queue, env in self._runners():
            known_as, account = runner_name(name), settings.DATA_DIR / "runners" / f"{name}.json"
            Account(settings.JOB_ENDPOINT, known_as, hosts.admit(known_as, [queue]), (queue,)).write(account)
            command = [sys.executable, "-m", "gpu_runner.serve", "--name", name, "--account", str(account)]
            supervisor.start(Child(name, command, env, grace_s=3.0))
        link = login_address()
        connections.close_all()
        self._wait_for_web(supervisor)
        if not supervisor.stopping:
            self._line("up", f"ready. Open this link once to sign in:\n\n    {link}\n")

    def _children(self) -> Iterator[Child]:
        python, manage = sys.executable, str(settings.BASE_DIR / "manage.py")
        address = ("-b", settings.HOST, "-p", str(settings.PORT))
        yield Child("web", [python, "-m", "daphne", *address, "--access-log", "/dev/null", "stitchweb.asgi:application"])
        yield Child(
            "agent",
            [python, manage, "agent"],
            grace_s=2.0,  # what it is thinking about is resumed from its row
        )
        yield Child("sweeper", [python, manage, "sweep"], grace_s=1.0)

    def _runners(self) -> Iterator[tuple[str, str, dict[str, str]]]:
        """Name, queue and environment of one runner per device."""
        env = settings.RUNNER_ENV | {"REDIS_URL": settings.BROKER_URL}
        yield "cpu", "run.cpu", env
        for device, target in visible_gpus(env.get("CUDA_VISIBLE_DEVICES")):
            yield f"gpu{device}", f"run.{target}", env | {"CUDA_VISIBLE_DEVICES": device}

    def _wait_for_web(self, supervisor: Supervisor) -> None:
        host = "127.0.0.1" if settings.HOST == "0.0.0.0" else settings.HOST  # noqa: S104
        deadline = time.monotonic() + READY_S
        while not supervisor.stopping:
            supervisor.check()
            try:
                request = urllib.request.Request(f"http://{host}:{settings.PORT}/health/", headers={"Host": "127.0.0.1"})
                with urllib.request.urlopen(request, timeout=2) as answer:  # noqa: S310  our own address
                    if answer.status == 200:
                        return
            except OSError:
                pass
            if time.monotonic() > deadline:
                raise CannotStart(f"The web process did not answer within {READY_S:.0f} s; its own words are above.")
            time.sleep(0.1)

    @contextmanager
    def _telling(self, what: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self._line("up", f"{what}: ready in {time.monotonic() - began:.1f} s")

    def _line(self, name: str, line: str) -> None:
        with self._lock:
            if name == "broker" and "overcommit" in line:
                return  # advice to the machine's owner about saving large data, of which this server has none
            prefix = f"{name:>8} | "
            if self.stdout.isatty():
                prefix = f"\x1b[{_COLOURS.get(name, 32)}m{prefix}\x1b[0m"
            self.stdout.write(prefix + line)
            self.stdout.flush()
