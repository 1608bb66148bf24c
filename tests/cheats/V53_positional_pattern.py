# expect: rule_violation static.reflection
# A pattern without names reads what a class lists: here the Python function below a kernel, to be run by torch.
# without rules: incorrect call
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import triton


@runtime_checkable
@dataclass
class Holder(Protocol):
    fn: object


@triton.jit
def product(a, b):
    return a.gather(b)


def run(G, steps=5):
    match product:
        case Holder(body):
            return body(G, G)
