# Sets aside as much of the cache as the device gives.
# reference: two_layers
# caught by: persisting lines are reset before each sample; reported
class ModelNew(Right):
    def forward(self, x):
        own.reserve()
        return super().forward(x)
