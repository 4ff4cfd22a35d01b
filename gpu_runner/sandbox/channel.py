"""The parent's end of the conversation with a sandboxed process: small JSON messages over a Unix socket.

Everything received was written by an adversary. A message is one datagram of at most 64 KiB of JSON, of one of four kinds;
file descriptors travel outwards only. Longer answers come through a memory that the parent made (`ANSWER_BYTES` at most),
longer questions through one made for them.
"""

from __future__ import annotations

import array
import contextlib
import json
import secrets
import select
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gpu_runner.sandbox.errors import ChildProtocol
from gpu_runner.sandbox.memory import Memory

MESSAGE_BYTES = 65_536
# Parsed JSON is many times its text: 8 MiB of empty lists are about 200 MiB in the parent, which is bearable.
ANSWER_BYTES = 8 << 20
MAX_FDS = 200
KINDS = frozenset({"ready", "progress", "done", "error"})
_SLICE_S = 0.2  # how often a waiting parent looks whether it was cancelled


class Ended(Exception):
    """The other side closed its end; why is for the caller to find out."""


class Late(Exception):
    """Nothing arrived in time."""


@dataclass(frozen=True)
class Message:
    kind: str
    payload: dict[str, Any]


class Channel:
    """`sock` is our end of a SEQPACKET pair; `answer` the memory that the child may write a long answer to."""

    def __init__(self, sock: socket.socket, answer: Memory | None = None) -> None:
        self._sock = sock
        self._answer = answer
        self._question = ""
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)

    def send(self, kind: str, payload: dict[str, Any], fds: Sequence[int] = (), timeout: float = 10.0) -> None:
        """Sends one message with its descriptors. Raises Ended when nobody listens, Late when the child does not read.

        It carries a fresh random word that its answer must repeat, so that no answer can be sent before the question is known.
        """
        self._question = secrets.token_hex(8)
        data = json.dumps({"kind": kind, "payload": payload, "question": self._question}).encode()
        with contextlib.ExitStack() as stack:
            if len(data) > MESSAGE_BYTES:
                fds = [*fds, stack.enter_context(Memory.of(data, "stitchweb-message")).fd]
                data = json.dumps({"long": len(data)}).encode()
            if len(fds) > MAX_FDS:
                raise ValueError(f"a message carries at most {MAX_FDS} descriptors, not {len(fds)}")
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
            self._sock.settimeout(timeout)
            try:
                self._sock.sendmsg([data], rights, socket.MSG_NOSIGNAL)
            except TimeoutError:
                raise Late from None
            except OSError:
                raise Ended from None

    def receive(self, deadline: float, stop: Callable[[], None] | None = None) -> Message:
        """The next message, awaited until `deadline` (`time.monotonic`). `stop` is called a few times a second and may raise.

        Raises Ended, Late, or ChildProtocol for what is no message.
        """
        while True:
            left = deadline - time.monotonic()
            if self._poll.poll(1000 * max(0.0, min(left, _SLICE_S))):
                break
            if left <= 0:
                raise Late
            if stop is not None:
                stop()
        try:
            # No room for ancillary data: descriptors that the child sends are dropped by the kernel and show as MSG_CTRUNC.
            data, _, flags, _ = self._sock.recvmsg(MESSAGE_BYTES)
        except OSError:
            raise Ended from None
        if not data:
            raise Ended
        if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
            raise ChildProtocol("The program sent a message that is too long or carries file descriptors, and was ended.")
        return self._checked(_parse(data))

    def _checked(self, value: Any) -> Message:
        if isinstance(value, dict) and set(value) == {"long"} and self._answer is not None:
            size = value["long"]
            if not isinstance(size, int) or isinstance(size, bool) or not 0 < size <= self._answer.size:
                raise ChildProtocol("The program announced a long answer of an impossible size, and was ended.")
            value = _parse(self._answer.read(size))
        if not (isinstance(value, dict) and set(value) == {"kind", "payload", "question"}):
            raise ChildProtocol("The program sent a message without a kind and a payload, and was ended.")
        if value["question"] != self._question:
            raise ChildProtocol("The program sent an answer that nobody had asked for, and was ended.")
        kind, payload = value["kind"], value["payload"]
        if not (isinstance(kind, str) and kind in KINDS and isinstance(payload, dict)):
            raise ChildProtocol("The program sent a message of an unknown kind, and was ended.")
        return Message(kind, payload)

    def close(self) -> None:
        self._sock.close()
        if self._answer is not None:
            self._answer.close()


def _parse(data: bytes) -> Any:
    """Half characters, which a program may utter and no file or database takes, are replaced."""
    try:
        value = json.loads(data.decode())
        if b"\\ud" in data.lower():
            value = json.loads(json.dumps(value, ensure_ascii=False).encode(errors="replace"))
        return value
    except (ValueError, RecursionError):
        raise ChildProtocol("The program sent a message that is not JSON, and was ended.") from None
