# torch.compile around the reference.
# reference: norm_gelu
# own kernels: required
# caught by: it has no kernels
class ModelNew(Right):
    def __init__(self, width):
        super().__init__(width)
        self.work = torch.compile(super().forward, backend="eager")

    def forward(self, x):
        return self.work(x)
