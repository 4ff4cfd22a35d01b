"""Turns a live module into the plain data of `contracts.graph.Graph`. Runs in the sandbox, beside the user's code.

`torch.export` traces the program with fake tensors, so nothing is computed and no weight is touched. Decomposing with an empty
table keeps the operations that people think in (linear, layer_norm, gelu, scaled_dot_product_attention, lstm) and turns
in-place changes into results and named mutations, which is what lets an engineer reorder and fuse safely.
"""

from __future__ import annotations

import itertools
import math
import warnings
from typing import Any

import torch
from torch.export.graph_signature import InputKind, OutputKind

LARGEST_CONSTANT = 4096  # elements of a tensor constant that travel inside the graph
MAX_NODES = 20_000
_LIBRARY_FRAMES = ("/torch/", "<frozen", "<__array_function__")


class Unsupported(Exception):
    """Something the graph contract cannot say. The message is a sentence for the page."""


def capture(model: torch.nn.Module, example_inputs: tuple[Any, ...], mode: str) -> tuple[dict[str, Any] | None, str]:
    """The graph of one forward of `model`, as a dict in the form of `contracts.graph.Graph`.

    `mode` is "eval", "train" or "as-constructed" (leaves the module as it is). Gradients are off. Returns (None, reason) when
    the program cannot be captured whole: control flow that depends on data, an unknown argument, too many nodes.
    """
    if mode in ("eval", "train"):
        model.train(mode == "train")
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            program = torch.export.export(model, example_inputs, strict=False)
            program = program.run_decompositions({})
        return _graph(model, program), ""
    except Unsupported as error:
        return None, str(error)
    except Exception as error:  # whatever user code or the tracer raises is a reason, not a crash of the analysis
        return None, _reason(error)


def _reason(error: Exception) -> str:
    """One sentence out of the tracer's often very long message."""
    name = type(error).__name__
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    if "data-dependent" in str(error).lower() or "GuardOnDataDependent" in name:
        return f"the program's control flow depends on the values of its tensors ({first[:200]}), so it has no single graph"
    return f"torch.export could not trace the program: {name}: {first[:300]}"


def _graph(model: torch.nn.Module, program: Any) -> dict[str, Any]:
    nodes = list(program.graph.nodes)
    if len(nodes) > MAX_NODES:
        raise Unsupported(f"the program unrolls into {len(nodes)} operations, more than the {MAX_NODES} that are analysed")
    placeholders = [n for n in nodes if n.op == "placeholder"]
    inputs = _inputs(model, program, placeholders)
    calls = []
    for node in nodes:
        if node.op == "call_function":
            calls.append(_call(node))
        elif node.op not in ("placeholder", "output"):
            raise Unsupported(f"the graph holds a {node.op} node ({node.target}), which is not supported")
    outputs, tree = _outputs(program)
    return {
        "inputs": inputs,
        "nodes": calls,
        "outputs": outputs,
        "tree": tree,
        "torch_version": torch.__version__,
    }


def _inputs(model: torch.nn.Module, program: Any, placeholders: list[Any]) -> list[dict[str, Any]]:
    kinds = {
        InputKind.USER_INPUT: "input",
        InputKind.PARAMETER: "parameter",
        InputKind.BUFFER: "buffer",
        InputKind.CONSTANT_TENSOR: "constant",
    }
    rows: list[dict[str, Any]] = []
    position = 0
    for spec, node in zip(program.graph_signature.input_specs, placeholders, strict=True):
        kind = kinds.get(spec.kind)
        if kind is None:
            raise Unsupported(f"the graph takes an input of the kind {spec.kind.name.lower()}, which is not supported")
        value = node.meta.get("val")
        row: dict[str, Any] = {"name": node.name, "kind": kind, "target": str(spec.target or ""), "spec": None, "value": None}
        if kind == "input":
            row["target"] = str(position)
            position += 1
        if isinstance(value, torch.Tensor):
            row["spec"] = _spec(value)
        else:
            row["value"] = _encode(value)
        if kind == "constant":
            row["value"] = _constant(program.constants[spec.target], str(spec.target), model)
        rows.append(row)
    return rows


def _constant(tensor: torch.Tensor, target: str, model: torch.nn.Module) -> Any:
    """The numbers of a small constant as nested lists, or None when the module holds the tensor under `target`."""
    held: Any = model
    for part in target.split("."):
        held = getattr(held, part, None)
    if isinstance(held, torch.Tensor):
        return None
    if tensor.numel() > LARGEST_CONSTANT:
        raise Unsupported(f"the program builds a constant of {tensor.numel()} elements that the module does not hold")
    return _encode(tensor.tolist())


def _call(node: Any) -> dict[str, Any]:
    target = node.target
    name = "getitem" if getattr(target, "__name__", "") == "getitem" else str(target)
    if name != "getitem" and not isinstance(target, torch._ops.OpOverload):
        raise Unsupported(f"the program uses {name}, which is more than a call of one operation")
    value = node.meta.get("val")
    single = not isinstance(value, (tuple, list))
    values = [value] if single else list(value)
    stack = node.meta.get("nn_module_stack") or {}
    return {
        "name": node.name,
        "target": name,
        "args": [_encode(a) for a in node.args],
        "kwargs": {k: _encode(v) for k, v in node.kwargs.items()},
        "out": [_spec(v) if isinstance(v, torch.Tensor) else None for v in values],
        "single": single,
        "module": list(stack.values())[-1][0] if stack else "",
        "line": _user_line(node.meta.get("stack_trace") or ""),
    }


def _outputs(program: Any) -> tuple[list[dict[str, Any]], Any]:
    kinds = {
        OutputKind.USER_OUTPUT: "result",
        OutputKind.BUFFER_MUTATION: "buffer_mutation",
        OutputKind.USER_INPUT_MUTATION: "input_mutation",
    }
    names = [s.arg.name for s in program.graph_signature.input_specs if s.kind is InputKind.USER_INPUT]
    rows = []
    for spec in program.graph_signature.output_specs:
        kind = kinds.get(spec.kind)
        if kind is None:
            raise Unsupported(f"the program returns something of the kind {spec.kind.name.lower()}, which is not supported")
        target = str(spec.target or "")
        if kind == "input_mutation":
            target = str(names.index(target))
        literal = not hasattr(spec.arg, "name") or type(spec.arg).__name__ == "ConstantArgument"
        rows.append(
            {
                "kind": kind,
                "ref": None if literal else spec.arg.name,
                "target": target,
                "value": _encode(spec.arg.value) if literal else None,
            }
        )
    return rows, _tree(program.call_spec.out_spec)


def _tree(spec: Any) -> Any:
    """The shape of the result: "*" for a leaf, ["tuple", …], ["list", …] or an object for a dict."""
    if spec.is_leaf():
        return "*"
    leaves = [_tree(child) for child in spec.children()]
    if spec.type in (tuple, list):
        return [spec.type.__name__, *leaves]
    if issubclass(spec.type, dict) and all(isinstance(key, str) for key in spec.context):
        return dict(zip(spec.context, leaves, strict=True))
    raise Unsupported(f"the program returns a {spec.type.__name__}; supported are tensors, tuples, lists and dicts")


def _spec(tensor: torch.Tensor) -> dict[str, Any]:
    if tensor.layout is not torch.strided:
        raise Unsupported("the program uses a sparse tensor, which is not supported")
    if any(not isinstance(n, int) for n in tensor.shape):
        raise Unsupported("the program has a tensor whose shape depends on values")
    return {"shape": list(tensor.shape), "dtype": _short(tensor.dtype), "stride": list(tensor.stride())}


def _short(value: Any) -> str:
    return str(value).removeprefix("torch.")


def _encode(value: Any) -> Any:
    """An argument as JSON; the tags are those of `contracts.graph`."""
    if isinstance(value, torch.fx.Node):
        return {"ref": value.name}
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return {"float": "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"}
    if isinstance(value, torch.dtype):
        return {"dtype": _short(value)}
    if isinstance(value, torch.device):
        return {"device": str(value)}
    if isinstance(value, torch.memory_format):
        return {"memory_format": _short(value)}
    if isinstance(value, torch.layout):
        return {"layout": _short(value)}
    if isinstance(value, (list, tuple)):
        return [_encode(v) for v in value]
    raise Unsupported(f"the program passes a {type(value).__name__} to an operation, which is not supported")


def _user_line(trace: str) -> str:
    """The user's own source line in a stack trace: the innermost frame outside libraries, trimmed."""
    lines = trace.splitlines()
    found = ""
    for where, code in itertools.pairwise(lines):
        if where.strip().startswith("File ") and not any(part in where for part in _LIBRARY_FRAMES):
            found = code.strip()
    return found[:160]
