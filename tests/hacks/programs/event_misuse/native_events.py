# The library keeps time with events on the wrong stream.
# reference: scale_shift
# caught by: its own times are not asked for; reported
class ModelNew(Right):
    def forward(self, x):
        own.mark()
        return super().forward(x)
