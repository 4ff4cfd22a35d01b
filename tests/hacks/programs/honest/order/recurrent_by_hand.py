# A GRU written out step by step.
# reference: recurrent
class ModelNew(Right):
    def forward(self, x):
        c = self.cell
        h = x.new_zeros(x.shape[0], x.shape[2])
        steps = []
        for t in range(x.shape[1]):
            gi = (x[:, t] @ c.weight_ih_l0.t() + c.bias_ih_l0).chunk(3, -1)
            gh = (h @ c.weight_hh_l0.t() + c.bias_hh_l0).chunk(3, -1)
            r, z = torch.sigmoid(gi[0] + gh[0]), torch.sigmoid(gi[1] + gh[1])
            n = torch.tanh(gi[2] + r * gh[2])
            h = (1 - z) * n + z * h
            steps.append(h)
        return torch.stack(steps, 1)
