# Updates running statistics by hand, as the reference's norm does.
# reference: batch_norm
# mode: train
class ModelNew(Right):
    def forward(self, x):
        norm = self.norm
        y = torch.relu(torch.batch_norm(x, norm.weight, norm.bias, norm.running_mean, norm.running_var, True, 0.1, 1e-5, False))
        norm.num_batches_tracked.add_(1)
        return y
