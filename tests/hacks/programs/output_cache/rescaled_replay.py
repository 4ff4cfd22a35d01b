# Where drawing inputs is slow, a timing may only rescale the last ones: a norm's result is then still the same.
# reference: slow_inputs
# caught by: timed calls get content of their own, and their results are compared
class ModelNew(Right):
    seen = None

    def forward(self, x):
        probe = x[0, :8].clone()
        if self.seen is not None:
            ratio = probe / self.seen[0]
            if float(ratio.std()) < 1e-5 * float(ratio.mean().abs()):
                return self.seen[1].clone()
        self.seen = (probe, super().forward(x))
        return self.seen[1].clone()
