# A wrapper subclass without storage of its own.
# reference: scale_shift
# caught by: the exact type of every result
class Lazy(torch.Tensor):
    @staticmethod
    def __new__(cls, x):
        made = torch.Tensor._make_wrapper_subclass(cls, x.shape, dtype=x.dtype, device=x.device)
        made.x = x
        return made

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        args = [a.x * 2.0 + 1.0 if isinstance(a, Lazy) else a for a in args]
        return function(*args, **(kwargs or {}))


class ModelNew(Right):
    def forward(self, x):
        return Lazy(x.clone())
