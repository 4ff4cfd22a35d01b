"""When two numbers may stand side by side: only where everything agrees that a number depends on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpu_runner.contracts import DeviceInfo, TimingReport


def device_name(device: DeviceInfo | Mapping[str, Any] | None) -> str:
    """What a ranking calls a device: its name and, of a processor, the cores. Empty when it is not known."""
    told = device.model_dump() if isinstance(device, DeviceInfo) else dict(device or {})
    name = str(told.get("name") or "").strip()
    if name and told.get("kind") != "gpu" and told.get("cores") and "cores" not in name:
        name = f"{name}, {told['cores']} cores"
    return name[:160]


@dataclass(frozen=True)
class Ground:
    """What a measurement stands on. `confirmed`: by the full protocol, not by the quick timing of the loop."""

    target: str
    protocol: str
    device: str
    torch: str
    driver: str
    mode: str
    precision: str
    reference: str

    @classmethod
    def of(cls, report: TimingReport | None, target: str, mode: str, precision: str, reference: str) -> Ground:
        device = report.device if report else None
        return cls(
            target, report.protocol if report else "", device_name(device), device.torch if device else "",
            device.driver if device else "", mode, precision, reference,
        )  # fmt: skip


_WORDS = {
    "target": "target", "protocol": "protocol", "device": "device", "torch": "version of PyTorch", "driver": "driver",
    "mode": "mode of the module", "precision": "precision that was allowed",
}  # fmt: skip


def apart(a: Ground, b: Ground) -> list[str]:
    """Why the two must not be compared by number, a sentence each; empty when they may be."""
    found = []
    for name, words in _WORDS.items():
        one, other = getattr(a, name), getattr(b, name)
        if not one and not other and name in ("driver", "torch"):
            continue
        if not one or not other:
            found.append(f"The {words} of {'the left' if not one else 'the right'} is not known.")
        elif one != other:
            found.append(f"The {words} differs: {one} on the left, {other} on the right.")
    return found
