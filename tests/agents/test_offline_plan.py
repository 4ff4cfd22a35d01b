"""The plan of the offline engineer, on graphs as data: no torch, no compiler."""

from __future__ import annotations

import itertools

import pytest

from agents.blobs import MemoryBlobs
from agents.diagnosis import DiagnosedRow, Diagnosis
from agents.engineers import Context, UnusableAnswer
from agents.engineers.offline import Offline
from agents.engineers.offline.coder import applied, write_candidate
from agents.engineers.offline.graph import View
from agents.engineers.offline.ir import NotFusible
from agents.engineers.offline.nests import make_nest
from agents.engineers.offline.planner import make_todos, regions_of
from agents.engineers.offline.statistics import with_statistics_apart
from gpu_runner.contracts import (
    Analysis,
    CandidateFiles,
    DeviceInfo,
    Graph,
    GraphInput,
    GraphNode,
    GraphOutput,
    OpCount,
    TensorSpec,
)
from tests.agents.loop_world import SOURCE, new_state, options


def tensor(*shape: int, dtype: str = "float32") -> TensorSpec:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return TensorSpec(shape=shape, dtype=dtype, stride=tuple(reversed(strides)))


def node(name: str, target: str, *args: object, out: TensorSpec) -> GraphNode:
    return GraphNode(name=name, target=f"aten.{target}", args=args, out=(out,), line=f"{name} = …")


def ref(name: str) -> dict[str, str]:
    return {"ref": name}


def graph(*nodes: GraphNode, x: TensorSpec, weights: dict[str, TensorSpec] | None = None, result: str = "") -> Graph:
    inputs = [GraphInput(name="x", kind="input", target="0", spec=x)]
    inputs += [GraphInput(name=n, kind="parameter", target=n, spec=s) for n, s in (weights or {}).items()]
    return Graph(inputs=tuple(inputs), nodes=nodes, outputs=(GraphOutput(kind="result", ref=result or nodes[-1].name),))


BIG = tensor(2048, 1024)


def norm_then_gelu() -> Graph:
    return graph(
        node("layer_norm", "layer_norm.default", ref("x"), [1024], ref("w"), ref("b"), 1e-5, out=BIG),
        node("gelu", "gelu.default", ref("layer_norm"), out=BIG),
        x=BIG,
        weights={"w": tensor(1024), "b": tensor(1024)},
    )


def test_a_norm_and_its_activation_become_one_item_that_promises_a_gain():
    todos, note = make_todos(Analysis(graph=norm_then_gelu(), eager_ms=5.0))
    assert [t.kind for t in todos] == ["reduce"]
    assert todos[0].predicted is not None
    assert 1.0 < todos[0].predicted < 20.0
    assert set(todos[0].nodes) == {"layer_norm", "gelu"}
    assert "2 operations" in note


def test_predictions_follow_the_measured_times_of_the_operations():
    """The same graph beside a slow operation that stays with PyTorch promises less of the whole."""
    slow = graph(
        *norm_then_gelu().nodes,
        node("sort", "cummax.default", ref("gelu"), 0, out=BIG),
        x=BIG,
        weights={"w": tensor(1024), "b": tensor(1024)},
    )
    ops = (
        OpCount(op="aten::native_layer_norm", count=1, time_ns=2_000_000),
        OpCount(op="aten::gelu", count=1, time_ns=3_000_000),
    )
    alone, _ = make_todos(Analysis(graph=norm_then_gelu(), eager_ms=5.0, ops=ops))
    beside, _ = make_todos(
        Analysis(graph=slow, eager_ms=50.0, ops=(*ops, OpCount(op="aten::cummax", count=1, time_ns=45_000_000)))
    )
    assert alone[0].predicted is not None
    assert beside[0].predicted is not None
    assert beside[0].predicted < alone[0].predicted
    assert beside[0].predicted < 1.2


def test_items_come_best_first_and_share_no_node():
    w = tensor(512, 1024)
    y = tensor(2048, 512)
    g = graph(
        node("layer_norm", "layer_norm.default", ref("x"), [1024], None, None, 1e-5, out=BIG),
        node("linear", "linear.default", ref("layer_norm"), ref("w"), out=y),
        node("relu", "relu.default", ref("linear"), out=y),
        node("softmax", "softmax.int", ref("relu"), -1, out=y),
        x=BIG,
        weights={"w": w},
    )
    _, regions = regions_of(Analysis(graph=g, eager_ms=30.0))
    names = [n for region in regions for n in region.nodes]
    assert len(names) == len(set(names))
    gains = [r.gain_s for r in regions]
    assert all(gain == gain for gain in gains)
    assert {r.kind for r in regions} == {"gemm", "reduce"}
    again = regions_of(Analysis(graph=g, eager_ms=30.0))[1]
    assert [r.key for r in again] == [r.key for r in regions], "a later step must find the same regions"


def chain(x: TensorSpec) -> Graph:
    names = ["x", "a", "b", "c", "d"]
    return graph(*(node(new, "cos.default", ref(old), out=x) for old, new in itertools.pairwise(names)), x=x)


def test_a_replay_is_planned_for_launches_and_not_where_its_copies_take_longer():
    device = DeviceInfo(kind="gpu", name="a GPU", target="sm_90", bandwidth_bps=4e12, peak_flops=51e12)
    small, _ = make_todos(Analysis(graph=chain(tensor(64, 64)), eager_ms=0.05, device=device))
    large, _ = make_todos(Analysis(graph=chain(tensor(16384, 8192)), eager_ms=1.2, device=device))
    assert [t.kind for t in small] == ["host"]
    assert large == ()


def test_another_layout_is_planned_where_it_promises_more_than_the_kernels_of_the_one_that_is_there():
    device = DeviceInfo(kind="gpu", name="a GPU", target="sm_90", bandwidth_bps=4e12, peak_flops=51e12)
    image, ends = tensor(64, 144, 112, 112), [[1, 1], [2, 2], [1, 1]]
    for groups, expected in ((1, True), (144, False)):
        weight = tensor(144, 144 // groups, 5, 5)
        conv = node("conv", "conv2d.default", ref("x"), ref("w"), None, *ends, groups, out=image)
        program = graph(conv, node("tanh", "tanh.default", ref("conv"), out=image), x=image, weights={"w": weight})
        todos, _ = make_todos(Analysis(graph=program, eager_ms=3.0, device=device))
        assert any("channels last" in t.title for t in todos) == expected


@pytest.mark.parametrize(("window", "step", "apart"), [([2, 2], [2, 2], True), ([2, 2], [], True), ([3, 3], [2, 2], False)])
def test_a_norm_is_taken_apart_only_before_what_can_be_one_with_it(window: list[int], step: list[int], apart: bool):
    image, channels = tensor(16, 32, 96, 96), tensor(32)
    norm = GraphNode(
        name="norm", target="aten._native_batch_norm_legit_functional.default", single=False,
        args=(ref("x"), ref("w"), ref("w"), ref("w"), ref("w"), True, 0.1, 1e-5), out=(image, *[channels] * 4),
    )  # fmt: skip
    result = GraphNode(name="result", target="getitem", args=(ref("norm"), 0), out=(image,))
    pooled = node("pooled", "max_pool2d.default", ref("result"), window, step, out=tensor(16, 32, 48, 48))
    program = graph(norm, result, pooled, x=image, weights={"w": channels})
    made = {n.name: n.target for n in with_statistics_apart(program).nodes}
    assert made["result"] == ("normalised" if apart else "getitem")


def test_without_a_graph_the_plan_is_empty_and_says_why():
    todos, note = make_todos(Analysis(graph_reason="its control flow depends on values"))
    assert todos == ()
    assert "control flow depends on values" in note


def test_a_program_of_one_large_unknown_operation_gets_an_empty_plan_that_names_it():
    g = graph(node("sort", "cummax.default", ref("x"), 0, out=BIG), x=BIG)
    todos, note = make_todos(Analysis(graph=g, eager_ms=5.0))
    assert todos == ()
    assert "cummax" in note


def test_other_dtypes_are_left_alone():
    half = tensor(64, 64, dtype="float16")
    g = graph(node("a", "exp.default", ref("x"), out=half), node("b", "exp.default", ref("a"), out=half), x=half)
    assert make_todos(Analysis(graph=g, eager_ms=1.0))[0] == ()


def test_a_tensor_that_meets_its_own_transpose_is_not_one_nest():
    square = tensor(64, 64)
    g = graph(
        node("e", "exp.default", ref("x"), out=square),
        node("t", "t.default", ref("e"), out=TensorSpec(shape=(64, 64), dtype="float32", stride=(1, 64))),
        node("s", "add.Tensor", ref("e"), ref("t"), out=square),
        x=square,
    )
    with pytest.raises(NotFusible):
        make_nest(View(g), ["e", "t", "s"])


def test_a_group_with_a_path_through_the_outside_is_not_convex():
    g = graph(
        node("a", "exp.default", ref("x"), out=BIG),
        node("b", "cummax.default", ref("a"), 0, out=BIG),
        node("c", "add.Tensor", ref("a"), ref("b"), out=BIG),
        x=BIG,
    )
    view = View(g)
    assert not view.convex({"a", "c"})
    assert view.convex({"a", "b", "c"})


def test_a_candidate_remembers_what_it_does_so_that_the_next_can_build_on_it():
    source = "class Model: ...\n"
    view, regions = regions_of(Analysis(graph=norm_then_gelu(), eager_ms=5.0))
    files = write_candidate(source, "Model", view, regions, "eval")
    assert applied(files.files) == [r.key for r in regions]
    assert any(path.startswith("kernels/") for path in files.kernel_sources)
    assert files.manifest.flags


def test_the_steps_of_an_unrolled_loop_share_one_kernel_file():
    """Steps that differ in their tensors alone are written once and called often; a step of another shape gets its own."""
    small, other = tensor(64, 256), tensor(64, 512)
    nodes = []
    for k in range(3):
        nodes.append(node(f"cut{k}", "cummax.default", ref("x"), 0, out=small))
        nodes.append(node(f"e{k}", "exp.default", ref(f"cut{k}"), out=small))
        nodes.append(node(f"m{k}", "mul.Tensor", ref(f"e{k}"), 2.0, out=small))
    nodes.append(node("cut", "cummax.default", ref("x"), 0, out=other))
    nodes.append(node("e", "exp.default", ref("cut"), out=other))
    nodes.append(node("m", "mul.Tensor", ref("e"), 2.0, out=other))
    results = tuple(GraphOutput(kind="result", ref=name) for name in ("m0", "m1", "m2", "m"))
    g = graph(*nodes, x=small).model_copy(update={"outputs": results, "tree": ["tuple", "*", "*", "*", "*"]})
    view, regions = regions_of(Analysis(graph=g, eager_ms=1.0))
    assert len(regions) == 4
    files = write_candidate("class Model: ...\n", "Model", view, regions, "eval")
    assert len(files.kernel_sources) == 2
    assert files.files["model_new.py"].count("_kernels.k1_exp_mul(") == 3


def test_where_own_kernels_are_required_a_program_without_one_is_not_handed_in(monkeypatch: pytest.MonkeyPatch) -> None:
    known = Analysis(graph=norm_then_gelu(), eager_ms=5.0)
    (todo, *_), _ = make_todos(known)
    plain = CandidateFiles(files={"model_new.py": "class ModelNew: ...\n"})
    monkeypatch.setattr("agents.engineers.offline.write_candidate", lambda *_: plain)
    free, bound = (new_state(options("offline", require_own_kernels=required)) for required in (False, True))
    answer = Offline().code(Context(state=free, source=SOURCE, analysis=known, blobs=MemoryBlobs()), todo, None, None)
    assert answer.files == plain
    with pytest.raises(UnusableAnswer, match="Own kernels are required"):
        Offline().code(Context(state=bound, source=SOURCE, analysis=known, blobs=MemoryBlobs()), todo, None, None)


def test_an_item_cites_the_rows_of_the_profile_that_it_answers_and_their_share():
    rows = (DiagnosedRow(key="aten::native_layer_norm", share=0.55), DiagnosedRow(key="aten::gelu", share=0.4))
    found = Diagnosis(
        klass="memory-bound", sentence="Memory-bound: 97 % of it.", rows=(*rows, DiagnosedRow(key="aten::mm", share=0.05))
    )
    [todo], note = make_todos(Analysis(graph=norm_then_gelu(), eager_ms=5.0), found)
    assert todo.rows == ("aten::native_layer_norm", "aten::gelu")
    assert "native_layer_norm 55%, gelu 40%" in todo.why
    assert todo.predicted > 1.0
    assert note.endswith("Memory-bound: 97 % of it.")
    disturbed = found.model_copy(update={"klass": "insufficient"})
    assert "97 %" not in make_todos(Analysis(graph=norm_then_gelu(), eager_ms=5.0), disturbed)[1]
