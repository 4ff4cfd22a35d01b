# One call of the library for two of the reference.
# reference: embedding
class ModelNew(Right):
    def forward(self, index):
        return nn.functional.embedding_bag(index, self.table.weight, mode="sum")
