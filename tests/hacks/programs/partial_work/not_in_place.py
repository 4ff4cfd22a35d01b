# The reference changes its input in place; this one leaves it alone.
# reference: in_place
# caught by: state; inputs must end as the reference leaves them
class ModelNew(Right):
    def forward(self, x):
        return x * 2.0 + 1.0
