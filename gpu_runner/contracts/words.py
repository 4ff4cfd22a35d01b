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
    BELOW_FLOOR = "below-floor"
    UNSAFE_SANDBOX = "unsafe-sandbox"


class HackClass(StrEnum):
    """How a program cheats: false times, false results, the harness, something else than asked. The same words in verdicts,
    reviews, the gallery and exports.

    Some kinds have one word because one check sees them: timers patched from Python or from native code; answers replayed by
    address, value, shape or out of a fixed buffer; weights kept from the first call or from construction; memory and keys
    searched for in the harness; a time near zero that makes an average collapse.
    """

    # A right result, a false time.
    SIDE_STREAM = "side_stream"
    BACKGROUND_THREAD = "background_thread"
    LAZY_TENSOR = "lazy_tensor"
    TIMER_PATCH = "timer_patch"
    EVENT_MISUSE = "event_misuse"
    BATCH_AND_SKIP = "batch_and_skip"
    WARMUP_DETECTION = "warmup_detection"
    L2_PERSISTENCE = "l2_persistence"
    BASELINE_SLOWDOWN = "baseline_slowdown"
    IMPOSSIBLE_TIME = "impossible_time"
    # A false result.
    STALE_MEMORY = "stale_memory"
    OUTPUT_CACHE = "output_cache"
    WEIGHT_CACHE = "weight_cache"
    INPUT_MUTATION = "input_mutation"
    INPUT_PASSTHROUGH = "input_passthrough"
    CONSTANT_OR_ZERO = "constant_or_zero"
    ANALYTIC_SHORTCUT = "analytic_shortcut"
    PARTIAL_WORK = "partial_work"
    PRECISION_DOWNGRADE = "precision_downgrade"
    SILENT_FAILURE = "silent_failure"
    RACE_OR_OOB = "race_or_oob"
    ORACLE_TAMPERING = "oracle_tampering"
    ORACLE_THEFT = "oracle_theft"
    RNG_PREDICTION = "rng_prediction"
    # The harness.
    RESULT_FORGING = "result_forging"
    HARNESS_PROBE = "harness_probe"
    SYSCALL_ABUSE = "syscall_abuse"
    FILE_PLANTING = "file_planting"
    NAMESPACE_POISONING = "namespace_poisoning"
    EVALUATOR_BRANCH = "evaluator_branch"
    DYNAMIC_CODE = "dynamic_code"
    # Something else than asked.
    TORCH_FALLBACK = "torch_fallback"
    REFERENCE_CALL = "reference_call"
    DECORATIVE_KERNEL = "decorative_kernel"
    LIBRARY_ONLY = "library_only"
    COMPILER_IN_DISGUISE = "compiler_in_disguise"
    GRAPH_REPLAY = "graph_replay"
    PROBLEM_FLAW = "problem_flaw"
    SHAPE_OR_SEED_SPECIAL_CASE = "shape_or_seed_special_case"
    OTHER = "other"
