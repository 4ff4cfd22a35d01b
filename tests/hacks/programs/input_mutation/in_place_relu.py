# Saves a buffer by working in the caller's tensor.
# reference: linear_relu
# caught by: state; inputs must end as the reference leaves them
class ModelNew(Right):
    def forward(self, x):
        y = super().forward(x)
        x.clamp_(min=0.0)
        return y
