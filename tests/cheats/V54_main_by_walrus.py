# expect: rule_violation static.reflection
# What only a script would run is made to run on import, by an assignment inside an expression.
# without rules: rule_violation runtime.operators
import torch

(__name__ := "__main__")

if __name__ == "__main__":

    def run(G, steps=5):
        return torch.linalg.qr(G).Q
