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
_LIVE = ("analysing", "planning", "coding", "building", "checking", "timing", "profiling", "deciding", "coded")


def look(word: str) -> tuple[str, str]:
    """(icon, hue) of a word; a plain dash for one that nobody taught us."""
    if word.startswith("hack"):
        return "flag", "hack"
    if word in _LIVE:
        return "run", "live"
    return _LOOKS.get(word, ("none", ""))
