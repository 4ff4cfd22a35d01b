"""What a program's process may say of its results: what our code cannot have sent is a forgery, and never our failure."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch

from gpu_runner.child import tensors
from gpu_runner.child.arm import Seal
from gpu_runner.child.tensors import encode_literal
from gpu_runner.probing import seen_of
from gpu_runner.sandbox import Memory
from gpu_runner.sandbox.channel import _parse
from gpu_runner.sandbox.output import readable
from gpu_runner.values import Call, Forged, checked_manifest

TENSOR = {"kind": "tensor", "dtype": "float32", "shape": [4], "stride": [1], "offset": 0, "nbytes": 16}


def manifest(**leaf: Any) -> dict[str, Any]:
    return {"tree": "*", "leaves": [TENSOR | leaf], "bytes": 16}


@pytest.mark.parametrize(
    "leaf",
    [
        {"shape": [0, 1 << 61, 1 << 61], "stride": [1, 1, 1], "nbytes": 0},
        {"shape": [1] * 65, "stride": [1] * 65, "nbytes": 4},
        {"shape": [True, 4], "stride": [4, 1]},
        {"dtype": ["float32"]},
        {"kind": "literal", "value": {"float": "much"}},
        {"kind": "literal", "value": {"dtype": "float3"}},
        {"kind": "literal", "value": {"dict": [[["a list"], 1]]}},
        {"kind": "literal", "value": {"dict": [[{"tuple": [["a list"]]}, 1]]}},
        {"kind": "literal", "value": {"unknown": 1}},
        {"kind": "literal"},
    ],
)
def test_a_description_that_the_judge_could_not_read_is_forged(leaf: dict[str, Any]) -> None:
    with pytest.raises(Forged):
        checked_manifest("candidate", manifest(**leaf), 1 << 20)


@pytest.mark.parametrize("value", [None, 1.5, math.inf, "x", (1, [2]), {"a": (1, math.nan)}, {(1, "b"): {True: None}}])
def test_plain_values_are_what_they_are_taken_for(value: Any) -> None:
    leaf = json.loads(json.dumps({"kind": "literal", "value": encode_literal(value)}))
    assert checked_manifest("candidate", {"tree": "*", "leaves": [leaf], "bytes": 0}, 0)["leaves"] == [leaf]


@pytest.mark.parametrize("facts", [{"late": math.inf}, {"late": -1}, {"overwritten": 10**40}, {"outside": {"0": 1e999}}])
def test_a_count_that_is_none_is_forged(facts: dict[str, Any]) -> None:
    with pytest.raises(Forged):
        seen_of("candidate", Call(ns=0, wall_ns=0, facts=facts))


def test_half_characters_do_not_get_through_and_whole_ones_do() -> None:
    assert _parse(b'{"said": "\\ud800 \\uDFFF \\ud83d\\ude00 \\u0000"}') == {"said": "? ? \U0001f600 \0"}


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[31;1mred\x1b[0m", "red"),
        ("\x1b]0;title\x07\x1b]52;c;c2VjcmV0\x1b\\rest", "rest"),
        ("\x1bP+q544e\x1b\\\x1b(B\x1b7\x9b2J.", "."),
        ("10%\r20%\r\ndone", "10%\n20%\ndone"),
        ("a\0b\u202egnp.exe", "a\ufffdb\ufffdgnp.exe"),
        ("\x1b", ""),
    ],
)
def test_untrusted_text_commands_no_terminal_and_stays_readable(said: str, shown: str) -> None:
    assert readable(said) == shown


def test_a_seal_is_held_against_what_is_handed_over() -> None:
    memory = Memory.create(1 << 16)
    x = torch.randn(7, 9).t()
    turned = [torch._neg_view(torch.randn(5)), torch.randn(4, dtype=torch.complex64).conj()]
    out = {"x": x, "more": [*turned, 3, x[:1].expand(4, 7)]}
    seal = Seal(out)
    assert (seal.unreadable, seal.broken(tensors.write(out, memory.fd), memory.fd)) == (False, 0)
    x.add_(1.0)
    assert seal.broken(tensors.write(out, memory.fd), memory.fd) >= 34
    memory.close()


def test_parts_of_one_matrix_share_no_element() -> None:
    whole = torch.randn(8, 12)
    left, right = whole.chunk(2, -1)
    assert not tensors.overlap(left, right)
    assert not tensors.overlap(whole[0], whole[1])
    assert not tensors.overlap(whole[1, :4], whole[:, 5])
    assert all(tensors.overlap(*pair) for pair in ((left, left), (whole, left), (left, whole[:, 5:9])))
    assert tensors.overlap(whole, whole.view(torch.uint8)), "of other sizes: taken for shared"
