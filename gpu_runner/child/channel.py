"""The child's end of the conversation with the parent: see `gpu_runner/sandbox/channel.py` for the rules."""

import array
import json
import mmap
import os
import socket

MESSAGE_BYTES = 65_536
MAX_FDS = 253


class Channel:
    """Blocking; one message at a time."""

    def __init__(self, fd: int) -> None:
        os.set_inheritable(fd, False)  # a program that becomes another one has left, and that is seen by this end
        self._sock = socket.socket(fileno=fd)
        self._answer_fd = -1
        self._question = ""

    def answer_through(self, fd: int) -> None:
        """Answers too long for a message go into this memory."""
        self._answer_fd = fd

    def receive(self) -> tuple[str, dict, list[int]]:
        """Kind, payload and descriptors of the next message. Raises EOFError when the parent is gone."""
        room = socket.CMSG_SPACE(MAX_FDS * array.array("i").itemsize)
        data, ancillary, _, _ = self._sock.recvmsg(MESSAGE_BYTES, room, socket.MSG_CMSG_CLOEXEC)
        if not data:
            raise EOFError
        fds = array.array("i")
        for level, kind, content in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
        message = json.loads(data)
        received = list(fds)
        if "long" in message:
            fd = received.pop()
            with mmap.mmap(fd, message["long"], mmap.MAP_PRIVATE, mmap.PROT_READ) as memory:
                message = json.loads(memory[:])
            os.close(fd)
        self._question = message["question"]
        return message["kind"], message["payload"], received

    def send(self, kind: str, payload: dict) -> None:
        """Answers the last message received. Raises ValueError when it is too long even for the answer's memory."""
        data = json.dumps({"kind": kind, "payload": payload, "question": self._question}).encode()
        if len(data) > MESSAGE_BYTES:
            if self._answer_fd < 0 or len(data) > os.fstat(self._answer_fd).st_size:
                raise ValueError(f"an answer of {len(data)} bytes is too long")
            with mmap.mmap(self._answer_fd, 0) as memory:
                memory[: len(data)] = data
            data = json.dumps({"long": len(data)}).encode()
        self._sock.send(data)
