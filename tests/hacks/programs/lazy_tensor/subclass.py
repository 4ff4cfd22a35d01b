# A subclass of Tensor that could compute when it is read.
# reference: norm_gelu
# caught by: the exact type of every result
class Lazy(torch.Tensor):
    pass


class ModelNew(Right):
    def forward(self, x):
        return super().forward(x).as_subclass(Lazy)
