# Overwrites the first bytes of libc's clock with a jump to a slower one.
# reference: two_layers
# caught by: a clock in another process
class ModelNew(Right):
    def forward(self, x):
        own.detour()
        return super().forward(x)
