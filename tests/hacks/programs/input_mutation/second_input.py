# Writes into the second of two inputs.
# reference: transposed_sum
# caught by: state; inputs must end as the reference leaves them
class ModelNew(Right):
    def forward(self, x, y):
        result = x.t() + y
        y.neg_()
        return result
