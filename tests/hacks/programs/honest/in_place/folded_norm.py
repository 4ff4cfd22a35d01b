# In evaluation a norm folds into one multiplication and one addition.
# reference: batch_norm
class ModelNew(Right):
    def forward(self, x):
        n = self.norm
        scale = n.weight * torch.rsqrt(n.running_var + n.eps)
        return torch.relu(torch.addcmul(n.bias - n.running_mean * scale, x, scale))
