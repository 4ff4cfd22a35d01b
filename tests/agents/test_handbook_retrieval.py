"""Which pages are found for what is known to come up; and that the same are found each time."""

from __future__ import annotations

import subprocess
import sys

import pytest

from agents.handbook import BOTTLENECKS, FAMILIES, Situation, family_of, fitting, pages
from agents.handbook.ranking import Index, words
from agents.handbook.retrieval import LEAST

PRODUCT, SOFTMAX = {"aten::addmm": 1.0}, {"aten::_softmax": 1.0, "aten::mul": 0.6}


def names(situation: Situation, most: int = 3) -> list[str]:
    return [page.name for page in fitting(situation, most)]


@pytest.mark.parametrize(
    ("target", "bottleneck", "ops", "text", "found"),
    [
        ("cpu", "memory-bound", SOFTMAX, "Fuse scale, mask and softmax", ["cpu-softmax"]),
        ("cpu", "dispatch-bound", {"aten::lstm": 1.0}, "", ["cpu-recurrent", "cpu-one-call"]),
        ("cpu", "memory-bound", {"aten::native_layer_norm": 1.0, "aten::gelu": 1.0}, "", ["cpu-normalisation"]),
        ("cpu", "compute-bound", {"aten::mm": 1.0}, "", ["cpu-matrix-product"]),
        ("cpu", "memory-bound", {"aten::embedding_bag": 1.0}, "", ["cpu-gather"]),
        ("cpu", "compute-bound", {"aten::mkldnn_convolution": 1.0}, "", ["cpu-convolution"]),
        ("sm_80", "compute-bound", PRODUCT, "float32", ["split-tensor-core-products", "tiled-matrix-product"]),
        ("sm_90", "compute-bound", PRODUCT, "half precision wgmma", ["warpgroup-products", "tensor-cores-mma"]),
        ("sm_90", "memory-bound", PRODUCT, "batch of one", ["matrix-vector"]),
        ("sm_90", "memory-bound", PRODUCT, "Bias and activation in the epilogue", ["epilogue-fusion"]),
        (
            "sm_90",
            "memory-bound",
            {"aten::bmm": 1.0, "aten::_softmax": 0.9},
            "attention",
            ["flash-attention", "online-softmax"],
        ),
        (
            "sm_90",
            "launch-bound",
            {"aten::mul": 1.0},
            "Fuse chains of small operations",
            ["launch-overhead", "pointwise-fusion"],
        ),
        ("sm_90", "launch-bound", {"aten::mul": 1.0}, "Capture the iteration in a graph", ["cuda-graphs"]),
        ("sm_90", "sync-bound", {"aten::item": 0.2, "aten::sum": 0.6}, "", ["no-synchronisation"]),
        ("sm_90", "transfer-bound", {"aten::copy_": 1.0}, "", ["host-transfers"]),
        ("sm_90", "dependency-bound", {}, "", ["streams-and-events"]),
        ("sm_90", "memory-bound", {"aten::native_group_norm": 1.0, "aten::silu": 0.5}, "", ["group-norm"]),
        ("sm_90", "memory-bound", {"aten::mean": 0.5, "aten::pow": 0.4}, "RMSNorm", ["rms-norm"]),
        ("sm_90", "memory-bound", {"aten::_log_softmax": 1.0, "aten::nll_loss_forward": 0.4}, "", ["cross-entropy"]),
        ("sm_90", "memory-bound", {"aten::convolution": 1.0}, "groups = channels, depthwise", ["depthwise-convolution"]),
        ("sm_90", "compute-bound", {"aten::cudnn_convolution": 1.0}, "", ["implicit-gemm-convolution"]),
        ("sm_90", "memory-bound", {"aten::max_pool2d_with_indices": 1.0}, "", ["pooling"]),
        ("sm_90", "latency-bound", {"aten::cumsum": 1.0}, "", ["prefix-scan"]),
        ("sm_90", "latency: occupancy", {"aten::sum": 0.3}, "too few blocks, low occupancy", ["occupancy"]),
        (
            "sm_90",
            "memory-bound",
            {"aten::clone": 1.0},
            "permute, contiguous",
            ["transpose-tiles", "strides-and-channels-last"],
        ),
        ("sm_90", "memory-bound", {"aten::bincount": 1.0}, "", ["histogram-atomics"]),
        ("sm_90", "latency-bound", {"aten::index_add_": 1.0}, "", ["scatter-segments"]),
        ("sm_90", "memory-bound", {"aten::topk": 1.0}, "", ["row-selection"]),
        ("sm_90", "memory-bound", {"aten::cat": 1.0, "aten::silu": 0.4}, "concatenation, split gate and up", ["concatenation"]),
    ],
)
def test_what_comes_up_finds_its_pages(
    target: str, bottleneck: str, ops: dict[str, float], text: str, found: list[str]
) -> None:
    assert set(found) <= set(names(Situation(target, (bottleneck,), ops, ((text, 1.0),))))


def test_only_pages_for_the_target_are_found() -> None:
    everything = " ".join(page.title for page in pages())
    for target in ("cpu", "sm_80", "sm_90", "sm_100"):
        found = fitting(Situation(target, BOTTLENECKS, {}, ((everything, 1.0),)), 100)
        assert found
        assert all(page.fits(target) for page in found)
    assert "warpgroup-products" not in names(Situation("sm_100", (), PRODUCT, (("wgmma hopper warpgroup", 1.0),)), 100)


def test_where_nothing_is_known_no_page_is_found() -> None:
    assert names(Situation("sm_90")) == []
    assert names(Situation("sm_90", ("insufficient", "gpu-bound"), {"aten::fft_rfft": 1.0}, (("xyzzy", 1.0),))) == []


def test_what_fits_much_less_than_the_best_is_left_out() -> None:
    one = names(Situation("sm_90", (), {}, (("philox dropout mask", 1.0),)), 100)
    assert one[0] == "dropout-philox"
    assert len(one) < len(pages()) / 4
    assert 0 < LEAST < 1


def test_the_same_pages_are_found_in_another_process() -> None:
    """Hashes of strings differ from one process to the next; an order that hangs on them would show."""
    program = (
        "from agents.handbook import Situation, fitting\n"
        "s = Situation('sm_90', ('memory-bound',), {'aten::add': 0.5, 'aten::mul': 0.5}, (('fuse float32 rows', 1.0),))\n"
        "print([page.name for page in fitting(s, 30)])"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed, "PYTHONPATH": "."}, capture_output=True, text=True
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(said) == 1
    assert len(said.pop()) > 10


@pytest.mark.parametrize(
    ("op", "family"),
    [
        ("aten::_softmax", "softmax"),
        ("aten.native_layer_norm.default", "layer_norm"),
        ("native_layer_norm", "layer_norm"),
        ("aten::cudnn_convolution", "convolution"),
        ("aten::_native_batch_norm_legit_no_training", "batch_norm"),
        ("aten::_scaled_dot_product_flash_attention_for_cpu", "attention"),
        ("aten::adaptive_avg_pool2d", "pooling"),
        ("aten::copy_", "copy"),
        ("aten::add_", "pointwise"),
        ("aten::add.Tensor", "pointwise"),
        ("add.Tensor", "pointwise"),
        ("aten::_local_scalar_dense", "sync"),
        ("aten::embedding_dense_backward", None),
        ("prims::weird", None),
        ("", None),
    ],
)
def test_an_operator_belongs_to_a_family(op: str, family: str | None) -> None:
    assert family_of(op) == family
    assert family is None or family in FAMILIES


def test_every_family_and_bottleneck_is_the_first_word_of_some_page() -> None:
    firsts = {names[0] for page in pages() for names in (page.ops, page.bottlenecks) if names}
    assert set(BOTTLENECKS) - firsts <= {"balanced"}
    assert set(FAMILIES) <= firsts


def test_words_are_small_singular_and_cut_where_names_are_joined() -> None:
    assert words("GroupNorm and group_norms of the 1024-wide RMSNorm") == [
        "group", "norm", "group", "norm", "1024", "wide", "rms", "norm",
    ]  # fmt: skip
    assert words("softmaxes classes bias loss") == ["softmaxe", "classe", "bias", "loss"]


def test_rare_words_count_more_than_common_ones_and_long_texts_less() -> None:
    index = Index({"a": {"x": 1, "y": 1}, "b": {"x": 1, "z": 1}, "c": {"x": 1, "z": 1}, "long": {"x": 1, "y": 1, "pad": 50}})
    assert [name for name, _ in index.ranked({"y": 1.0, "x": 1.0})] == ["a", "long", "b", "c"]
    scores = dict(index.ranked({"y": 1.0}))
    assert scores["a"] > scores["long"] > 0
    assert dict(index.ranked({"z": 2.0}))["b"] == 2 * dict(index.ranked({"z": 1.0}))["b"]
    assert [name for name, _ in index.ranked({"z": 1.0})] == ["b", "c"]
    assert index.ranked({"unheard": 1.0}) == []
