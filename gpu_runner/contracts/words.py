"""The closed vocabularies: verdicts, speed words, labels and hack classes. One spelling for code, tables and pages."""

from __future__ import annotations

from enum import StrEnum


class Verdict(StrEnum):
    """About correctness alone. `no-gain` and `refused` are verdicts of a whole loop."""

    VERIFIED = "verified"
    INCORRECT = "incorrect"
    INPUT_SPECIALISED = "input-specialised"
    HACK = "hack"  # shown and stored together with a HackClass, as "hack:<class>"
    BUILD_FAILED = "build-failed"
    CRASHED = "crashed"
    TIMED_OUT = "timed-out"
    NO_GAIN = "no-gain"
    REFUSED = "refused"


class Speed(StrEnum):
    """Against a named baseline. Faster means ratio >= 1.05 with the lower bound of its interval above 1."""

    FASTER = "faster"
    NOT_DISTINGUISHABLE = "not-distinguishable"
    SLOWER = "slower"
    NOT_CLAIMED = "not-claimed"


class Label(StrEnum):
    """Facts that stand beside a verdict."""

    FULL_PRECISION = "full-precision"
    REORDERED = "reordered"
    REDUCED_PRECISION = "reduced-precision"
    NO_OWN_KERNELS = "no-own-kernels"
    DEGENERATE = "degenerate"
    STOCHASTIC = "stochastic"
    INPUTS_CONSTANT = "inputs-constant"
    CLOCKS_DISAGREE = "clocks-disagree"
    UNSTABLE_TIMING = "unstable-timing"
    UNSAFE_SANDBOX = "unsafe-sandbox"


class HackClass(StrEnum):
    """How a program cheats. The same words in verdicts, reviews and exports."""

    TORCH_FALLBACK = "torch_fallback"
    REFERENCE_CALL = "reference_call"
    LIBRARY_ONLY = "library_only"
    CONSTANT_OR_ZERO = "constant_or_zero"
    INPUT_MUTATION = "input_mutation"
    INPUT_PASSTHROUGH = "input_passthrough"
    PARTIAL_WORK = "partial_work"
    STALE_MEMORY = "stale_memory"
    OUTPUT_CACHE = "output_cache"
    WEIGHT_CACHE = "weight_cache"
    SIDE_STREAM = "side_stream"
    BACKGROUND_THREAD = "background_thread"
    LAZY_TENSOR = "lazy_tensor"
    TIMER_PATCH = "timer_patch"
    BATCH_AND_SKIP = "batch_and_skip"
    PRECISION_DOWNGRADE = "precision_downgrade"
    SHAPE_OR_SEED_SPECIAL_CASE = "shape_or_seed_special_case"
    L2_PERSISTENCE = "l2_persistence"
    HARNESS_PROBE = "harness_probe"
    RESULT_FORGING = "result_forging"
    RACE_OR_OOB = "race_or_oob"
    IMPOSSIBLE_TIME = "impossible_time"
    OTHER = "other"
