"""Profiles: reports of nsys, ncu and torch.profiler, and rows out of the sandbox, become one ProfileSummary
(`stitchweb.profile/1`) with verdicts, evidence and advice.

Reports are untrusted files: they are read with limits, nothing of them is executed, and what they say of their machine's users,
paths, processes and environment is left in them.
"""

from gpu_runner.profile.collect import perform_profile
from gpu_runner.profile.limits import LIMITS, Limits, UnreadableProfile
from gpu_runner.profile.reading import read_profile
from gpu_runner.profile.rows import Row, op_times, parse_rows

__all__ = ["LIMITS", "Limits", "Row", "UnreadableProfile", "op_times", "parse_rows", "perform_profile", "read_profile"]
