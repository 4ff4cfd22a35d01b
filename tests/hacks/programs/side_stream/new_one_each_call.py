# A new stream for every call.
# reference: norm_gelu
# targets: cuda
# caught by: the device is synchronised as a whole, and a clock outside sees it
class ModelNew(Right):
    def forward(self, x):
        with torch.cuda.stream(torch.cuda.Stream()):
            return super().forward(x)
