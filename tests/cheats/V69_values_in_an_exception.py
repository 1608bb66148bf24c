# expect: rule_violation static.tensor_math
# The text of an exception carries the values of an input out of the evaluator.
# without rules: rule_violation runtime.operators
def run(G, steps=5):
    raise TypeError("run() must return torch.Tensor " + str(G))
