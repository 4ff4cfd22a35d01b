# A subclass of the reference without a body.
# reference: softmax
# prelude: none
# caught by: the reference is in another process
class ModelNew(Model):
    pass
