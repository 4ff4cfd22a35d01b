"""What models answered, recorded while a run asks them, and played again without a model.

A cassette holds answers and no questions, so nothing of a program beyond what a model repeated; what looks like a key is taken
out before anything is written. An answer is found by role, step and number within the step, so a run that is played needs no
memory of its own: where its measurements lead elsewhere than the recorded one's, the role's next answer is taken.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import ValidationError

from agents.llm import client
from agents.llm.client import Answer, Price, Question
from agents.llm.failures import Kind, ModelError
from agents.llm.keys import Secret, without_secrets
from agents.llm.tools import ToolCall
from agents.model_choice import Role
from agents.state import Usage
from gpu_runner.contracts import Contract
from gpu_runner.hands import Cancelled

PLAYED = "cassette/"  # before the name of a model that is a recording
AUTO = f"{PLAYED}auto"  # the shipped one about the program
SHIPPED = Path(__file__).resolve().parents[2] / "examples" / "cassettes"
MOST_BYTES = 20_000_000
MOST_PIECES = 400  # of one answer
SLOWEST_S = 4.0  # that the playing of one answer takes; 0: at once
_LOOK_S = 0.05


class NoCassette(ValueError):
    """A recording that is not there or cannot be read. The message is a sentence with a way out."""


class Called(Contract):
    id: str
    name: str
    arguments: str


class Failed(Contract):
    kind: str
    sentence: str


class Heard(Contract):
    """An answer, or why there was none. `step` and `n`: of the run, and the question's number within the step, from 0."""

    role: Role
    step: int
    n: int
    model: str
    pieces: tuple[str, ...] = ()
    finish: Literal["stop", "length", "tools"] = "stop"
    calls: tuple[Called, ...] = ()
    usage: Usage = Usage()
    counted: bool = False
    seconds: float = 0.0
    first_s: float = 0.0
    tries: int = 1
    error: Failed | None = None


class Cassette(Contract):
    """`source`: digest of the program that the run was about; `about` says in a sentence what there is to see."""

    format: Literal[1] = 1
    about: str = ""
    recorded: str = ""  # ISO date
    program: str = ""
    source: str = ""
    heard: tuple[Heard, ...] = ()

    def due(self, role: Role, step: int, n: int) -> Heard | None:
        """The answer to a role's question number `n` of a step; else the role's next one; None after the last."""
        own = [one for one in self.heard if one.role == role]
        exact = next((one for one in own if (one.step, one.n) == (step, n)), None)
        return exact or next((one for one in own if (one.step, one.n) > (step, n)), None)

    def ask(
        self,
        question: Question,
        price: Price | None,
        say: Callable[[str], None],
        cancelled: Callable[[], bool],
        clock: Callable[[], float],
        place: tuple[Role, int, int],
    ) -> Answer:
        """The recorded answer of that place, said piece by piece. ModelError where an error was recorded or nothing is left."""
        heard = self.due(*place)
        if heard is None:
            raise ModelError("empty", f"The recording has no further answer for the {place[0]}.")
        usage = _priced(heard.usage, price)
        pause = min(SLOWEST_S, heard.seconds) / max(1, len(heard.pieces))
        for piece in heard.pieces:
            _wait(pause, cancelled)
            say(piece)
        if heard.error is not None:
            raise ModelError(_kind(heard.error.kind), heard.error.sentence, usage)
        calls = tuple(ToolCall(one.id, one.name, one.arguments) for one in heard.calls)
        return Answer(
            "".join(heard.pieces), heard.finish, usage, heard.counted, heard.seconds, heard.tries, calls,
            max(1, len(heard.pieces)), heard.first_s,
        )  # fmt: skip


class Recorder:
    """Asks as ever, and writes each answer to a file: whole after each of them, so that a run that is broken off leaves one."""

    def __init__(self, path: Path, source: str = "", program: str = "", about: str = "") -> None:
        self.path, self._lock = path, threading.Lock()
        day = datetime.now(UTC).date().isoformat()
        digest = source_digest(source) if source else ""
        self.cassette = Cassette(about=about, recorded=day, program=program, source=digest)

    def ask(
        self,
        question: Question,
        price: Price | None,
        say: Callable[[str], None],
        cancelled: Callable[[], bool],
        clock: Callable[[], float],
        place: tuple[Role, int, int],
    ) -> Answer:
        """`client.ask`, kept. A question that was cancelled is not."""
        pieces: list[str] = []

        def hear(piece: str) -> None:
            pieces.append(piece)
            say(piece)

        role, step, n = place
        common: dict[str, Any] = {"role": role, "step": step, "n": n, "model": question.model}
        try:
            answer = client.ask(question, price, hear, cancelled, clock)
        except ModelError as error:
            failed = Failed(kind=error.kind, sentence=_clean(str(error), question.secret))
            self._keep(Heard(**common, pieces=_pieces(pieces, question.secret), usage=error.usage, error=failed))
            raise
        calls = [Called(id=one.id, name=one.name, arguments=_clean(one.arguments, question.secret)) for one in answer.calls]
        self._keep(
            Heard(
                **common, pieces=_pieces(pieces, question.secret, answer.text), finish=answer.finish, calls=tuple(calls),
                usage=answer.usage, counted=answer.counted, seconds=answer.seconds, first_s=answer.first_s, tries=answer.tries,
            )
        )  # fmt: skip
        return answer

    def _keep(self, heard: Heard) -> None:
        with self._lock:
            self.cassette = self.cassette.model_copy(update={"heard": (*self.cassette.heard, heard)})
            write(self.cassette, self.path)


Line = Cassette | Recorder


def write(cassette: Cassette, path: Path) -> None:
    """Writes a cassette, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    text = json.dumps(cassette.model_dump(mode="json"), ensure_ascii=False, indent=1)
    new.write_bytes(text.encode(errors="replace") + b"\n")
    new.replace(path)


def load(path: Path) -> Cassette:
    """A cassette out of a file. NoCassette with a sentence."""
    try:
        data = path.read_bytes()[: MOST_BYTES + 1]
    except OSError as error:
        raise NoCassette(f"The recording {path} cannot be read: {error.strerror or error}.") from error
    if len(data) > MOST_BYTES:
        raise NoCassette(f"The recording {path} has more than {MOST_BYTES} bytes; none is that long.")
    try:
        return Cassette.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the whole"
        raise NoCassette(f"{path} is no recording of this version: {where}: {first['msg']}.") from error


@lru_cache(maxsize=8)
def shipped() -> Mapping[str, Cassette]:
    """The recordings that come with this version, by name."""
    return {path.stem: load(path) for path in sorted(SHIPPED.glob("*.json"))}


def named(model: str, source: str) -> Cassette:
    """The recording behind a model's name: `cassette/NAME` of a shipped one, `cassette/` and a path, or `cassette/auto` for
    the shipped one about this program. NoCassette with a sentence."""
    name = model.removeprefix(PLAYED)
    if name in shipped():
        return shipped()[name]
    if model == AUTO:
        if (found := about_program(source)) is None:
            those = ", ".join(f"{one.program} ({key})" for key, one in shipped().items()) or "none"
            raise NoCassette(f"There is no recording about this program. The demo engineer plays those of: {those}.")
        return found
    return load(Path(name))


def about_program(source: str) -> Cassette | None:
    """The shipped recording about a program; None where there is none."""
    digest = source_digest(source)
    return next((one for one in shipped().values() if one.source == digest), None)


def is_played(model: str) -> bool:
    """Whether a model's name is that of a recording."""
    return model.startswith(PLAYED)


def source_digest(source: str) -> str:
    """What a program is known by, whatever its lines end in."""
    return hashlib.sha256(source.replace("\r\n", "\n").strip().encode(errors="replace")).hexdigest()


def _pieces(pieces: Sequence[str], secret: Secret | None, text: str | None = None) -> tuple[str, ...]:
    """The pieces as they came, joined where there are many; one where something had to be taken out, or said twice."""
    whole = "".join(pieces) if text is None else text
    clean = _clean(whole, secret)
    if clean != "".join(pieces):
        return (clean,) if clean else ()
    size = -(-len(pieces) // MOST_PIECES)
    return tuple("".join(pieces[at : at + size]) for at in range(0, len(pieces), size or 1))


def _clean(text: str, secret: Secret | None) -> str:
    text = secret.hidden_in(text) if secret else text
    return without_secrets(text).encode(errors="replace").decode()


def _priced(usage: Usage, price: Price | None) -> Usage:
    """What the recorded tokens cost at a price that is given now; nothing, for nobody is asked, where none is."""
    if price is None:
        return usage
    return usage.model_copy(update={"money": price.of(usage.tokens_in, usage.tokens_out), "unpriced": 0})


def _kind(text: str) -> Kind:
    kinds: Iterable[Kind] = get_args(Kind)
    return next((kind for kind in kinds if kind == text), "server")


def _wait(seconds: float, cancelled: Callable[[], bool]) -> None:
    until = time.monotonic() + seconds
    while True:
        if cancelled():
            raise Cancelled
        left = until - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(_LOOK_S, left))
