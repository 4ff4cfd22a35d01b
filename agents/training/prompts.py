"""What a Coder is asked in training: the same question as in the loop, as a chat."""

from __future__ import annotations

from collections.abc import Mapping

from agents.engineers.llm.prompts import Part, Prompts, composed

_PROMPTS = Prompts()


def coder_messages(
    reference: str, target: str, *, parent: Mapping[str, str] | None = None, task: str = "", points: tuple[str, ...] = (),
    facts: tuple[str, ...] = (),
) -> list[dict[str, str]]:  # fmt: skip
    """A Coder's question as the loop asks it; with a parent it is feedback-driven."""
    words = _PROMPTS.text("target_cpu" if target == "cpu" else "target_cuda")
    system = _PROMPTS.filled("coder", {"target": words})
    system += "\n" + _PROMPTS.text("coder_feedback" if parent else "coder_from_scratch")
    parts = [Part("Reference", reference, data=True), Part("Target", target)]
    parts += [Part(f"Candidate, {path}", text, data=True) for path, text in sorted((parent or {}).items())]
    parts += [Part("Measured", "\n".join(facts), data=True), Part("What to do", task, data=True)]
    parts.append(Part("Feedback", "\n".join(f"- {point}" for point in points), data=True))
    return [{"role": "system", "content": system}, {"role": "user", "content": composed(parts).text}]
