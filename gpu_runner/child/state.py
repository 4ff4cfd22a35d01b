"""Parameters and buffers as data: exported by name, loaded strictly, and drawn anew where defaults would hide mistakes."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from . import tensors

# BatchNorm counts its batches; a program that keeps no such counter computes the same results.
COUNTERS = "num_batches_tracked"
# These keep what is theirs where Python sees none of it.
_SCRIPTED = (torch.jit.RecursiveScriptModule, torch.jit.TopLevelTracedModule)
_listed_buffers, _listed_parameters = torch.nn.Module.named_buffers, torch.nn.Module.named_parameters
_fields_of = torch.nn.Module.__dict__["__dict__"].__get__  # whatever a program's own class says of them


def snapshot(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Private copies of everything in the state dict."""
    return {name: value.detach().clone() for name, value in model.state_dict().items() if isinstance(value, torch.Tensor)}


class Owned(NamedTuple):
    """The tensors of a module where they lie. `buffers`: those of the state dict, by name; `others`: parameters, and buffers
    that the state dict lacks."""

    buffers: dict[str, torch.Tensor]
    others: list[torch.Tensor]


def owned(model: torch.nn.Module) -> Owned:
    """What a module has. No method of the program is asked: it could compute its buffers only then."""
    found = Owned({}, [])
    _walk(model, "", found, set())
    return found


def _walk(module: torch.nn.Module, prefix: str, found: Owned, seen: set[int]) -> None:
    if id(module) in seen:
        return
    seen.add(id(module))
    if type(module) in _SCRIPTED:
        fields: dict[str, Any] = {"_buffers": dict(_listed_buffers(module)), "_parameters": dict(_listed_parameters(module))}
    else:
        fields = _fields_of(module)
    hidden = fields.get("_non_persistent_buffers_set", ())
    for name, value in dict.items(fields.get("_buffers", {})):
        if value is None or id(value) in seen:
            continue
        seen.add(id(value))
        if name in hidden:
            found.others.append(value)
        else:
            found.buffers[f"{prefix}{name}"] = value
    found.others.extend(value for value in dict.values(fields.get("_parameters", {})) if value is not None)
    for name, child in dict.items(fields.get("_modules", {})):
        if child is not None:
            _walk(child, f"{prefix}{name}.", found, seen)


def restore(model: torch.nn.Module, state: dict[str, torch.Tensor]) -> None:
    """Copy values into the module's own tensors, by name. Every tensor of the module must be given."""
    own = model.state_dict()
    with torch.no_grad():
        for name, value in own.items():
            if isinstance(value, torch.Tensor):
                value.copy_(state[name])


def changed_parameters(model: torch.nn.Module, state: dict[str, torch.Tensor]) -> list[str]:
    """Names of parameters that hold something else than `state`: a forward should leave them alone."""
    return [k for k, v in model.named_parameters(remove_duplicate=False) if k in state and not torch.equal(v, state[k])]


def mismatch(model: torch.nn.Module, state: dict[str, torch.Tensor]) -> str:
    """A sentence saying how the module's state differs from `state` in names or shapes; empty when it fits."""
    own = {k: v for k, v in model.state_dict().items() if isinstance(v, torch.Tensor)}
    missing = sorted(k for k in state if k not in own and not k.endswith(COUNTERS))
    extra = sorted(k for k in own if k not in state and not k.endswith(COUNTERS))
    wrong = sorted(k for k in own if k in state and own[k].shape != state[k].shape)
    parts = []
    if missing:
        parts.append(f"it lacks {', '.join(missing[:6])}")
    if extra:
        parts.append(f"it has {', '.join(extra[:6])}, which the reference does not")
    if wrong:
        shapes = [f"{k} is {list(own[k].shape)} instead of {list(state[k].shape)}" for k in wrong[:6]]
        parts.append("; ".join(shapes))
    return "; ".join(parts)


def load(model: torch.nn.Module, state: dict[str, torch.Tensor]) -> None:
    """`load_state_dict`, so that a candidate's own hooks run; counters it does not keep are left out."""
    own = model.state_dict()
    model.load_state_dict({k: v for k, v in state.items() if k in own}, strict=False)


def randomise(model: torch.nn.Module, seed: int) -> None:
    """Draw what default initialisation leaves trivial: norm scales and shifts, biases, running statistics, constant tensors;
    and move every other parameter, so that one that was remembered shows.

    Default scales are one and shifts zero, so a kernel that forgets them would pass. Draws are moderate: the signal of a deep
    network must neither vanish nor blow up. Other buffers (masks, tables) stay: a program may know what they hold.
    """
    generator = torch.Generator().manual_seed(seed)
    parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    with torch.no_grad():
        for name, value in model.state_dict().items():
            if not isinstance(value, torch.Tensor) or not value.is_floating_point() or value.numel() == 0:
                continue
            leaf = name.rsplit(".", 1)[-1]
            noise = torch.rand(value.shape, generator=generator, dtype=torch.float32)
            if leaf == "running_var":
                value.copy_(0.5 + noise)
            elif leaf == "running_mean":
                value.copy_((noise - 0.5) * 0.4)
            elif value.numel() > 1 and bool((value == value.reshape(-1)[0]).all()):
                base = float(value.reshape(-1)[0])
                value.copy_(base + (noise - 0.5) * (0.5 if base == 0.0 else abs(base) * 0.8))
            elif leaf == "bias" or leaf.startswith("bias_"):
                value.add_(((noise - 0.5) * 0.2).to(value.device, value.dtype))
            elif name in parameters:
                value.mul_((0.8 + 0.4 * noise).to(value.device, value.dtype))


def export(state: dict[str, torch.Tensor], fd: int) -> dict[str, Any]:
    """The manifest of a state dict written to shared memory."""
    return tensors.write(dict(state), fd)
