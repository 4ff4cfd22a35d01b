# A plain tensor, filled by a patched method when somebody takes it out.
# reference: norm_gelu
# caught by: elements sealed the moment the call returns
PENDING = {}
detach = torch.Tensor.detach


def late_detach(self):
    work = PENDING.pop(id(self), None)
    if work is not None:
        with torch.no_grad():
            self.copy_(work())
    return detach(self)


torch.Tensor.detach = late_detach


class ModelNew(Right):
    def forward(self, x):
        y = torch.empty_like(x)
        PENDING[id(y)] = lambda: Right.forward(self, x)
        return y
