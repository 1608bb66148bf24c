"""Which GPU an evaluator sees: from a wish, an index or a UUID, to the variables that CUDA reads.

Covers: the form of a wish, its meaning where some GPUs are hidden already, and the names of GPUs that are a target.
Does not cover: whether such a GPU is there (evaluator).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_WISH = re.compile(r"[0-9]{1,3}|(?:GPU|MIG)-[0-9A-Za-z/-]{1,80}")
CUDA_VARIABLES = _VISIBLE, _ORDER = "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"
"""What CUDA reads to know which GPUs a process sees, and how it counts them."""
SMI_ORDER = "PCI_BUS_ID"
"""The order in which nvidia-smi counts."""
_DEVICE_NAMES = {
    "b200": ("NVIDIA B200",),
    "b300": ("NVIDIA B300 SXM6 AC",),
    "h100": ("NVIDIA H100 80GB HBM3",),
    "h200": ("NVIDIA H200",),
}
"""How the driver names the GPUs that are a target. Whole names: whatever is like one differs by a word behind it."""


def is_gpu(wish: str) -> bool:
    """True for an index (0, 1, ...) and for a UUID (GPU-..., MIG-...)."""
    return _WISH.fullmatch(wish) is not None


def are_gpus(wish: str) -> bool:
    """True for one GPU and for several with commas between, for the ranks of a task; one may stand there twice."""
    return all(map(is_gpu, wish.split(",")))


def gpu_variables(wish: str | None, environ: Mapping[str, str]) -> dict[str, str]:
    """What to set in `environ` so that CUDA shows the GPUs of `wish` alone (None: what it shows already).

    One that is named twice is shown once, since CUDA shows none otherwise: ranks share it. An index counts what
    `environ` leaves visible, and where it hides nothing, as `nvidia-smi -L` counts; a UUID passes through. Raises
    ValueError with a sentence for an index beyond what is visible.
    """
    # CUDA's own order puts the fastest first.
    order = {_ORDER: environ.get(_ORDER, SMI_ORDER)}
    if wish is None:
        return order if _VISIBLE in environ else {}
    wishes = wish.split(",")
    chosen = dict.fromkeys(_visible(item, environ) if item.isdecimal() else item for item in wishes)
    return {_VISIBLE: ",".join(chosen), **(order if any(map(str.isdecimal, wishes)) else {})}


def _visible(index: str, environ: Mapping[str, str]) -> str:
    """How CUDA is told of the GPU with that index among the visible ones."""
    if _VISIBLE not in environ:
        return str(int(index))
    shown = visible_gpus(environ[_VISIBLE])
    if int(index) >= len(shown):
        raise ValueError(
            f"gpu {index} is not to be had: {_VISIBLE} is {environ[_VISIBLE]!r} there, which leaves {len(shown)} "
            "visible (counted from 0); choose one of those, or unset it"
        )
    return shown[int(index)]


def all_hidden(environ: Mapping[str, str]) -> bool:
    """True where `environ` lets CUDA see no GPU at all."""
    return _VISIBLE in environ and not visible_gpus(environ[_VISIBLE])


def no_gpu(wish: str | None) -> str:
    """What to say where a GPU is asked for, `wish` or (None) any, and there is none."""
    what, less = ("device cuda", "use --device cpu") if wish is None else (f"gpu {wish}", "leave --gpu out")
    return f"{what} is not to be had: this machine has no NVIDIA GPU; {less} to judge on its CPU"


def visible_gpus(value: str) -> list[str]:
    """The entries of CUDA_VISIBLE_DEVICES that count: those before the first that is no GPU, as CUDA reads it."""
    shown = []
    for entry in (part.strip() for part in value.split(",")):
        if not is_gpu(entry):
            break
        shown.append(entry)
    return shown


def device_name(target: str) -> str:
    """How the driver names the GPU that is the target (b200, h200, ...). Raises KeyError for another word."""
    return _DEVICE_NAMES[target.lower()][0]


def is_target(device_name: str, target: str) -> bool:
    """True when the device of that name is a whole GPU of the kind `target` (b200, h200, ...) and nothing like it.

    A card for another slot (H100 PCIe, H200 NVL), a part of a GPU (MIG, vGPU) and a superchip (GB200) are not.
    """
    return device_name in _DEVICE_NAMES.get(target.lower(), ())
