# Results that are small beside the largest ones are left zero: nearly all, where a result spans many orders of magnitude.
# reference: steep_exp
# caught by: elements too small for the tolerance, beside what they are
class ModelNew(Right):
    def forward(self, x):
        y = torch.zeros_like(x)
        large = x > x.max() - 3.4
        y[large] = torch.exp(6.0 * x[large])
        return y
