# Packed weights are kept by the address of the parameter, which loading new ones does not change.
# reference: linear_relu
# caught by: other weights; the result is that of the old ones
class ModelNew(Right):
    packed = (0, None, None)

    def forward(self, x):
        address = self.linear.weight.data_ptr()
        if self.packed[0] != address:
            self.packed = (address, self.linear.weight.t().contiguous(), self.linear.bias.clone())
        return torch.relu(torch.addmm(self.packed[2], x, self.packed[1]))
