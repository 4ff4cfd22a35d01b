# The cheaper approximation of GELU.
# reference: norm_gelu
# caught by: error against double precision
class ModelNew(Right):
    def forward(self, x):
        return F.gelu(self.norm(x), approximate="tanh")
