"""Which pages fit a situation: what bounds the program, the operations it spends its time in, and what is said about it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from agents.handbook.page import BOTTLENECKS, FAMILIES, Page, pages
from agents.handbook.ranking import Index, words

TITLE, TOPIC = 3.0, 3.0  # how much a word counts in a title and under topics, beside 1 in prose
FIRST, NAMED = 4.0, 0.7  # an operation or a bottleneck that a page names first, or later
BOUND, OP = 2.0, 3.0  # weights in a query, beside what a situation gives its words
LEAST = 0.35  # of the best page's score; what fits less is noise beside it

# PyTorch's operators, without namespace and underscores, by the family that the pages speak of.
_MEMBERS = {
    "pointwise": "add sub mul div pow sqrt rsqrt exp log tanh sigmoid relu gelu silu elu mish softplus hardswish hardsigmoid "
    "hardtanh leaky_relu threshold clamp clamp_min where neg abs maximum minimum erf masked_fill reciprocal square lerp",
    "reduction": "sum mean var std var_mean amax amin max min norm linalg_vector_norm logsumexp prod any all",
    "softmax": "softmax log_softmax safe_softmax",
    "layer_norm": "layer_norm",
    "rms_norm": "rms_norm fused_rms_norm",
    "group_norm": "group_norm instance_norm",
    "batch_norm": "batch_norm batch_norm_legit batch_norm_legit_no_training batch_norm_legit_functional",
    "cross_entropy": "cross_entropy cross_entropy_loss nll_loss nll_loss_forward nll_loss2d nll_loss2d_forward",
    "matmul": "mm addmm bmm baddbmm matmul linear einsum mv addmv dot addmm_activation bilinear",
    "convolution": "convolution conv1d conv2d conv3d convolution_overrideable conv_transpose2d thnn_conv2d conv2d_forward "
    "conv_depthwise2d",
    "attention": "multi_head_attention_forward transformer_encoder_layer_fwd",
    "recurrent": "lstm gru rnn rnn_layer rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell "
    "thnn_fused_lstm_cell thnn_fused_gru_cell",
    "gather": "embedding embedding_bag index_select gather index take take_along_dim",
    "scatter": "scatter scatter_add scatter_reduce index_add index_put index_copy",
    "scan": "cumsum cumprod cummax cummin logcumsumexp",
    "histogram": "bincount histc histogram",
    "sort": "sort argsort topk argmax argmin kthvalue",
    "layout": "transpose permute t contiguous clone cat stack roll flip repeat pad constant_pad_nd im2col unfold pixel_shuffle",
    "copy": "copy to to_copy",
    "dropout": "dropout bernoulli rand randn rand_like randn_like",
    "sync": "item local_scalar_dense nonzero masked_select unique unique2",
}
_FAMILY = {member: family for family, members in _MEMBERS.items() for member in members.split()}
_BACKENDS = re.compile(r"^(native|cudnn|mkldnn|miopen|slow|efficient)_")


def family_of(op: str) -> str | None:
    """The family of an operator as a graph or a profile names it: `aten::_softmax`, `aten.native_layer_norm.default`."""
    bare = _bare(op)
    if bare in FAMILIES:
        return bare
    if "dot_product" in bare or "flash_attention" in bare or "efficient_attention" in bare:
        return "attention"
    if "pool" in bare:
        return "pooling"
    return _FAMILY.get(bare)


def _bare(op: str) -> str:
    name = re.sub(r"^(\w+::|aten\.)", "", op).partition(".")[0].strip("_").lower()
    return _BACKENDS.sub("", name).removesuffix("_backward")


@dataclass(frozen=True)
class Situation:
    """`ops`: operators as graphs and profiles name them, each with its weight (1 for one that matters wholly). `bottlenecks`:
    classes of verdicts. `text`: what is said about the task, each piece with the weight of its words."""

    target: str
    bottlenecks: tuple[str, ...] = ()
    ops: Mapping[str, float] = field(default_factory=dict)
    text: tuple[tuple[str, float], ...] = ()


def fitting(situation: Situation, most: int) -> list[Page]:
    """The pages that fit best, the best first, at most so many; only such as hold for the target. The same each time."""
    by_name = {page.name: page for page in pages()}
    among = [name for name, page in by_name.items() if page.fits(situation.target)]
    ranked = _index().ranked(_query(situation), among)[:most]
    return [by_name[name] for name, score in ranked if score >= LEAST * ranked[0][1]]


def _query(situation: Situation) -> dict[str, float]:
    """Each word once, at the largest weight with which it is asked for."""
    query: dict[str, float] = {}

    def ask(word: str, weight: float) -> None:
        query[word] = max(weight, query.get(word, 0.0))

    for text, weight in situation.text:
        for word in words(text):
            ask(word, weight)
    shares: dict[str, float] = defaultdict(float)
    for op, weight in situation.ops.items():
        if family := family_of(op):
            shares[family] += weight
        else:
            for word in words(_bare(op)):
                ask(word, min(1.0, weight))
    if "softmax" in shares and "matmul" in shares:  # products around a softmax
        shares["attention"] = max(shares["attention"], shares["softmax"], shares["matmul"] / 2)
    for family, weight in shares.items():
        ask(f"op:{family}", OP * min(1.0, weight))
    for klass in situation.bottlenecks:
        # a kernel's verdict may be "latency: launch" where a program's is "latency-bound"
        named = f"{klass.partition(':')[0]}-bound" if ":" in klass else klass
        if named in BOTTLENECKS:
            ask(f"bottleneck:{named}", BOUND)
    return query


@lru_cache
def _index() -> Index:
    return Index({page.name: _counts(page) for page in pages()})


def _counts(page: Page) -> dict[str, float]:
    counts: dict[str, float] = defaultdict(float)
    for text, weight in ((page.title, TITLE), (", ".join(page.topics), TOPIC), (page.prose, 1.0)):
        for word in words(text):
            counts[word] += weight
    for kind, names in (("op", page.ops), ("bottleneck", page.bottlenecks)):
        for at, name in enumerate(names):
            counts[f"{kind}:{name}"] += NAMED if at else FIRST
    return dict(counts)
