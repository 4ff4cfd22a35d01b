"""Every kind of cheat in words: what it does, and which evaluator believes it. For the site's page and for reviewers."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_runner.contracts import HackClass as H


@dataclass(frozen=True)
class Words:
    """`does`: the cheat in one sentence; `fools`: who takes it for good, as the end of "It fools an evaluator that …"."""

    does: str
    fools: str


@dataclass(frozen=True)
class Family:
    title: str
    about: str
    kinds: tuple[H, ...]


FAMILIES = (
    Family(
        "A right result, a false time",
        "The work is done, but not where or when the clock looks.",
        (
            H.SIDE_STREAM, H.BACKGROUND_THREAD, H.LAZY_TENSOR, H.TIMER_PATCH, H.EVENT_MISUSE, H.BATCH_AND_SKIP,
            H.WARMUP_DETECTION, H.L2_PERSISTENCE, H.BASELINE_SLOWDOWN, H.IMPOSSIBLE_TIME,
        ),
    ),
    Family(
        "A false result",
        "Something is returned that only looks like the answer.",
        (
            H.STALE_MEMORY, H.OUTPUT_CACHE, H.WEIGHT_CACHE, H.INPUT_MUTATION, H.INPUT_PASSTHROUGH, H.CONSTANT_OR_ZERO,
            H.ANALYTIC_SHORTCUT, H.PARTIAL_WORK, H.PRECISION_DOWNGRADE, H.SILENT_FAILURE, H.RACE_OR_OOB, H.ORACLE_TAMPERING,
            H.ORACLE_THEFT, H.RNG_PREDICTION,
        ),
    ),
    Family(
        "The evaluator itself",
        "The program works on whoever judges it.",
        (
            H.RESULT_FORGING, H.HARNESS_PROBE, H.SYSCALL_ABUSE, H.FILE_PLANTING, H.NAMESPACE_POISONING, H.EVALUATOR_BRANCH,
            H.DYNAMIC_CODE,
        ),
    ),
    Family(
        "Something else than was asked",
        "Right, perhaps even fast, and not a kernel of its own for this program.",
        (
            H.TORCH_FALLBACK, H.REFERENCE_CALL, H.DECORATIVE_KERNEL, H.LIBRARY_ONLY, H.COMPILER_IN_DISGUISE, H.GRAPH_REPLAY,
            H.PROBLEM_FLAW, H.SHAPE_OR_SEED_SPECIAL_CASE,
        ),
    ),
)  # fmt: skip

WORDS: dict[H, Words] = {
    H.SIDE_STREAM: Words(
        "Launches its kernels on a stream of its own, so the stream that is timed has nothing to do.",
        "measures one stream, with events or by waiting for that stream alone",
    ),
    H.BACKGROUND_THREAD: Words(
        "Returns an unfinished result at once and lets a thread or another process fill it in.",
        "stops the clock when the call returns and compares a moment later",
    ),
    H.LAZY_TENSOR: Words(
        "Returns something that behaves like a tensor and computes only when somebody reads it.",
        "compares with the program's own objects, after the clock has stopped",
    ),
    H.TIMER_PATCH: Words(
        "Replaces or slows the clock that it is measured with, from Python or in native code.",
        "keeps time inside the process of the program",
    ),
    H.EVENT_MISUSE: Words(
        "Swaps, moves or records again the CUDA events around its call.",
        "lets the program make the events, or believes events without a second clock",
    ),
    H.BATCH_AND_SKIP: Words(
        "Collects several calls and does their work in one of them.",
        "times many calls together, divides, and compares only the last result",
    ),
    H.WARMUP_DETECTION: Words(
        "Counts calls or waits: honest while it is checked, cheaper once it is timed.",
        "checks first and then times without comparing results again",
    ),
    H.L2_PERSISTENCE: Words(
        "Pins its data in the GPU's second-level cache, so that flushing it has no effect.",
        "flushes the cache by writing a large buffer and trusts that",
    ),
    H.BASELINE_SLOWDOWN: Words(
        "Is no faster itself, but keeps cores, memory or library functions busy while others are timed.",
        "times the baseline beside or after the program, or in its process",
    ),
    H.IMPOSSIBLE_TIME: Words(
        "Claims a time in which the device could not even have read the inputs.",
        "takes any number for a time and averages over it",
    ),
    H.STALE_MEMORY: Words(
        "Computes nothing and returns memory in which somebody's answer may still lie.",
        "runs reference and program in one process, where freed memory keeps its content",
    ),
    H.OUTPUT_CACHE: Words(
        "Remembers a result by address, object, shape or size, and hands it out again.",
        "calls again and again with the same tensors or the same content",
    ),
    H.WEIGHT_CACHE: Words(
        "Keeps what it made of the first weights, and goes on with that when others are loaded.",
        "never changes parameters after the program was built",
    ),
    H.INPUT_MUTATION: Words(
        "Writes into its inputs, for scratch memory or so that the reference computes something else.",
        "hands the same tensors to the reference afterwards, or never looks at inputs again",
    ),
    H.INPUT_PASSTHROUGH: Words(
        "Returns its input, or a copy of it.",
        "draws inputs on which the program happens to be the identity, or has a generous tolerance",
    ),
    H.CONSTANT_OR_ZERO: Words(
        "Returns zeros, or one number everywhere.",
        "has an absolute tolerance above the size of the true results",
    ),
    H.ANALYTIC_SHORTCUT: Words(
        "Leaves out work that makes no difference on the inputs that it is shown.",
        "draws all inputs from one friendly distribution",
    ),
    H.PARTIAL_WORK: Words(
        "Does a part: some rows, some tiles, a sample of a mean, not the buffers.",
        "compares samples or averages, or leaves the rest of the memory as the reference wrote it",
    ),
    H.PRECISION_DOWNGRADE: Words(
        "Computes in fewer bits than asked for, where that is faster.",
        "has a tolerance made for 16 bits and compares times across precisions",
    ),
    H.SILENT_FAILURE: Words(
        "Its kernel fails, the error is swallowed, and whatever lies in the buffer goes out.",
        "looks neither at error states nor at what memory held before",
    ),
    H.RACE_OR_OOB: Words(
        "Depends on the order of threads, or reads and writes outside of its tensors.",
        "runs once, compares once, and has nothing around its inputs",
    ),
    H.ORACLE_TAMPERING: Words(
        "Overwrites the expected result, or the comparison, in the process that it shares with them.",
        "keeps the expected result where the program runs",
    ),
    H.ORACLE_THEFT: Words(
        "Looks through objects, frames and modules for the expected result, or for the reference to ask.",
        "computes the expected result in the same process",
    ),
    H.RNG_PREDICTION: Words(
        "Knows or sets the seed, draws the test inputs itself and answers for those.",
        "seeds with a known number, or draws inputs in the program's process",
    ),
    H.RESULT_FORGING: Words(
        "Writes a finished verdict to wherever the evaluator reads it, or leaves with the status of success.",
        "believes what the judged process prints, sends or returns",
    ),
    H.HARNESS_PROBE: Words(
        "Searches the harness in its process for keys, state and functions, and replaces some.",
        "keeps secrets or the rules themselves where the program runs",
    ),
    H.SYSCALL_ABUSE: Words(
        "Asks the kernel for what a program should not have: another process' memory, priority, signals.",
        "runs programs without a filter on system calls",
    ),
    H.FILE_PLANTING: Words(
        "Leaves files that the next process loads: a torch.py, a start-up file, another library.",
        "runs several programs in one folder, or checks one file and loads another",
    ),
    H.NAMESPACE_POISONING: Words(
        "Redefines functions that the evaluator or the reference use: comparisons, random numbers, built-ins.",
        "loads reference, program and comparison into one interpreter",
    ),
    H.EVALUATOR_BRANCH: Words(
        "Looks at arguments, environment, parents and callers, and behaves only where it smells a test.",
        "tests and measures in processes that can be told apart",
    ),
    H.DYNAMIC_CODE: Words(
        "Hides what it does from a reader: encoded text, assembled names, code fetched or built at run time.",
        "judges by reading or by a list of forbidden words",
    ),
    H.TORCH_FALLBACK: Words(
        "Comes with a kernel that is never reached or always fails, and lets PyTorch answer.",
        "looks for a kernel in the text and not at what ran",
    ),
    H.REFERENCE_CALL: Words(
        "Calls the reference, under its own name or another.",
        "lets the program import what it is compared with",
    ),
    H.DECORATIVE_KERNEL: Words(
        "Runs a kernel whose result does not matter, beside a library that does the work.",
        "is content when some kernel of the program ran",
    ),
    H.LIBRARY_ONLY: Words(
        "Calls other functions of the library, and has no kernel.",
        "was to reward kernels and rewards a rewritten call",
    ),
    H.COMPILER_IN_DISGUISE: Words(
        "Hands the reference to torch.compile, a script or a trace.",
        "compares with eager alone and takes a compiler's speedup for the program's",
    ),
    H.GRAPH_REPLAY: Words(
        "Captures the library's kernels in a CUDA graph and replays them.",
        "takes saved launches for faster kernels, or never brings inputs at another place",
    ),
    H.PROBLEM_FLAW: Words(
        "Uses that the reference itself does nothing: a product with zero, a softmax over one column.",
        "takes a speedup on such a reference for the merit of the program",
    ),
    H.SHAPE_OR_SEED_SPECIAL_CASE: Words(
        "Is right for the declared shape alone, and wrong or broken for any other.",
        "shows one shape and lets people believe that the others work",
    ),
    H.OTHER: Words("Cheats in a way that has no word here yet.", "does not look for it"),
}
