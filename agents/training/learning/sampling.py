"""Answers sampled from the model: by transformers' own generation, or from a server that serves it."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from agents.llm import client
from agents.llm.client import Question
from agents.llm.failures import ModelError
from agents.training.job import Job
from agents.training.service.client import NoService

AT_ONCE = 64  # answers that are sampled in one batch, or asked for at once
SECONDS = 1800.0  # of one answer from a server


def sample(job: Job, model: Any, tokenizer: Any, row: dict[str, Any]) -> list[str]:
    """As many answers to the row's prompt as the stage asks for."""
    import torch

    torch.manual_seed(job.seed)
    device = "cuda" if torch.cuda.is_available() and not job.cpu else "cpu"
    model = model.to(device).eval()
    text = tokenizer.apply_chat_template(row["prompt"], tokenize=False, add_generation_prompt=True)
    question = tokenizer(text, return_tensors="pt", add_special_tokens=False).to(device)
    settings = job.stage.settings
    said: list[str] = []
    while len(said) < job.stage.samples:
        with torch.inference_mode():
            made = model.generate(
                input_ids=question["input_ids"], attention_mask=question["attention_mask"], do_sample=True,
                num_return_sequences=min(AT_ONCE, job.stage.samples - len(said)), max_new_tokens=job.stage.max_tokens,
                temperature=settings.get("temperature", 1.0), top_p=settings.get("top_p", 1.0), top_k=settings.get("top_k", 0),
                pad_token_id=tokenizer.pad_token_id,
            )  # fmt: skip
        said += tokenizer.batch_decode(made[:, question["input_ids"].shape[1] :], skip_special_tokens=True)
    return said


def sampled_from(job: Job, row: dict[str, Any]) -> list[str]:
    """The same from an OpenAI-compatible server that serves the model where this stage starts. Raises NoService."""
    settings = job.stage.settings
    question = Question(
        model=f"openai/{job.start or job.model.name}", messages=row["prompt"], max_tokens=job.stage.max_tokens, seconds=SECONDS,
        api_base=job.stage.server, temperature=settings.get("temperature", 1.0),
    )  # fmt: skip
    try:
        with ThreadPoolExecutor(min(AT_ONCE, job.stage.samples)) as pool:
            return [answer.text for answer in pool.map(client.ask, [question] * job.stage.samples)]
    except ModelError as error:
        raise NoService(f"The server {job.stage.server} that is to be sampled from does not answer: {error}") from None


def looping(text: str) -> bool:
    """Whether an answer says the same over and over: of 20 lines or more, seven in ten have been there before."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return len(lines) >= 20 and len(Counter(lines)) < 0.3 * len(lines)
