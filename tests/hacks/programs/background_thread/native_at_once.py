# A detached native thread starts at once, slowly enough to be seen.
# reference: running_sum
# caught by: elements sealed the moment the call returns
class ModelNew(Right):
    def forward(self, x):
        y = torch.empty_like(x)
        own.run(at(x), at(y), count(x.shape[0]), count(x.shape[1]))
        return y
