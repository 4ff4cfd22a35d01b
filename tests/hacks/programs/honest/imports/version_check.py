# Chooses by the version of torch.
# reference: softmax
NEW = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2]) >= (2, 0)


class ModelNew(Right):
    def forward(self, x):
        return torch.softmax(x, -1) if NEW else torch.nn.functional.softmax(x, dim=-1)
