# Returns a view of its input where the reference does.
# reference: view_of_input
class ModelNew(Right):
    def forward(self, x):
        return x.view(64, 8, 32)
