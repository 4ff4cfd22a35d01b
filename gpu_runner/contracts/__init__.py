"""The typed messages between the brain, the shop and the hands. Standard library and pydantic only.

Everything here is immutable, serialises to JSON and refuses unknown fields, so that two versions that do not understand
each other say so instead of guessing.
"""

from gpu_runner.contracts.base import BlobRef, Contract, canonical_json, digest
from gpu_runner.contracts.candidate import CandidateFiles, CandidateManifest
from gpu_runner.contracts.graph import Graph, GraphInput, GraphNode, GraphOutput, TensorSpec
from gpu_runner.contracts.program import Mode, Precision, Source
from gpu_runner.contracts.protocol import PROTOCOLS, Protocol
from gpu_runner.contracts.reports import (
    Analysis,
    ArmTiming,
    BuildReport,
    CheckReport,
    CheckRow,
    DeviceInfo,
    Interval,
    Library,
    OpCount,
    ProfileReport,
    Refusal,
    Replay,
    Report,
    TimingReport,
)
from gpu_runner.contracts.tasks import (
    AnalyseTask,
    BuildTask,
    CheckTask,
    Limits,
    ProfileTask,
    Progress,
    Task,
    TimeTask,
)
from gpu_runner.contracts.words import HackClass, Label, Speed, Verdict

__all__ = [
    "PROTOCOLS",
    "AnalyseTask",
    "Analysis",
    "ArmTiming",
    "BlobRef",
    "BuildReport",
    "BuildTask",
    "CandidateFiles",
    "CandidateManifest",
    "CheckReport",
    "CheckRow",
    "CheckTask",
    "Contract",
    "DeviceInfo",
    "Graph",
    "GraphInput",
    "GraphNode",
    "GraphOutput",
    "HackClass",
    "Interval",
    "Label",
    "Library",
    "Limits",
    "Mode",
    "OpCount",
    "Precision",
    "ProfileReport",
    "ProfileTask",
    "Progress",
    "Protocol",
    "Refusal",
    "Replay",
    "Report",
    "Source",
    "Speed",
    "Task",
    "TensorSpec",
    "TimeTask",
    "TimingReport",
    "Verdict",
    "canonical_json",
    "digest",
]
