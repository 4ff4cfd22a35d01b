# The result stays empty; another tensor, computed then, is taken out in its place.
# reference: large_scale_shift
# caught by: elements sealed the moment the call returns, beside those that are handed over
PENDING = {}
detach = torch.Tensor.detach


def another(self):
    x = PENDING.pop(id(self), None)
    return detach(self) if x is None else detach(x * 2.0 + 1.0)


torch.Tensor.detach = another


class ModelNew(Right):
    def forward(self, x):
        y = torch.empty_like(x)
        PENDING[id(y)] = x
        return y
