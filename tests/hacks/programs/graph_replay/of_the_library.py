# Captures the library's kernels once and replays them.
# reference: two_layers
# targets: cuda
# own kernels: required
# caught by: it has no kernels
class ModelNew(Right):
    graph = None

    def forward(self, x):
        if self.graph is None:
            self.given = x.clone()
            for _ in range(3):
                super().forward(self.given)
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.result = super().forward(self.given)
        self.given.copy_(x)
        self.graph.replay()
        return self.result.clone()
