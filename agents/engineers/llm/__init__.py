"""Planner, Coder and Verifier on any model, hosted or a local server, through LiteLLM.

Read it in this order: `agents.llm` (one question to a model), `budget` (what it may cost at most), `loose_json`, `plans`,
`files` and `verdicts` (an answer's text as something typed, or a sentence why not), `prompts` and `evidence` (what a model is
told), `session` (questions of one step) and `engineer`.
"""

from agents.engineers.llm import engineer  # noqa: F401  registers itself
