"""A run as a folder: what the headless commands leave behind and `manage.py import_run` takes in.

events.jsonl   every event, one a line, as it happened
state.json     the ended state
result.json    the result line, with protocol, versions, hardware and hashes
candidates/cN/ the sources of every candidate
blobs/         everything that events and state name by content
bundle.zip     the take-home of the best, when there is one
"""

from __future__ import annotations

import json
from pathlib import Path

from agents.blobs import FolderBlobs
from agents.bundle import bundle, result_json
from agents.events import Event
from agents.state import State

EVENTS_FILE, STATE_FILE, RESULT_FILE, BUNDLE_FILE = "events.jsonl", "state.json", "result.json", "bundle.zip"


class FolderTaken(Exception):
    """The folder holds something already. The message is a sentence with a way out."""


class RunFolder:
    """Writes one run. Events are on disk as soon as they are told; the rest follows when the run has ended."""

    def __init__(self, root: Path) -> None:
        """Makes the folder. FolderTaken when it exists and is not empty, or is no folder."""
        if root.exists() and (not root.is_dir() or any(root.iterdir())):
            raise FolderTaken(f"{root} holds something already; name an empty or a new folder.")
        root.mkdir(parents=True, exist_ok=True)
        self.root = root
        self.blobs = FolderBlobs(root / "blobs")
        self._events = (root / EVENTS_FILE).open("w", encoding="utf-8")

    def tell(self, event: Event) -> None:
        """Append one event."""
        self._events.write(event.model_dump_json() + "\n")
        self._events.flush()

    def close(self, state: State | None) -> None:
        """Write what is left to write; with no state (an accident) only the events stay."""
        self._events.close()
        if state is None:
            return
        (self.root / STATE_FILE).write_text(state.model_dump_json(indent=1), encoding="utf-8")
        text = json.dumps(result_json(state, self.blobs), indent=1, ensure_ascii=False, sort_keys=True)
        (self.root / RESULT_FILE).write_text(text + "\n", encoding="utf-8")
        for candidate in state.candidates:
            for path, ref in candidate.files.items():
                file = self.root / "candidates" / candidate.id / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(self.blobs.get(ref))
        if state.best is not None and state.candidate(state.best).confirmed is not None:
            (self.root / BUNDLE_FILE).write_bytes(bundle(state, self.blobs, state.best))
