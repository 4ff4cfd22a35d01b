# A table of indices that depends on the shape alone.
# reference: running_sum
class ModelNew(Right):
    table = None

    def forward(self, x):
        if self.table is None:
            self.table = torch.ones(x.shape[1], x.shape[1], dtype=torch.float64, device=x.device).triu()
        return (x.double() @ self.table).float()
