"""What a run is asked for and how it stands: statuses, causes, budget, usage and the person's options."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from agents.model_choice import ModelChoice, Role
from gpu_runner.contracts import BlobRef, Contract, Mode, Precision
from gpu_runner.contracts import Protocol as VerifyProtocol

MAX_WIDTH = 8


class Status(StrEnum):
    """Where a run stands. The first six name the step that is due or under way."""

    QUEUED = "queued"
    ANALYSING = "analysing"
    PLANNING = "planning"
    AWAITING_APPROVAL = "awaiting_approval"
    CODING = "coding"
    BUILDING = "building"
    CHECKING = "checking"
    TIMING = "timing"
    PROFILING = "profiling"
    DECIDING = "deciding"
    PAUSED = "paused"
    FINISHED = "finished"
    CANCELLED = "cancelled"
    FAILED = "failed"

    @property
    def ended(self) -> bool:
        return self in (Status.FINISHED, Status.CANCELLED, Status.FAILED)


class StopCause(StrEnum):
    """Why a run ended. Shown to people through `agents.events.STOP_SENTENCES`."""

    TARGET_REACHED = "target-reached"
    TODOS_DONE = "todos-done"
    BUDGET_ATTEMPTS = "budget-attempts"
    BUDGET_WALL = "budget-wall-time"
    BUDGET_TOKENS = "budget-tokens"
    BUDGET_MONEY = "budget-money"
    BUDGET_DEVICE = "budget-device-seconds"
    NO_GAIN = "no-significant-gain"
    CANCELLED = "cancelled"
    AT_ROOFLINE = "at-the-roofline"
    REFUSED = "refused"
    FAILED = "failed"


class Budget(Contract):
    """What a run may spend. None: not bounded. `device_s` counts seconds the hands were busy for this run."""

    attempts: int = 12
    wall_s: float | None = 900.0
    tokens: int | None = None
    money: float | None = None
    device_s: float | None = None


class Search(Contract):
    """How wide a run looks: in each round `width` programs are written and measured at once, from the `beam` best so far.

    `samples`: the Coder answers the same question differently each time, so that several may start from one program.
    """

    width: int = Field(default=1, ge=1, le=MAX_WIDTH)
    beam: int = Field(default=1, ge=1, le=MAX_WIDTH)
    samples: bool = True


class Usage(Contract):
    """What a run has spent. `wall_s` excludes pauses and the waiting for a runner. `unpriced`: tokens, of those in and out,
    whose price is not known, so that `money` says nothing of them."""

    attempts: int = 0
    wall_s: float = 0.0
    tokens_in: int = 0
    tokens_out: int = 0
    unpriced: int = 0
    money: float = 0.0
    device_s: float = 0.0


class Options(Contract):
    """What the person chose at the start."""

    target: str = "cpu"
    planner: str = "offline"
    coder: str = "offline"
    verifier: str = "offline"
    models: dict[Role, ModelChoice] = {}  # of the roles that ask one
    prompts: dict[str, BlobRef] = {}  # name: the text that takes the place of ours
    protocol: VerifyProtocol
    mode: Mode = Mode.EVAL
    precision: Precision = Precision.AS_REFERENCE
    require_own_kernels: bool = False  # a right program that calls libraries alone is rejected
    brief_profiles: bool = False  # under torch.profiler alone
    budget: Budget = Budget()
    search: Search = Search()
    target_speedup: float | None = None  # stop when the best beats its baseline by this ratio
    approve_plan: bool = False
    judge_ties: bool = False  # of programs that are equally fast the one that a judge rates higher is the best
    patience: int = 4  # verified attempts without a significant gain before the run stops
    replan_failures: int = 3  # failures in a row, in any mixture, before a new plan
    seed: int = 0
