# Right for the five declared draws and no longer.
# reference: norm_gelu
# caught by: a wrong structured draw is followed by another declared one
class ModelNew(Right):
    calls = 0

    def forward(self, x):
        self.calls += 1
        return super().forward(x) if self.calls <= 6 else torch.zeros_like(x)
