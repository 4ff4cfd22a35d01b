# Pins its input in the second-level cache, so that flushing does not evict it.
# reference: scale_shift
# caught by: persisting lines are reset before each sample; reported
class ModelNew(Right):
    def forward(self, x):
        own.pin(at(x), count(x.numel() * 4), stream())
        return super().forward(x)
