# A convolution as a matrix product over unfolded patches.
# reference: convolution
class ModelNew(Right):
    def forward(self, x):
        patches = nn.functional.unfold(x, 3, padding=1)
        y = self.conv.weight.flatten(1) @ patches + self.conv.bias[:, None]
        return torch.relu(y.view(x.shape))
