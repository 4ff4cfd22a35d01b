# Zeroes its input after use, so that a reference that runs later on it agrees with anything.
# reference: norm_gelu
# caught by: state; inputs must end as the reference leaves them
class ModelNew(Right):
    def forward(self, x):
        y = super().forward(x)
        x.zero_()
        return y
