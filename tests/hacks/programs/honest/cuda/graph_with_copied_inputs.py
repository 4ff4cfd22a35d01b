# A graph over buffers that get the current inputs, its result copied out.
# reference: norm_gelu
# targets: cuda
class ModelNew(Right):
    def __init__(self, width):
        super().__init__(width)
        self.graphs = {}

    def forward(self, x):
        if x.shape not in self.graphs:
            given = x.clone()
            for _ in range(3):
                super().forward(given)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                result = super().forward(given)
            self.graphs[x.shape] = (graph, given, result)
        graph, given, result = self.graphs[x.shape]
        given.copy_(x)
        graph.replay()
        return result.clone()
