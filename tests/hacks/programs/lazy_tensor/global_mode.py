# A mode that sees every operation of the process computes when the result is copied out.
# reference: large_gelu
# caught by: elements sealed the moment the call returns
from torch.utils._python_dispatch import TorchDispatchMode

PENDING = {}


class Late(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        for t in args:
            if isinstance(t, torch.Tensor) and t.data_ptr() in PENDING:
                x = PENDING.pop(t.data_ptr())
                t.copy_(F.gelu(x))
        return func(*args, **(kwargs or {}))


Late().__enter__()


class ModelNew(Right):
    def forward(self, x):
        y = torch.empty_like(x)
        PENDING[y.data_ptr()] = x
        return y
