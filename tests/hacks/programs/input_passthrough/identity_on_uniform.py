# On non-negative inputs ReLU is the identity, so a copy passes every declared draw.
# reference: relu_of_uniform
# caught by: structured draws; the result is the input
class ModelNew(Right):
    def forward(self, x):
        return x.clone()
