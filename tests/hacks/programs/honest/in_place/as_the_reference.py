# Changes its input exactly as the reference does.
# reference: in_place
class ModelNew(Right):
    def forward(self, x):
        x.add_(x)
        return x.add(1.0)
