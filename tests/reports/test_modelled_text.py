"""A modelled latency in words: the word is always there."""

from __future__ import annotations

from d2k_agent.contract.modelled import ModelledLatency, ModelledLaunch, ModelledWorkload
from d2k_agent.reports.modelled_text import modelled_line, modelled_mean, modelled_text

PRODUCT = ModelledLaunch(
    "product", (16, 8), 3, 6, 1.25, "products", {"fp16": 2e12}, 1e9, 1e9, 2e9, 5e8, 0.0, 0.0, 0.031, ("one by one",)
)
QUEUE = ModelledLaunch("queue", (132,), 1, why_not="a branch depends on contents")
MODELLED = ModelledLatency(
    "h200",
    (ModelledWorkload("small", 3.75, (PRODUCT,)), ModelledWorkload("large", None, (QUEUE,), "queue: a branch depends")),
    ("products: 665 TFLOP/s (measured)",),
)


def test_every_latency_is_called_modelled_and_what_has_none_says_why() -> None:
    lines = modelled_text(MODELLED).splitlines()
    assert lines[0] == "Modelled for h200, nothing was measured"
    assert "small: modelled 3.75 ms a call" in lines
    assert "large: not modelled: queue: a branch depends" in lines
    assert "note: product: one by one" in lines
    assert lines[-2:] == ["What the model rests on:", "  products: 665 TFLOP/s (measured)"]
    row = next(line for line in lines if line.startswith("product"))
    assert row.split() == "product 3 16 x 8 6 of 128 programs 1.25 ms products 2 fp16 2 0.5 3.1 %".split()
    header = next(line for line in lines if line.startswith("launch"))
    assert "modelled each" in header and "measured" not in header


def test_a_line_says_that_nothing_was_measured() -> None:
    assert modelled_mean(12.345) == "modelled 12.35 ms (geometric mean), not measured"
    assert modelled_line(MODELLED) == "not modelled for h200 (large: queue: a branch depends)"
