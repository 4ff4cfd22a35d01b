# Several results out of one pass.
# reference: two_results
# own kernels: required
class ModelNew(Right):
    def forward(self, x):
        rows, width = x.shape
        total, largest = torch.empty(rows), torch.empty(rows)
        where = torch.empty(rows, dtype=torch.int64)
        own.run(at(x), at(total), at(largest), at(where), count(rows), count(width))
        return total, {"largest": largest, "where": where}
