"""A Coder that works: one model with tools, which reads, edits, builds, verifies, times and profiles before it hands in.

`workbench` is what the tools do: files in memory, and the hands for everything that runs a program. `toolbox` describes them to
a model and reads its calls; `engineer` holds the conversation and its bounds. It plans and judges like the engineer `llm`.
"""

from agents.engineers.agentic import engineer  # noqa: F401  registers itself
