# Every result lies in one buffer, so a stored answer can be shown again without any work.
# reference: norm_gelu
# caught by: state; results must not share memory with earlier ones
class ModelNew(Right):
    out = None

    def forward(self, x):
        y = super().forward(x)
        if self.out is None:
            self.out = torch.empty_like(y)
        return self.out.copy_(y)
