# Weights are packed whenever a state dict is loaded.
# reference: linear_relu
class ModelNew(Right):
    def __init__(self, width):
        super().__init__(width)
        self._pack()
        self.register_load_state_dict_post_hook(lambda module, keys: module._pack())

    def _pack(self):
        self.packed = self.linear.weight.detach().t().contiguous()

    def forward(self, x):
        return torch.relu(torch.addmm(self.linear.bias, x, self.packed.to(x.device)))
