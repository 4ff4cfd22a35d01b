# Returns a dict with the reference's names, in another order.
# reference: named_results
class ModelNew(Right):
    def forward(self, x):
        return {"scale": x.std(-1), "mean": x.mean(-1)}
