"""Values that the rules cannot follow: what may be a tensor, or a type of torch's or Triton's, is taken for one."""

from __future__ import annotations

import pytest

from tests.evaluator.rules.asking import OWN, checks, inside_run


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("space = Space(G)", "out = space.matmul(G)"), set()),
        (("space = CACHE.get(G.shape)", "copy[(1,)](G, space.norm, 1, BLOCK=16)"), set()),
        (("space = CACHE.get(G.shape)", "norm = space.norm", "space.product(G)"), set()),
        (("space = CACHE.get(G.shape)", "x = space.matmul(G)"), {"static.attributes"}),
        (("space = CACHE.get(G.shape)", "x = space.norm(2)"), {"static.attributes"}),
        (("f = CACHE.get(G.shape).norm", "g = f if scale else steps", "x = g(2)"), {"static.attributes"}),
        (("f = getattr(CACHE.get(G.shape), 'norm')", "x = f(2)"), {"static.attributes"}),
    ],
)  # fmt: skip
def test_own_classes_do_not_hide_what_a_tensor_would_compute(lines: tuple[str, ...], expected: set[str]) -> None:
    assert checks(OWN + inside_run(*lines)) == expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("space = CACHE.get(G.shape)", "space.product = space.calls = None", "del space.product"), set()),
        (("space = Space(G)", "space.shape = G.shape", "Space.calls = 1", "space.copy_ = None"), set()),
        (("def hook(nargs):", "    nargs['d'].block_shape = [16]", "    nargs['d'].layout = None"), set()),
        (("n = type(Space(G)).norm", "same = type(G) is type(CACHE.get(0))"), set()),
        (("space = CACHE.get(G.shape)", "space.norm = None"), {"static.monkeypatch"}),
        (("space = CACHE.get(G.shape)", "space.data = G"), {"static.monkeypatch"}),
        (("CACHE.get(0).fn = print",), {"static.monkeypatch"}),
        (("CACHE.get(0).atomic_add += 1",), {"static.monkeypatch"}),
        (("setattr(CACHE.get(0), 'softmax', None)",), {"static.monkeypatch"}),
        (("delattr(CACHE.get(0), 'softmax')",), {"static.monkeypatch"}),
        (("kind = type(CACHE.get(0))", "kind.anything = None"), {"static.monkeypatch"}),
        (("type(Space(G)).calls = 1",), {"static.monkeypatch"}),
        (("for type(CACHE.get(0)).calls in ():", "    pass"), {"static.monkeypatch"}),
    ],
)  # fmt: skip
def test_what_may_be_torchs_or_tritons_is_not_changed(lines: tuple[str, ...], expected: set[str]) -> None:
    assert checks(OWN + inside_run(*lines)) == expected


@pytest.mark.parametrize(
    ("line", "refused"),
    [
        ("x = cfg.tiles + cfg.rows", False),
        ("x = part(g) + whole(g)", False),
        ("x = [i for i in range(2)]", False),
        ("cfg.keep(g)", True),
        ("host(g)", True),
        ("x = host", True),
        ("g.rows = 1", True),
        ("g[0] = 1", True),
        ("g[0] += 1", True),
        ("for cfg.rows in range(2):\n        pass", True),
        ("cfg.update(g)", True),
        ("cfg.handle", True),
    ],
)
def test_a_kernel_hands_nothing_to_the_host(line: str, refused: bool) -> None:
    body = """
class Config:
    rows = 1

    @property
    def tiles(self):
        return self.rows

    def keep(self, value):
        self.rows = value

def host(x):
    return x

@triton.jit
def part(x):
    return x

def whole(x):
    return x

whole = triton.jit(whole)

@triton.jit
def k(g, cfg: tl.constexpr):
    """
    assert checks(f"{body}{line}\n") == ({"static.kernel_names"} if refused else set())


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("n = (scale > 2).sum()",), {"static.attributes"}),
        (("n = (1 < scale < 2).any()",), {"static.attributes"}),
        (("n = divmod(scale, 2)[0].sum()",), {"static.attributes"}),
        (("n = round(scale).sum()",), {"static.attributes"}),
        (("n = triton.Config({'a': scale}).kwargs['a'].sum()",), {"static.attributes"}),
        (("n = (scale is None) + (len(G.shape) > 2) + (scale in (1, 2))", "m = n + (scale > 2)"), set()),
        (("n = round(len(G.shape) / 2).bit_length() + divmod(G.numel(), 2)[1]",), set()),
        (("c = triton.Config({'B': 1}, num_warps=4)", "n = c.kwargs['B'] * c.num_warps"), set()),
    ],
)  # fmt: skip
def test_what_may_be_a_tensor_is_not_taken_for_a_number(lines: tuple[str, ...], expected: set[str]) -> None:
    assert checks(inside_run(*lines)) == expected


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("A(Space)", set()),
        ("A(collections.namedtuple('P', 'a b'))", set()),
        ("A(typing.NamedTuple('P', [('a', int)]))", set()),
        ("A(typing.Protocol[T], typing.Generic[T])", set()),
        ("A(typing.TypedDict, total=False)", set()),
        ("A(list[int], metaclass=abc.ABCMeta)", {"static.subclassing"}),
        ("A(list[int])", set()),
        ("A(CACHE.get(0))", {"static.subclassing"}),
        ("A(type(CACHE.get(0)))", {"static.subclassing"}),
        ("A(CACHE[0])", {"static.subclassing"}),
        ("A(metaclass=CACHE.get(0))", {"static.subclassing"}),
        ("A(type(torch.empty(1)))", {"static.subclassing"}),
        ("A(typing.cast('type', torch.Tensor))", {"static.subclassing"}),
        ("A(typing.Mapping[str, int])", set()),
    ],
)
def test_a_class_derives_from_what_can_be_followed(head: str, expected: set[str]) -> None:
    body = (
        f"\nimport abc\nimport collections\nimport typing\n\nT = typing.TypeVar('T')\n\nclass {head}:\n    a: int = 1\n"
    )
    assert checks(OWN + body) - {"static.module_names"} == expected


@pytest.mark.parametrize(
    ("line", "check"),
    [
        ("same = type(G) is type(G) and isinstance(G, type)", None),
        ("def f(kind: type[Space]) -> type:\n        return kind", None),
        ("x = type(Space)('X', (torch.Tensor,), {})", "static.reflection"),
        ("x = type(type)('X', (torch.Tensor,), {})", "static.reflection"),
        ("try:\n        pass\n    except ValueError as e:\n        raise type(e)('a') from e", None),
        ("meta = type(Space)(Space)\n    x = meta('X', (torch.Tensor,), {})", "static.reflection"),
        ("meta = type(Space)\n    x = meta('X', (torch.Tensor,), {})", "static.reflection"),
        ("x = type(*('X', (torch.Tensor,), {}))", "static.reflection"),
        ("x = functools.partial(type, 'X')((torch.Tensor,), {})", "static.reflection"),
        ("x = list(map(type, ['X'], [(torch.Tensor,)], [{}]))", "static.reflection"),
        ("x = {'a': type}", "static.reflection"),
        ("x = enum.Enum('X', 'a b', type=torch.Tensor)", "static.subclassing"),
        ("x = enum.Enum('X', 'a b', **{'type': torch.Tensor})", "static.subclassing"),
        ("x = functools.partial(enum.Enum, type=Space)", "static.subclassing"),
        ("x = Kind('X', 'a b', type=Space)", "static.subclassing"),
        ("x = enum.Enum('X', 'a b')", None),
        ("x = argument(type=3)", None),
        ("dataclasses.dataclass(torch.Tensor)", "static.monkeypatch"),
        ("dataclasses.dataclass(eq=True)(type(G))", "static.monkeypatch"),
        ("x = list(map(dataclasses.dataclass, [torch.Tensor]))", "static.monkeypatch"),
        ("make = dataclasses.dataclass\n    make(torch.Tensor)", "static.monkeypatch"),
        ("gluon.aggregate(torch.Tensor)", "static.monkeypatch"),
        ("functools.total_ordering(type(copy))", "static.monkeypatch"),
    ],
)
def test_no_class_is_made_or_changed_by_a_call(line: str, check: str | None) -> None:
    body = """
import dataclasses
import enum
import functools
from dataclasses import dataclass, field
from triton.experimental import gluon

class Kind(enum.Enum):
    pass

@dataclass(frozen=True)
@functools.total_ordering
class Plan:
    rows: int = field(default=1)

    def __lt__(self, other):
        return self.rows < other.rows

def argument(type):
    return type
"""
    assert checks(OWN + body + inside_run(line)) == ({check} if check else set())


_PUTS = """
class Own:
    def put(self):
        self.is_contiguous = print
        return 0

    def go(self, kind):
        return type(self)("X", (kind,), {})

class Heir(Own):
    pass
"""


@pytest.mark.parametrize(
    ("line", "check"),
    [
        ("Own().put()\n    x = list(map(Own().put, ()))", None),
        ("x = list(map(Own.put, [torch.Tensor]))", "static.monkeypatch"),
        ("x = list(map(Heir.put, [torch.Tensor]))", "static.monkeypatch"),
        ("x = sorted([torch.Tensor], key=Own.put)", "static.monkeypatch"),
        ("Own.put(torch.Tensor)", "static.monkeypatch"),
        ("put = getattr(Own, 'put')\n    put(torch.Tensor)", "static.monkeypatch"),
        ("box = {'a': Own}\n    box.get('a').put(torch.Tensor)", "static.monkeypatch"),
        ("def put(kind: int):\n        kind.is_contiguous = print\n    put(torch.Tensor)", "static.monkeypatch"),
        ("x = list(map(Own.go, [Own], [torch.Tensor]))", "static.reflection"),
        ("box = {}\n    box['a'] = type(copy)\n    box['a'].create_binder = print", "static.monkeypatch"),
        ("box = {}\n    box['a'] = tl.constexpr\n    box['a'].value = property(print)", "static.monkeypatch"),
    ],
)
def test_self_and_numbers_may_be_a_type_of_others(line: str, check: str | None) -> None:
    assert checks(_PUTS + inside_run(line)) == ({check} if check else set())


@pytest.mark.parametrize(
    ("line", "refused"),
    [
        ("plan.shape = tuple(G.shape)", False),
        ("plan.size = G.numel()\n    same = isinstance(G, torch.Tensor)", False),
        ("plan.shape += (1,)", True),
        ("plan.shape = G", True),
        ("plan.stride = 1", True),
        ("plan.shape = print", True),
        ("PLANS['a'] = torch.Tensor\n    plan.shape = (1,)", True),
        ("PLANS['a'] = (lambda: torch.Tensor)()\n    plan.shape = (1,)", True),
        ("PLANS['a'] = type(G)\n    plan.shape = (1,)", True),
        ("PLANS['a'] = dataclasses.fields(Plan)[0].type\n    plan.shape = (1,)", True),
        ("same = isinstance(G, kind := torch.Tensor)\n    plan.shape = (1,)", True),
        ("kind = torch.Tensor\n    PLANS['a'] = kind\n    plan.shape = (1,)", True),
    ],
)
def test_a_plan_keeps_a_shape_where_no_class_of_torchs_can_be_in_its_place(line: str, refused: bool) -> None:
    body = """
import dataclasses

@dataclasses.dataclass
class Plan:
    out: torch.Tensor
    shape: tuple
    size: int = 0

PLANS: dict[tuple, Plan] = {}
"""
    found = checks(body + inside_run("plan = PLANS.get(G.ndim)", line))
    assert found == ({"static.monkeypatch"} if refused else set())
