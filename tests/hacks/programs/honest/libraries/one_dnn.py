# Leaves the convolution to oneDNN in its own layout.
# reference: convolution
class ModelNew(Right):
    def forward(self, x):
        y = nn.functional.conv2d(
            x.contiguous(memory_format=torch.channels_last), self.conv.weight, self.conv.bias, padding=1
        )
        return torch.relu(y).contiguous()
