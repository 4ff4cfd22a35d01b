"""Profiles: rows out of the sandbox become a ProfileSummary (`stitchweb.profile/1`) and one sentence about the bottleneck.

What comes in here are plain rows that a sandboxed process made of its own trace; nothing of the user's is opened or executed.
"""

from gpu_runner.profile.collect import perform_profile
from gpu_runner.profile.rows import Row, op_times, parse_rows
from gpu_runner.profile.summary import summarise

__all__ = ["Row", "op_times", "parse_rows", "perform_profile", "summarise"]
