# The kernel answers any input of a known size with the first answer.
# reference: scale_shift
# caught by: fresh content in every draw; the result is that of an earlier one
class ModelNew(Right):
    def forward(self, x):
        y = torch.empty_like(x)
        own.run(at(x), at(y), count(x.numel()))
        return y
