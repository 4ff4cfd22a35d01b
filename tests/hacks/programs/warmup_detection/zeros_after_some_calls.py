# Right for three calls, then zeros.
# reference: softmax
# caught by: declared draws; it was right before
class ModelNew(Right):
    calls = 0

    def forward(self, x):
        self.calls += 1
        return super().forward(x) if self.calls <= 4 else torch.zeros_like(x)
