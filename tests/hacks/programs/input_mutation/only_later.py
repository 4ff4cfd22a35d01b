# Behaves for three calls and then writes into its input.
# reference: norm_gelu
# caught by: state; the last draw is watched as the first is
class ModelNew(Right):
    calls = 0

    def forward(self, x):
        self.calls += 1
        y = super().forward(x)
        if self.calls > 3:
            x.zero_()
        return y
