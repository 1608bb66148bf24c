"""The measuring program: where there is nothing to measure it says so, in the form that the command line reads."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("torch")
import torch

from d2k_agent.contract.ceilings import NOT_MEASURED
from d2k_agent.evaluator.ceilings import main


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU to measure")
def test_without_a_gpu_the_answer_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    main()
    answer = json.loads(capsys.readouterr().out)
    assert list(answer) == [NOT_MEASURED]
    assert "sees no GPU" in answer[NOT_MEASURED]
