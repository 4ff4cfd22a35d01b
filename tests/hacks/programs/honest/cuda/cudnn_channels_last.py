# cuDNN in its preferred layout.
# reference: convolution
# targets: cuda
class ModelNew(Right):
    def forward(self, x):
        return super().forward(x.contiguous(memory_format=torch.channels_last))
