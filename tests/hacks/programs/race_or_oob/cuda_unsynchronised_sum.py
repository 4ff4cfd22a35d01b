# Threads of a block add to one sum without atomics.
# reference: row_mean
# caught by: the same content must give the same result
class ModelNew(Right):
    def forward(self, x):
        y = torch.empty(x.shape[0], device=x.device)
        own.run(at(x), at(y), count(x.shape[0]), count(x.shape[1]), stream())
        return y
