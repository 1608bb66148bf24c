"""bfloat16 and the two common 8-bit floats as bit patterns in NumPy: exact widening, and rounding as a GPU rounds.

Covers: bf16, fp8e4nv (e4m3) and fp8e5 (e5m2), the kinds that NumPy has no type for and that the Triton interpreter
therefore keeps as unsigned integers. Does not cover: fp16, fp32, fp64, which NumPy computes itself.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch

from d2k_agent.evaluator.metering import unmetered

KINDS = ("bf16", "fp8e4nv", "fp8e5")
"""Triton's names of the kinds covered."""

_FP8 = {"fp8e4nv": torch.float8_e4m3fn, "fp8e5": torch.float8_e5m2}


def code_type(kind: str) -> type[Any]:
    """The NumPy type that holds the bit patterns of `kind`."""
    return np.uint16 if kind == "bf16" else np.uint8


def widen(codes: np.ndarray, kind: str) -> np.ndarray:
    """The values of bit patterns of `kind`, as float32: exact. The shape is kept."""
    if kind == "bf16":
        return (codes.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return _fp8_values(kind)[codes.view(np.uint8)]


def narrow(values: np.ndarray, kind: str, toward_zero: bool = False) -> np.ndarray:
    """The bit patterns of `kind` nearest to `values` (ties to even), or the next ones toward zero.

    bf16 overflows to infinity; the 8-bit kinds saturate at their largest finite value, infinities included, as the
    `satfinite` conversions of NVIDIA GPUs do. NaN stays NaN.
    """
    single = np.asarray(values, dtype=np.float32)
    codes = _nearest_bf16(single) if kind == "bf16" else _nearest_fp8(single, kind)
    if toward_zero:
        # Sign and magnitude: one code less is one step nearer to zero, whatever the sign.
        with np.errstate(invalid="ignore"):
            codes = codes - (np.abs(widen(codes, kind)) > np.abs(single)).astype(codes.dtype)
    return codes


def _nearest_bf16(single: np.ndarray) -> np.ndarray:
    bits = single.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) >> 16
    # Rounding could carry a NaN's mantissa into the sign: keep it a quiet NaN instead.
    return np.where(np.isnan(single), (bits >> 16) | 0x40, rounded).astype(np.uint16)


@unmetered()
def _nearest_fp8(single: np.ndarray, kind: str) -> np.ndarray:
    largest = torch.finfo(_FP8[kind]).max
    bounded = torch.from_numpy(np.clip(single, -largest, largest).reshape(-1))
    return np.asarray(bounded.to(_FP8[kind]).view(torch.uint8).numpy()).reshape(single.shape)


@functools.cache
@unmetered()
def _fp8_values(kind: str) -> np.ndarray:
    return np.asarray(torch.arange(256, dtype=torch.uint8).view(_FP8[kind]).float().numpy())
