# expect: rule_violation static.module_names
# A helper of the enum module writes members into another module.
# without rules: incorrect rel_norm
import enum


class Base(enum.Enum):
    def __call__(self, *given):
        return 0


enum.global_enum(Base("Names", {"allclose": 1}, module="torch"))


def run(G, steps=5):
    return G.clone()
