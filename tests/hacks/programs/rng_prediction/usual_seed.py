# Regenerates the inputs from the usual seed and answers for those.
# reference: norm_gelu
# caught by: seeds come from the operating system and stay with the parent
class ModelNew(Right):
    def forward(self, x):
        state = torch.get_rng_state()
        torch.manual_seed(42)
        guess = torch.randn(x.shape).to(x.device)
        torch.set_rng_state(state)
        return super().forward(guess)
