"""The model and its tokenizer: from a folder, from the hub, or made up on the spot."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from agents.training import toy
from agents.training.job import Job
from agents.training.recipe import TINY

# A tiny model is told which kind of task it has and nothing of it: its few tokens cannot say more.
TEMPLATE = (
    "{% if messages|length > 0 and 'Feedback' in messages[-1]['content'] and messages[-1]['role'] == 'user' %}<feedback>"
    "{% elif messages|length > 1 and 'Feedback' in messages[-2]['content'] and messages[-2]['role'] == 'user' %}<feedback>"
    "{% else %}<task>{% endif %}"
    "{% for m in messages if m['role'] == 'assistant' %}{{ m['content'] }}<end>{% endfor %}"
)
SPECIAL = ("<pad>", "<end>", "<unknown>", "<task>", "<feedback>")


def load(job: Job) -> tuple[Any, Any]:
    """(model, tokenizer), where the stage starts."""
    import torch
    from transformers import AutoModelForCausalLM

    if job.model.name == TINY and not job.start:
        where = Path(job.out) / "start"
        for part in tiny(job.role, job.seed):
            part.save_pretrained(str(where))
        job = job.model_copy(update={"start": str(where)})  # read from there: a trainer makes its reference model likewise
    name = job.start or job.model.name
    return AutoModelForCausalLM.from_pretrained(name, dtype=getattr(torch, job.model.dtype)), tokenizer_of(job)


def tokenizer_of(job: Job) -> Any:
    """The tokenizer of a model that is not made up."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(job.start or job.model.name)


def tiny(role: str, seed: int) -> tuple[Any, Any]:
    """A Llama of some ten thousand weights, drawn at random, over the pieces of the toy."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = pieces(toy.JUDGE if role == "judge" else toy.CODER)
    torch.manual_seed(seed)
    small = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        max_position_embeddings=512, pad_token_id=0, eos_token_id=1, bos_token_id=None, tie_word_embeddings=False,
    )  # fmt: skip
    return LlamaForCausalLM(small), tokenizer


def pieces(some: tuple[str, ...]) -> Any:
    """A tokenizer whose tokens are these texts, whole."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {word: at for at, word in enumerate((*SPECIAL, *some))}
    inner = Tokenizer(models.WordLevel(vocab=words, unk_token="<unknown>"))  # noqa: S106
    longest = sorted((*SPECIAL, *some), key=len, reverse=True)
    inner.pre_tokenizer = pre_tokenizers.Split(Regex("|".join(map(re.escape, longest))), behavior="isolated")
    inner.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="<end>", unk_token="<unknown>",  # noqa: S106
        additional_special_tokens=["<task>", "<feedback>"], chat_template=TEMPLATE, clean_up_tokenization_spaces=False,
    )  # fmt: skip
