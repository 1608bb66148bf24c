"""The measuring program: where there is nothing to measure it says so, in the form that the command line reads."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("torch")
import torch

from d2k_agent.contract.ceilings import FAST_ACCUMULATION, NOT_MEASURED
from d2k_agent.contract.data_sheets import MEASURED
from d2k_agent.evaluator.ceilings import main
from d2k_agent.evaluator.ceilings.measuring import product_method


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU to measure")
def test_without_a_gpu_the_answer_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    main()
    answer = json.loads(capsys.readouterr().out)
    assert list(answer) == [NOT_MEASURED]
    assert "sees no GPU" in answer[NOT_MEASURED]


def test_what_fp8_products_are_summed_in_is_said() -> None:
    assert FAST_ACCUMULATION in product_method(torch.float8_e4m3fn, 1, 2, 3)
    assert product_method(torch.bfloat16, 1, 2, 3) == "torch, 1 x 2 x 3 on random data for 1 s"
    assert all(item.fp8_tflops and FAST_ACCUMULATION in item.fp8_tflops.provenance.source for item in MEASURED)
