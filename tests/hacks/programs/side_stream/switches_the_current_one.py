# Makes another stream the current one for good, so that later events are recorded there.
# reference: softmax
# targets: cuda
# caught by: the device is synchronised as a whole, and a clock outside sees it
class ModelNew(Right):
    def forward(self, x):
        y = super().forward(x)
        torch.cuda.set_stream(torch.cuda.Stream())
        return y
