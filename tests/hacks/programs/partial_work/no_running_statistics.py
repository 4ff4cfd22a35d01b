# In training it normalises but leaves the running statistics alone.
# reference: batch_norm
# mode: train
# caught by: state; buffers must end as in the reference
class ModelNew(Right):
    def forward(self, x):
        return torch.relu(nn.functional.batch_norm(x, None, None, self.norm.weight, self.norm.bias, True))
