# As a rescaled replay, for a function whose result scales with its input.
# reference: slow_pointwise
# caught by: timed calls get content of their own, and their results are compared
class ModelNew(Right):
    seen = None

    def forward(self, x):
        probe = x[0, :8].clone()
        if self.seen is not None:
            ratio = probe / self.seen[0]
            if float(ratio.std()) < 1e-5 * float(ratio.mean().abs()):
                return self.seen[1] * ratio.mean()
        self.seen = (probe, super().forward(x))
        return self.seen[1].clone()
