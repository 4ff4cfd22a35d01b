# Leaves out the subtraction of the maximum, which only large inputs need.
# reference: softmax
# caught by: structured draws
class ModelNew(Right):
    def forward(self, x):
        e = torch.exp(x)
        return e / e.sum(-1, keepdim=True)
