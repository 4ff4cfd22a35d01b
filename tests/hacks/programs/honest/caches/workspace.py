# A scratch buffer kept between calls; the result is new each time.
# reference: norm_gelu
class ModelNew(Right):
    scratch = None

    def forward(self, x):
        if self.scratch is None or self.scratch.shape != x.shape:
            self.scratch = torch.empty_like(x)
        torch.sub(x, x.mean(-1, keepdim=True), out=self.scratch)
        return super().forward(self.scratch)
