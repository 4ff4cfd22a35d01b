"""What is optimized: one source file and how it is meant to run."""

from __future__ import annotations

from enum import StrEnum

from gpu_runner.contracts.base import Contract, digest


class Mode(StrEnum):
    """Which mode the module is put in before it is run. Gradients are off in all of them."""

    EVAL = "eval"
    TRAIN = "train"
    AS_CONSTRUCTED = "as-constructed"


class Precision(StrEnum):
    """The arithmetic both sides may use. `as-reference` keeps PyTorch's flags as the reference finds them."""

    AS_REFERENCE = "as-reference"
    TF32 = "tf32"
    BF16 = "bf16"


class Source(Contract):
    """A PyTorch reference: Python text with a module class, `get_inputs()` and `get_init_inputs()`.

    `entry` names the module class; empty means `Model`, or the only `nn.Module` in the file.
    """

    text: str
    entry: str = ""

    @property
    def sha256(self) -> str:
        """The content address of the text and its entry."""
        return digest({"text": self.text, "entry": self.entry})
