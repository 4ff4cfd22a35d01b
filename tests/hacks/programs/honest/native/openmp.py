# A parallel loop whose threads are joined before the kernel returns.
# reference: norm_gelu
# own kernels: required
# timed: yes
class ModelNew(Right):
    def forward(self, x):
        x, y = x.contiguous(), torch.empty_like(x)
        own.run(at(x), at(self.norm.weight), at(self.norm.bias), at(y), count(x.shape[0]), count(x.shape[1]))
        return y
