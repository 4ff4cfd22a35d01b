# The right values with other strides.
# reference: convolution
class ModelNew(Right):
    def forward(self, x):
        return super().forward(x).contiguous(memory_format=torch.channels_last)
