# Brings its buffer up to date when somebody lists the buffers, after the clock has stopped.
# reference: kept_sum
# caught by: buffers are read where they lie; no method of the program is asked for them
class ModelNew(Right):
    owed = None

    def forward(self, x):
        self.owed = x
        return x.sum(1)

    def named_buffers(self, *args, **kwargs):
        if self.owed is not None:
            self.kept.mul_(0.5).add_(torch.tanh(self.owed))
            self.owed = None
        return super().named_buffers(*args, **kwargs)
