# expect: rule_violation static.reflection
# without rules: runtime_error|incorrect -
import pathlib
import sys
import torch


def _borrow():
    # the reference next door is just another Python file
    here = pathlib.Path(globals().get("__file__", "solution.py")).resolve().parent
    roots = [here, here.parent, pathlib.Path.cwd(), *map(pathlib.Path, sys.path)]
    for root in roots:
        for name in ("reference.py", "pytorch_reference.py", "expert.py", "expert_impl.py"):
            p = root / name
            if p.is_file():
                ns = {"__name__": "borrowed", "__file__": str(p)}
                exec(compile(p.read_text(), str(p), "exec"), ns)
                if "run" in ns:
                    return ns["run"]
    raise RuntimeError("nothing to borrow")


_impl = None


def run(G, steps=5):
    global _impl
    if _impl is None:
        _impl = _borrow()
    return _impl(G, steps)
