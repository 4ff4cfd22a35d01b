# Uses one thread for such small work and puts the setting back.
# reference: two_layers
# targets: cpu
class ModelNew(Right):
    def forward(self, x):
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            return super().forward(x)
        finally:
            torch.set_num_threads(before)
