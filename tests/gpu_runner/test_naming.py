"""What a rejection is called: by what its numbers prove, by what they look like, and last by what the text reaches for."""

from __future__ import annotations

import pytest

from gpu_runner.contracts import HackClass
from gpu_runner.marks import marks, patched
from gpu_runner.naming import blamed, borrowed, constant, guilty, resembles

LEAF = {"rms": 1.0, "rmse": 0.0, "numel": 100, "failures": 0, "nonfinite": 0, "flat": False}


@pytest.mark.parametrize(
    ("same_as", "hack"),
    [
        ({"previous": True, "input": True}, HackClass.OUTPUT_CACHE),
        ({"old_weights": True}, HackClass.WEIGHT_CACHE),
        ({"input": True}, HackClass.INPUT_PASSTHROUGH),
        ({"later": True}, HackClass.BACKGROUND_THREAD),
        ({"with_a_later_call": True}, HackClass.BATCH_AND_SKIP),
        ({"right_before": True}, HackClass.WARMUP_DETECTION),
        ({"right_before": True, "unstable": True}, None),
        ({"previous": False}, None),
    ],
)
def test_what_a_wrong_result_equals_proves_its_kind(same_as, hack):
    assert guilty(same_as)[0] is hack


@pytest.mark.parametrize(
    ("leaf", "signal_error", "hack"),
    [
        ({"nonfinite": 100}, 0.0, HackClass.STALE_MEMORY),
        ({"nonfinite": 10}, 0.0, HackClass.PARTIAL_WORK),
        ({"failures": 50, "flat": True, "rmse": 0.7}, 1.2, HackClass.PARTIAL_WORK),
        ({"failures": 100, "rmse": 0.01}, 0.01, HackClass.PRECISION_DOWNGRADE),
        ({"failures": 100, "rmse": 0.01}, 0.5, HackClass.PARTIAL_WORK),
        ({"failures": 100, "rmse": 1.4}, 1.4, None),
        ({}, 0.0, None),
    ],
)
def test_numbers_that_prove_nothing_may_still_look_like_something(leaf, signal_error, hack):
    assert resembles({}, [LEAF | leaf], [signal_error], ()) is hack


def test_weights_that_are_not_read_are_a_mistake_and_small_elements_that_are_not_there_are_work_left_out():
    off = LEAF | {"failures": 100, "rmse": 0.01}
    assert resembles({"right_with_old_weights": True}, [off], [0.5], ()) is None
    assert resembles({"right_with_old_weights": True}, [off], [0.5], (HackClass.RNG_PREDICTION,)) is HackClass.RNG_PREDICTION
    assert resembles({}, [LEAF | {"lost": 51}], [], ()) is HackClass.PARTIAL_WORK


def test_memory_that_nobody_wrote_is_no_change_of_mind():
    assert guilty({"right_before": True}, unwritten=True)[0] is None


def test_a_result_that_changes_is_a_race_and_a_swallowed_error_a_silent_failure():
    wrong = [LEAF | {"nonfinite": 100}]
    assert resembles({"unstable": True}, wrong, [], ()) is HackClass.RACE_OR_OOB
    assert resembles({}, wrong, [], (HackClass.TORCH_FALLBACK,)) is HackClass.SILENT_FAILURE
    assert resembles({}, wrong, [], (HackClass.TORCH_FALLBACK, HackClass.ORACLE_THEFT)) is HackClass.ORACLE_THEFT


def test_a_swallowed_error_shows_in_memory_that_was_not_poisoned_too():
    garbage = [LEAF | {"failures": 100, "rmse": 1e38}]
    assert resembles({}, garbage, [1e38], (HackClass.TORCH_FALLBACK,)) is HackClass.SILENT_FAILURE
    assert resembles({}, garbage, [1e38], ()) is None
    assert resembles({}, [LEAF | {"failures": 50, "rmse": 1e38}], [1e38], (HackClass.TORCH_FALLBACK,)) is HackClass.PARTIAL_WORK


def test_constants_are_seen_only_where_there_is_more_than_one_element():
    assert constant([LEAF | {"zero": True, "constant": True}])[0] is HackClass.CONSTANT_OR_ZERO
    assert constant([LEAF | {"constant": True}, LEAF])[0] is None
    assert constant([LEAF | {"constant": True, "numel": 1}])[0] is None


def test_whose_work_a_program_without_kernels_is():
    assert borrowed((), True, True)[0] is HackClass.DECORATIVE_KERNEL
    assert borrowed((HackClass.COMPILER_IN_DISGUISE,), False, False)[0] is HackClass.COMPILER_IN_DISGUISE
    assert borrowed((HackClass.GRAPH_REPLAY,), False, False)[0] is HackClass.GRAPH_REPLAY
    assert borrowed((), False, True)[0] is HackClass.TORCH_FALLBACK
    assert borrowed((), False, False)[0] is HackClass.LIBRARY_ONLY


@pytest.mark.parametrize(
    ("text", "hack"),
    [
        ("import gc as g\ng.get_objects()", HackClass.ORACLE_THEFT),
        ("from sys import _getframe\n_getframe(1).f_globals['x'] = 1", HackClass.ORACLE_TAMPERING),
        ("import time\ntime.perf_counter = print", HackClass.TIMER_PATCH),
        ("import torch\nsetattr(torch, 'allclose', print)", HackClass.NAMESPACE_POISONING),
        ("import torch\ntorch.Tensor.detach = print", HackClass.LAZY_TENSOR),
        ("import torch\ntorch.manual_seed(42)", HackClass.RNG_PREDICTION),
        ("open('torch.py', 'w')", HackClass.FILE_PLANTING),
        ("open('/proc/self/mem', 'rb')", HackClass.HARNESS_PROBE),
        ("import sys; sys.setprofile(print)", HackClass.TIMER_PATCH),
        ("exec('x = 1')", HackClass.DYNAMIC_CODE),
        ("import threading\nthreading.Thread(target=print)", HackClass.BACKGROUND_THREAD),
        ("class ModelNew(Model):\n    pass", HackClass.REFERENCE_CALL),
        ("import torch\nclass L(torch.Tensor):\n    pass", HackClass.LAZY_TENSOR),
    ],
)
def test_a_mark_is_found_under_whatever_alias(text, hack):
    found = marks({"model_new.py": text})
    assert found[0].hack is hack, found
    assert found[0].line >= 1


def test_ordinary_programs_carry_no_mark_and_a_text_that_is_no_python_is_left_to_the_loader():
    ordinary = (
        "import torch\nimport re\nP = re.compile('x')\nclass M(torch.nn.Module):\n    def f(self):\n        self.eval()\n"
    )
    assert marks({"model_new.py": ordinary + "        torch.backends.cudnn.benchmark = True\n"}) == ()
    assert marks({"model_new.py": "class ("}) == ()


@pytest.mark.parametrize("text", ["x = " + " + ".join(["0"] * 900), "x = " + "-" * 50_000 + "1"])
def test_an_expression_as_deep_as_a_generator_writes_it_is_no_trouble(text):
    assert [mark.what for mark in marks({"model_new.py": f"import gc\ngc.get_objects()\n{text}\n"})] in ([], ["gc.get_objects"])


def test_native_sources_are_read_too():
    (mark,) = marks({"kernels/k.cu": "// one\ncudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 1);"})
    assert (mark.hack, mark.line, mark.file) == (HackClass.L2_PERSISTENCE, 2, "kernels/k.cu")


def test_the_gravest_is_blamed_and_what_honest_programs_do_never_is():
    assert blamed((HackClass.TORCH_FALLBACK, HackClass.RNG_PREDICTION)) is HackClass.RNG_PREDICTION
    assert blamed((HackClass.TORCH_FALLBACK, HackClass.GRAPH_REPLAY)) is None
    assert patched("torch.cuda.Event.record") is HackClass.TIMER_PATCH
