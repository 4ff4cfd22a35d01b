# An autograd function, as training code has it.
# reference: scale_shift
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2.0 + 1.0

    @staticmethod
    def backward(ctx, grad):
        return grad * 2.0


class ModelNew(Right):
    def forward(self, x):
        return Scale.apply(x)
