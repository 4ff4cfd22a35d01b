"""Icon and hue of every verdict, label and state. The word itself is always shown: hue is never the only difference."""

from __future__ import annotations

_LOOKS = {
    "verified": ("check", "ok"),
    "finished": ("check", "ok"),
    "analysed": ("check", "ok"),
    "applied": ("check", "ok"),
    "incorrect": ("x", "bad"),
    "input-specialised": ("target", "warn"),
    "build-failed": ("wrench", "bad"),
    "crashed": ("x", "bad"),
    "timed-out": ("clock", "bad"),
    "failed": ("x", "bad"),
    "refused": ("x", "bad"),
    "rejected": ("check", "ok"),
    "neutralised": ("approx", "ok"),
    "accepted": ("check", "ok"),
    "misnamed": ("warn", "warn"),
    "missed": ("x", "bad"),
    "broken": ("wrench", "bad"),
    "not judged": ("ring", ""),
    "no-gain": ("approx", ""),
    "cancelled": ("stop", ""),
    "paused": ("pause", ""),
    "queued": ("ring", ""),
    "waiting": ("clock", ""),
    "awaiting_approval": ("clock", "warn"),
    "reduced-precision": ("half", "warn"),
    "degenerate": ("warn", "warn"),
    "stochastic": ("warn", "warn"),
    "inputs-constant": ("warn", "warn"),
    "clocks-disagree": ("warn", "warn"),
    "unstable-timing": ("warn", "warn"),
    "unsafe-sandbox": ("warn", "warn"),
    "no-own-kernels": ("none", ""),
    "reordered": ("approx", ""),
    "full-precision": ("check", ""),
}
# What a label says, in a sentence that can stand beside a verdict.
LABELS = {
    "full-precision": "Its error is at most twice eager's own, measured against double precision.",
    "reordered": "Its error is up to ten times eager's own, as another order of summation makes it.",
    "reduced-precision": "Its error is more than ten times eager's own: it computes in fewer bits, and no speed is claimed.",
    "no-own-kernels": "None of its time is spent in kernels of its own: PyTorch or another library does the work. "
    "This run does not ask for own kernels, so it may still win.",
    "degenerate": "A trivial program passes the same check, so the verdict says little and no speed is claimed.",
    "stochastic": "The reference gives other results on the same input.",
    "inputs-constant": "get_inputs() gives the same content each time, so a remembered result would not show.",
    "clocks-disagree": "A clock in another process saw more time than the program's own, so no speed is claimed.",
    "unstable-timing": "Its times were too unsteady, or a second process measured others, so no speed is claimed.",
    "below-floor": "It claims less time than reading its inputs takes on this device.",
    "unsafe-sandbox": "It ran without a sandbox.",
}
_LIVE = ("analysing", "planning", "coding", "building", "checking", "timing", "profiling", "deciding", "coded")


def look(word: str) -> tuple[str, str]:
    """(icon, hue) of a word; a plain dash for one that nobody taught us."""
    if word.startswith("hack"):
        return "flag", "hack"
    if word in _LIVE:
        return "run", "live"
    return _LOOKS.get(word, ("none", ""))
