"""The state of one run: one typed, serialisable object that the reducer in `agents.loop` moves.

Big texts (sources, graphs, logs, profiles) are blobs, addressed by content and held by the shell's `BlobStore`; the state
holds references. Times are seconds since the epoch and enter only as data, the reducer never asks a clock.
"""

from agents.state.outcomes import (
    HANDS,
    Analysed,
    Broken,
    Built,
    Checked,
    Coded,
    Decided,
    Outcome,
    Planned,
    Profiled,
    Steered,
    Step,
    StepKind,
    Stop,
    Timed,
    Unusable,
)
from agents.state.parts import (
    REFERENCE,
    AnalysisSummary,
    BlobStore,
    Candidate,
    CandidateStatus,
    Control,
    Decision,
    Plan,
    Route,
    Todo,
    TodoStatus,
)
from agents.state.run import SCHEMA_VERSION, State
from agents.state.words import Budget, Options, Status, StopCause, Usage

__all__ = [
    "HANDS",
    "REFERENCE",
    "SCHEMA_VERSION",
    "Analysed",
    "AnalysisSummary",
    "BlobStore",
    "Broken",
    "Budget",
    "Built",
    "Candidate",
    "CandidateStatus",
    "Checked",
    "Coded",
    "Control",
    "Decided",
    "Decision",
    "Options",
    "Outcome",
    "Plan",
    "Planned",
    "Profiled",
    "Route",
    "State",
    "Status",
    "Steered",
    "Step",
    "StepKind",
    "Stop",
    "StopCause",
    "Timed",
    "Todo",
    "TodoStatus",
    "Unusable",
    "Usage",
]
