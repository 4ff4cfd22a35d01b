"""A device on which the handbook's kernels are run: tensors to give them, a call by the page's name, and what is expected."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

CASES: dict[str, Callable[[World], None]] = {}


def case(page: str) -> Callable[[Callable[[World], None]], Callable[[World], None]]:
    """Registers what shows that the kernel of a page is right."""

    def register(check: Callable[[World], None]) -> Callable[[World], None]:
        CASES[page] = check
        return check

    return register


class World:
    """`device`: cpu or cuda. An integer goes over as 64 bits, which an `int` reads as well; a number with a point as a `float`.
    Every call on a GPU is made on the current stream, waited for, and must return no error."""

    def __init__(self, library: Path, device: str) -> None:
        self.library, self.device = ctypes.CDLL(str(library)), device
        self.random = torch.Generator(device=device).manual_seed(7)

    def normal(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.randn(*shape, generator=self.random, device=self.device).to(dtype)

    def below(self, most: int, *shape: int) -> torch.Tensor:
        return torch.randint(0, most, shape, generator=self.random, device=self.device)

    def unwritten(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Memory in which what a kernel leaves out is seen."""
        return torch.full(shape, float("nan") if dtype.is_floating_point else -77, dtype=dtype, device=self.device)

    def call(self, name: str, *args: Any) -> None:
        given = [self._argument(arg) for arg in args]
        if self.device == "cuda":
            given.append(ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
        code = getattr(self.library, name)(*given)
        if self.device == "cuda":
            torch.cuda.synchronize()
            assert code == 0, f"CUDA error {code}"

    @staticmethod
    def _argument(arg: Any) -> Any:
        if isinstance(arg, torch.Tensor):
            return ctypes.c_void_p(arg.data_ptr())
        return ctypes.c_int64(arg) if isinstance(arg, int) else ctypes.c_float(arg) if isinstance(arg, float) else arg


def same(got: torch.Tensor, expected: torch.Tensor, rtol: float = 1e-4, atol: float = 1e-5) -> None:
    torch.testing.assert_close(got, expected.to(got.dtype), rtol=rtol, atol=atol, equal_nan=True)
