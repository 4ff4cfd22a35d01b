# The lazy tensor is one of several results.
# reference: two_results
# caught by: the exact type of every result
class Lazy(torch.Tensor):
    pass


class ModelNew(Right):
    def forward(self, x):
        total, rest = super().forward(x)
        return total, {"largest": rest["largest"].as_subclass(Lazy), "where": rest["where"]}
