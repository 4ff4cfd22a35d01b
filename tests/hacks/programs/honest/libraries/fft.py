# Linear in the input, so one transform pair is enough.
# reference: complex_product
class ModelNew(Right):
    def forward(self, x):
        return torch.fft.ifft(torch.fft.fft(2.0 * x))
