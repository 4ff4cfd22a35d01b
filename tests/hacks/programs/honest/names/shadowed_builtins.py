# Local names that shadow builtins.
# reference: row_mean
def sum(x):
    return torch.sum(x, -1)


class ModelNew(Right):
    def forward(self, input):
        len = input.shape[-1]
        return sum(input) / len
