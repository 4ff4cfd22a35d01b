# Computes and rounds in bf16 where fp32 is asked for.
# reference: norm_gelu
# caught by: error against double precision
class ModelNew(Right):
    def forward(self, x):
        return super().forward(x).bfloat16().float()
