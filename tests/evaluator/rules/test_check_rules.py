"""What the static rules follow, what they leave alone, and how a task changes them."""

from __future__ import annotations

import ast
import time

import pytest

from d2k_agent.evaluator.rules import check_rules, missing_launch
from d2k_agent.evaluator.rules.analysis import analyse, unread
from tests.evaluator.rules.asking import KERNEL, checks, inside_run


@pytest.mark.parametrize(
    "lines",
    [
        ("M, N = G.shape[-2:]", "n = M * N + -M // 2 ** 2 - M % 3",),
        ("grid = (triton.cdiv(G.shape[0], 64), min(G.shape[1], 8) * 2)",),
        ("n = G.numel() // 4 * G.element_size() << 1", "assert n > 0 and n != G.stride(0) * 2",),
        ("x = scale * 1.44 + scale",),
        ("sizes = [s * 2 for s in G.shape]", "total = sum(sizes) + max(sizes) - len(sizes)",),
        ("if G is None or G.dtype == torch.float16 or G.device != torch.device('cpu'):", "    pass"),
        ("for i, (a, b) in enumerate(zip(G.shape, G.stride())):", "    scale += a * b * i",),
        ("out = torch.empty_like(G)", "out = out.shape", "n = out[0] * out[1]"),
        ("x = G if steps else 3", "y = x * 2"),
        ("d = {}", "d['n'] = G.shape[0]", "d['n'] *= 2", "n = d.get('n', 1) * 3"),
        ("import os, sys, numpy as np", "from os import path"),
        ("x = G.view(torch.int16)", "y = x.to(G.device)", "z = y.to('cuda', non_blocking=True)"),
        ("out = torch.zeros_like(G)", "out[..., :4] = 0", "out[0].copy_(G[0])", "out.fill_(1.0)"),
        ("a, *rest = torch.empty((4, 2)).unbind(0)", "b = rest[0].shape[0] + 1"),
        ("import math", "n = math.prod(G.shape) + math.ceil(math.log2(G.shape[0] + 1))"),
    ],
)  # fmt: skip
def test_honest_host_code_is_left_alone(lines: tuple[str, ...]) -> None:
    assert checks(inside_run(*lines)) == set()


@pytest.mark.parametrize(
    ("lines", "check"),
    [
        (("x = G + 1",), "static.tensor_math"),
        (("x = -G.view(-1)",), "static.tensor_math"),
        (("x = torch.empty(3)", "x += 1"), "static.tensor_math"),
        (("x = 2 if steps else 3", "y = torch.ones(2) * x"), "static.tensor_math"),
        (("x = [v * 2 for v in G.split(2)]",), "static.tensor_math"),
        (("x, y = G.chunk(2)", "z = x > y"), "static.tensor_math"),
        (("x = {'a': G, 'b': torch.empty_like(G)}", "y = x['a'] - x['b']"), "static.tensor_math"),
        (("x = abs(G)",), "static.tensor_math"),
        (("n = int(G[0, 0])",), "static.tensor_math"),
        (("x = scale @ steps",), "static.tensor_math"),
        (("f = lambda t: t * 2", "x = f(G)"), "static.tensor_math"),
        (("x = G.softmax(-1)",), "static.tensor_methods"),
        (("x = scale.softmax(-1)",), "static.attributes"),
        (("n = G.max().item()",), "static.tensor_methods"),
        (("x = G.to(torch.float32)",), "static.casts"),
        (("x = G.to(dtype=G.dtype)",), "static.casts"),
        (("x = torch.tensor([G, G])",), "static.casts"),
        (("x = torch.cat([G, G])",), "static.torch_names"),
        (("from torch.nn import functional as F", "x = F.relu(G)"), "static.torch_names"),
        (("import os", "x = os.environ"), "static.imports"),
        (("x = copy(G, G, 1, 2)",), "static.kernel_use"),
        (("copy.cache_hook = print",), "static.monkeypatch"),
        (("torch.backends.cudnn.benchmark = True",), "static.monkeypatch"),
        (("f = getattr", "x = list(map(getattr, [G], ['sum']))"), "static.reflection"),
        (("f = [getattr]",), "static.reflection"),
        (("f = dict(take=delattr)",), "static.reflection"),
        (("f = lambda x=setattr: x",), "static.reflection"),
        (("match G:", "    case object(mT=x):", "        y = x * 2"), "static.tensor_math"),
        (("match copy:", "    case object(fn=f):", "        f(G)"), "static.kernel_use"),
        (("def f(x, library=torch):", "    return library"), "static.reflection"),
        (("raise ValueError('no', G)",), "static.tensor_math"),
        (("x = '{}'.format(G)",), "static.tensor_math"),
        (("x = list(map(repr, G.split(2)))",), "static.tensor_math"),
        (("print([G])",), "static.tensor_math"),
        (("from torch import *",), "static.imports"),
        (("from .neighbour import run as other",), "static.imports"),
    ],
)
def test_what_torch_would_compute_is_found(lines: tuple[str, ...], check: str) -> None:
    assert check in checks(inside_run(*lines)) if "import *" not in lines[0] else check in checks("\n" + lines[0])


def test_what_only_a_script_would_run_is_not_judged_but_its_else_is() -> None:
    assert checks("\nif __name__ == '__main__':\n    print(torch.randn(3) @ torch.randn(3))\n") == set()
    assert "static.torch_names" in checks("\nif __name__ == '__main__':\n    pass\nelse:\n    x = torch.randn(3)\n")


def test_a_violation_names_its_line_and_what_to_do_instead() -> None:
    (violation,) = check_rules("import torch\n\ndef run(G):\n    return torch.bmm(G, G)\n", {})
    assert (violation.check, violation.line) == ("static.torch_names", 4)
    assert "torch.bmm" in violation.message and "@triton.jit" in violation.message


@pytest.mark.parametrize(
    ("line", "check", "words"),
    [
        ("x = scale.shpe", "static.attributes", ("no attribute of that name", "did you mean .shape?")),
        ("x = scale.qqqqqq", "static.attributes", ("no attribute of that name", "write it without")),
        ("x = scale.bmm", "static.attributes", ("if it is a tensor", "give it another name")),
        ("scale.enter_context(G)", "static.attributes", ("cannot follow", "a plain with statement")),
        ("scale.send(G)", "static.attributes", ("cannot follow", "an ordinary function")),
        ("scale.register(G)", "static.attributes", ("cannot follow", "isinstance()")),
        ("scale._tiles", "static.attributes", ("a name without the underscore",)),
        ("scale.f_back", "static.attributes", ("frames of Python's", "rename it")),
        ("scale._replace(G=2)", "static.attributes", ("cannot follow", "a new tuple")),
        ("with torch.inference_mode():\n        pass", "static.torch_names", ("use torch.no_grad() or nothing",)),
        ("torch.view_as_complex(G)", "static.torch_names", ("a dimension of two",)),
    ],
)
def test_a_message_says_what_would_help(line: str, check: str, words: tuple[str, ...]) -> None:
    (violation,) = check_rules(KERNEL + inside_run(line), {})
    assert violation.check == check
    assert all(word in violation.message for word in words), violation.message
    assert "did you mean" not in violation.message or "shpe" in violation.message


def test_what_the_allocator_holds_is_not_asked_for() -> None:
    for name in ("memory_allocated", "max_memory_allocated", "memory_reserved"):
        assert checks(inside_run(f"n = torch.cuda.{name}()")) == {"static.torch_names"}


def test_special_names_of_a_class_are_allowed_where_they_say_how_it_looks() -> None:
    body = "\nclass Plan:\n    __slots__ = ('rows',)\n    __hash__ = None\n"
    assert checks(body) == set()
    assert checks(f"{body}    __annotations__ = {{}}\n") == {"static.special_methods"}
    assert checks(f"{body}    __match_args__ = ('fn',)\n") == {"static.special_methods"}
    assert checks(f"{body}    global __name__\n    __name__ = 'x'\n") >= {"static.reflection"}


def test_a_task_extends_and_restricts_the_list() -> None:
    arange = inside_run("x = torch.arange(4, device=G.device)")
    assert checks(arange) == {"static.torch_names"}
    assert checks(arange, {"torch": {"allow": ["torch.arange"]}}) == set()
    assert checks(inside_run("x = G.clone()"), {"tensor": {"deny": ["clone"]}}) == {"static.tensor_methods"}
    assert checks("\nimport numpy as np\nx = np.prod((2, 3))", {"modules": {"allow": ["numpy"]}}) == set()
    assert checks(inside_run("n = scale.rank + scale.world"), {"attributes": {"allow": ["rank", "world"]}}) == set()
    asm = "\n@triton.jit\ndef k(x):\n    tl.inline_asm_elementwise('', '', [x], dtype=tl.int32, is_pure=True, pack=1)\n"
    assert checks(asm) == set()
    denied = {"triton": {"deny": ["triton.language.inline_asm_elementwise"]}}
    assert checks(asm, denied) == {"static.kernel_names"}


@pytest.mark.parametrize("rules", [{"numpy": {}}, {"torch": {"forbid": []}}, {"torch": {"allow": "torch.arange"}}])
def test_rules_that_make_no_sense_are_refused(rules: dict[str, dict[str, list[str]]]) -> None:
    with pytest.raises(ValueError, match=r"rules\.toml"):
        check_rules("", rules)


@pytest.mark.parametrize("source", ["def run(:", "x = 1\0", "x = " + "-" * 100_000 + "1", "x = " + "(" * 500])
def test_text_that_does_not_parse_is_a_syntax_error_with_a_line(source: str) -> None:
    with pytest.raises(SyntaxError) as caught:
        check_rules(source, {})
    assert caught.value.lineno is not None


@pytest.mark.parametrize("source", ["x = " + "1 + " * 900 + "1", "x = " + "-" * 900 + "1"])
def test_a_source_that_the_analysis_fails_on_has_one_violation(source: str) -> None:
    for found in (check_rules(source, {}), missing_launch(source)):
        (violation,) = found
        assert (violation.check, violation.line) == ("static.unreadable", 1)
        assert "RecursionError" in violation.message and "plainly" in violation.message


def test_code_that_no_walker_saw_is_found_with_its_line() -> None:
    program = analyse.__wrapped__(
        "def f(x: 'text', *a: int) -> None:\n    match x:\n        case [1, {'a': _}]:\n            x[0] += 1\n"
    )
    assert list(unread(program)) == []
    program.tree.body.append(ast.parse("\n\n\n\n\ny = [g for g in ()]").body[0])
    found = list(unread(program))
    assert {(violation.check, violation.line) for violation in found} == {("static.unread", 6)}
    assert len(found) == len({"Assign", "y", "ListComp", "elt", "target", "Tuple"})


def test_what_only_a_script_would_run_is_judged_where_the_source_touches_its_name() -> None:
    guarded = "\nif __name__ == '__main__':\n    torch.randn(3)\n"
    for touched in ("(__name__ := 'x')", "for __name__ in 'x': pass", "import math as __name__", "del __name__"):
        assert {"static.torch_names", "static.reflection"} <= checks(f"\n{touched}{guarded}"), touched


def test_a_hostile_source_does_not_hold_the_analysis_up() -> None:
    loops = "".join("    " * depth + f"for i{depth} in range(9):\n" for depth in range(18)) + "    " * 18 + "pass\n"
    doubling = "x = (1, 2)\n" + "x = (x, x)\n" * 80
    began = time.process_time()
    assert check_rules(loops, {}) == check_rules(doubling, {}) == ()
    assert time.process_time() - began < 5


DECORATOR = "\ndef checked(function):\n    def wrapper(G):\n        return function(G)\n    return wrapper\n\n"


@pytest.mark.parametrize(
    ("body", "missing"),
    [
        ("\ndef run(G):\n    copy[(1,)](G, G, 4, BLOCK=4)\n    return G\n", False),
        ("\ndef run(G):\n    return G\n", True),
        ("\ndef unused(G):\n    copy[(1,)](G, G, 4, BLOCK=4)\n\ndef run(G):\n    return G\n", True),
        ("\nTABLE = {'c': copy}\n\ndef run(G):\n    TABLE['c'][(1,)](G, G, 4, BLOCK=4)\n    return G\n", False),
        ("\nclass L:\n    def go(self, G):\n        copy[(1,)](G, G, 4, 4)\n\ndef run(G):\n    L().go(G)\n", False),
        ("\ndef go(k, G):\n    k.run(G, G, 4, 4, grid=(1,), warmup=False)\n\ndef run(G):\n    go(copy, G)\n", False),
        (DECORATOR + "@checked\ndef run(G):\n    copy[(1,)](G, G, 4, BLOCK=4)\n    return G\n", False),
        (
            DECORATOR + "@checked\ndef go(G):\n    copy[(1,)](G, G, 4, BLOCK=4)\n\ndef run(G):\n    return go(G)\n",
            False,
        ),
        (DECORATOR + "@checked\ndef go(G):\n    copy[(1,)](G, G, 4, BLOCK=4)\n\ndef run(G):\n    return G\n", True),
    ],
)
def test_a_launch_is_looked_for_in_what_run_can_reach(body: str, missing: bool) -> None:
    assert bool(missing_launch(KERNEL + body)) is missing


def test_a_source_without_any_kernel_has_no_launch() -> None:
    (violation,) = missing_launch("def run(G):\n    return G\n")
    assert violation.check == "static.no_launch" and "@triton.jit" in violation.message
