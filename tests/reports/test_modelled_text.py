"""A modelled latency in words: the word is always there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from d2k_agent.contract.modelled import ModelledLatency, ModelledLaunch, ModelledWorkload
from d2k_agent.contract.wire import from_data, to_data
from d2k_agent.reports.modelled_text import LEGEND, modelled_line, modelled_mean, modelled_text

PRODUCT = ModelledLaunch(
    "product",
    (16, 8),
    3,
    6,
    1.25,
    "products",
    {"fp16": 2e12},
    loaded_bytes=1e9,
    stored_bytes=1e9,
    moved_bytes=2e9,
    compulsory_bytes=5e8,
    arithmetic=0.0,
    integers=0.0,
    atomics=0.0,
    spread=0.031,
    notes=("one by one",),
)
QUEUE = ModelledLaunch("queue", (132,), 1, why_not="a branch depends on contents")
MODELLED = ModelledLatency(
    "h200",
    (ModelledWorkload("small", 3.75, (PRODUCT,)), ModelledWorkload("large", None, (QUEUE,), "queue: a branch depends")),
    ("products: 665 TFLOP/s (measured)",),
)


def test_every_latency_is_called_modelled_and_what_has_none_says_why() -> None:
    lines = modelled_text(MODELLED, {"small": 3.7}).splitlines()
    assert lines[0] == "Modelled for h200, nothing was measured"
    assert "small: modelled 3.75 ms a call" in lines
    assert "large: not modelled: queue: a branch depends" in lines
    assert "note: product: one by one" in lines
    assert lines[-2:] == ["What the model rests on:", "  products: 665 TFLOP/s (measured)"]
    row = next(line for line in lines if line.startswith("product"))
    assert row.split() == "product 3 16 x 8 6 of 128 programs 1.25 ms products 2 fp16 2 0.5 3.1 %".split()
    header = next(line for line in lines if line.startswith("launch"))
    assert "modelled each" in header and "measured" not in header


def test_a_latency_below_the_floor_is_warned_about_and_what_was_not_looked_at_is_said() -> None:
    text = modelled_text(MODELLED, {"small": 4.0})
    assert "warning: that is below the floor of 4 ms: it does less than the best known algorithm must" in text
    assert "warning" not in modelled_text(MODELLED, {"small": 3.7}) + modelled_text(MODELLED, {})
    assert "Whether it compiles, fits and is right was not looked at" in text and "GB once: device memory" in text


def test_where_nothing_is_modelled_the_headline_says_so_and_each_reason_once() -> None:
    reasons = {"small": "it does not end", "large": "it does not end", "huge": "a grid is unknown"}
    none = ModelledLatency("h200", tuple(ModelledWorkload(label, None, (), why) for label, why in reasons.items()))
    assert modelled_text(none, {"small": 1.0}).splitlines() == [
        "Not modelled for h200, and nothing was measured",
        "small, large: it does not end",
        "huge: a grid is unknown",
    ]


def test_a_line_says_that_nothing_was_measured() -> None:
    assert modelled_mean(12.345) == "modelled 12.35 ms (geometric mean), not measured"
    assert modelled_line(MODELLED) == "not modelled for h200 (large: queue: a branch depends)"


def test_a_launch_that_is_not_modelled_has_no_counts_and_zeros_of_older_records_are_read() -> None:
    data = to_data(QUEUE)
    counted = ("product_flops", "loaded_bytes", "stored_bytes", "moved_bytes", "compulsory_bytes")
    assert [data[name] for name in (*counted, "arithmetic", "integers", "atomics")] == [None] * 8
    assert to_data(ModelledLatency("h200", (ModelledWorkload("w", None, why_not="no"),)))["seconds"] is None
    assert from_data(ModelledLaunch, {**data, "product_flops": {}, "moved_bytes": 0.0}).moved_bytes == 0.0
    with pytest.raises(ValueError, match="modelled without a count of its work"):
        ModelledLaunch("k", (1,), 1, 1, 1.0)


def test_what_numbers_rest_on_is_told_only_where_there_are_numbers() -> None:
    none = replace(MODELLED, workloads=MODELLED.workloads[1:])
    headline, _, workload, *rows = modelled_text(none, {}).splitlines()
    assert headline == "Not modelled for h200, and nothing was measured"
    assert workload == "large: not modelled: queue: a branch depends"
    assert [row.split()[0] for row in rows] == ["launch", "queue"]
    beside = replace(none, workloads=(ModelledWorkload("large", None, (QUEUE, PRODUCT), "queue: a branch depends"),))
    text = modelled_text(beside, {})
    assert LEGEND[0] in text and "What the model rests on:" in text, "the product's row has numbers"
