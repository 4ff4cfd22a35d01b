"""What happened in a run, as numbered facts, and the view that is their fold.

An event carries whole small states ("this candidate is now …"), so that folding is replacing by id and the last word wins.
Payloads stay under 8 kB; anything bigger is a blob that the payload names. `events_of` turns one applied outcome into events,
`events_of_progress` a word of the hands; `fold` turns events into the `View` that the run page, the headless
`events.jsonl` and `import_run` share. What may come in: the state, the loop's questions and the contracts.
"""

from agents.events.coalesce import Coalescer
from agents.events.folding import fold, fold_all
from agents.events.sentences import stream_of
from agents.events.shrink import storable
from agents.events.telling import created, events_of, events_of_progress, requested
from agents.events.words import (
    MAX_PAYLOAD,
    AnalysisView,
    AskedView,
    CandidateView,
    ControlView,
    Event,
    EventKind,
    ProfileView,
    ReplayView,
    ResultView,
    RunHeader,
    StatusLine,
    UsageView,
    View,
    replay_key,
)
from agents.result import STOP_SENTENCES

__all__ = [
    "MAX_PAYLOAD",
    "STOP_SENTENCES",
    "AnalysisView",
    "AskedView",
    "CandidateView",
    "Coalescer",
    "ControlView",
    "Event",
    "EventKind",
    "ProfileView",
    "ReplayView",
    "ResultView",
    "RunHeader",
    "StatusLine",
    "UsageView",
    "View",
    "created",
    "events_of",
    "events_of_progress",
    "fold",
    "fold_all",
    "replay_key",
    "requested",
    "storable",
    "stream_of",
]
