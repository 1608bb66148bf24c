"""Two machines, for the tests of what is printed about a replay."""

from __future__ import annotations

from dataclasses import replace

from d2k_agent.contract import Environment

ON_CPU = Environment("m", "cpu", "x86_64 CPU (Triton interpreter)", "b200", "x", "3.11", "2.13", "3.7.1", "e", "t")
ON_H200 = replace(ON_CPU, device="cuda", device_name="NVIDIA H200", target="h200", torch="2.11", triton="3.6.0")
