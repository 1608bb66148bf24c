"""Hidden variations of the inputs, rows that gates are for, and the bounds of a call.

A variation takes the inputs of `get_inputs` and a secret generator, and returns new inputs; the ones it was given stay
as they are. The generator may live on another device than the inputs. A function of rows takes the arguments of run()
and the expected outputs.

`cold_entries` separates a gradient that leaves out small probabilities: dropped below 2^-12 they cost 0.06 and more of
the norm of those rows at smoke shapes, 0.09 and more at 2050 entries, and 0.65 at a vocabulary of 32768, while all of
dw is off by 0.003, within its limit. A correct kernel with a bfloat16 gradient is off by 0.001 on both.

`tokens_with_gradient` and `warm_entries` separate a kernel that leaves out whole rows: among thousands, a few rows are
within the limit of the norm of all, and so are all tokens whose target is likely. The bfloat16 gradient costs 0.01 of
such a row at most. A normaliser that is off by d costs a token whose target has probability p another d / (1 - p).
Sums that a tensor core truncates are low by some 1e-5 of the logit at a width of 7168, so d grows with the logits, and
with it the smallest row that is judged.

`even_entries` separates sums of dw that are rounded on their way: with a gradient that bfloat16 holds exactly, float32
sums are good to 1e-6, and partial sums in bfloat16 are off by 0.002.
"""

import math

import torch

IGNORED = -100
PROBED = 64
LARGEST = 120.0
LEAST = 1e-9
SMALL = 1 / 32
"""Rows of dw below this part of the largest one are differences of nearly equal probabilities, which float32 blurs."""
RESOLVED = 4096
"""A row of dx counts from this part of the largest on: its |lse|, or 16 where that is less, over RESOLVED."""
CONFIDENT = 252.5 / 256
"""Probability of the target, halfway between two numbers of bfloat16: rounded before 1 is taken off, it loses a seventh
of the difference. The row of dx still counts: its norm is 1/210 of the largest or more."""
APART = 256
SHIFT = 200.0
"""Exact in bfloat16. No constant makes both exp(SHIFT - constant) and exp(-SHIFT - constant) fit in float32."""


def none_ignored(inputs: list, generator: torch.Generator) -> list:
    """Every token has a target, drawn from the whole vocabulary."""
    x, w, target, dw_acc = inputs
    draw = torch.randint(len(w), target.shape, generator=generator, device=generator.device, dtype=torch.int32)
    return [x, w, draw.to(target.device), dw_acc]


def half_ignored(inputs: list, generator: torch.Generator) -> list:
    """Half of the tokens are ignored, and most of these lie in the first half, as in padded sequences."""
    x, w, target, dw_acc = inputs
    tokens = len(target)
    weight = torch.where(torch.arange(tokens) < tokens // 2, 8.0, 1.0)
    chosen = torch.multinomial(weight.to(generator.device), tokens // 2, generator=generator).to(target.device)
    changed = target.clone()
    changed[chosen] = IGNORED
    return [x, w, changed, dw_acc]


def all_ignored(inputs: list, generator: torch.Generator) -> list:
    """No token has a target: the loss is 0, dx is zero, and dw_acc stays as it is."""
    x, w, target, dw_acc = inputs
    return [x, w, torch.full_like(target, IGNORED), dw_acc]


def edge_targets(inputs: list, generator: torch.Generator) -> list:
    """Targets are the first and the last entry of the vocabulary, in random order; one in five tokens is ignored."""
    x, w, target, dw_acc = inputs
    draw = torch.rand(target.shape, generator=generator, device=generator.device).to(target.device)
    entries = torch.where(draw < 0.4, 0, torch.where(draw < 0.8, len(w) - 1, IGNORED))
    return [x, w, entries.to(target.dtype), dw_acc]


def large_logits(inputs: list, generator: torch.Generator) -> list:
    """Hidden states times a factor that takes logits to 120: exp(120) does not fit in float32.

    The accumulator is zero, since the gradients of cold entries are far below its rounding.
    """
    x, w, target, dw_acc = inputs
    largest = (x[:PROBED].float() @ w.float().T).abs().max()
    return [(x.float() * (LARGEST / largest)).to(x.dtype), w, target, torch.zeros_like(dw_acc)]


def confident_tokens(inputs: list, generator: torch.Generator) -> list:
    """One token in 256 finds its target likely: too few for the norm of all of dx to show whether they have a row.

    Its hidden state is its target's row of w, made longer: that takes the smallest logits.
    """
    x, w, target, dw_acc = inputs
    first = int(torch.randint(min(APART, len(x)), (), generator=generator, device=generator.device))
    chosen = torch.arange(first, len(x), APART, device=x.device)
    likeliest = (x[chosen].float() @ w.float().T).argmax(dim=1)
    toward = w[likeliest].float()
    logits = toward @ w.float().T
    low = torch.zeros((len(chosen), 1), device=x.device)
    high = low + 64
    for _ in range(30):
        factor = (low + high) / 2
        likely = torch.softmax(factor * logits, dim=1).gather(1, likeliest[:, None]) > CONFIDENT
        low, high = torch.where(likely, low, factor), torch.where(likely, factor, high)
    changed, entries = x.clone(), target.clone()
    changed[chosen] = (toward * high).to(x.dtype)
    entries[chosen] = likeliest.to(target.dtype)
    return [changed, w, entries, dw_acc]


def shifted_logits(inputs: list, generator: torch.Generator) -> list:
    """Half of the tokens are ignored, and all logits of a token are shifted by -SHIFT, 0 or SHIFT.

    A shift changes neither softmax nor loss. The last column carries it, so that sums along the width reach its size,
    where float32 is coarser, at their end only.
    That column of w is all ones, so what a gradient leaves out of the vocabulary, however small each part, stands there
    in dx as one sum: entries below 1e-4 dropped at a vocabulary of 16384 are 0.14 of the norm, and 0.003 elsewhere.
    """
    x, w, target, dw_acc = half_ignored(inputs, generator)
    draw = torch.randint(-1, 2, target.shape, generator=generator, device=generator.device).to(target.device)
    shifted, with_ones = x.clone(), w.clone()
    shifted[:, -1] = SHIFT * draw.to(x.dtype)
    with_ones[:, -1] = 1.0
    return [shifted, with_ones, target, dw_acc]


def even_predictions(inputs: list, generator: torch.Generator) -> list:
    """All entries are equally likely, since x and w have no column in common, and no token is ignored.

    With powers of two as sizes every element of the gradient is exact in bfloat16, so what is added to the
    accumulator, zero at first, is as good as its sums.
    """
    x, w, target, dw_acc = none_ignored(inputs, generator)
    left, right, middle = x.clone(), w.clone(), x.shape[1] // 2
    left[:, middle:] = 0.0
    right[:, :middle] = 0.0
    return [left, right, target, torch.zeros_like(dw_acc)]


def fresh_draw(inputs: list, generator: torch.Generator) -> list:
    """Hidden states with noise that no seed of `get_inputs` produces, at a size where the bound on memory bites."""
    x, w, target, dw_acc = inputs
    noise = torch.randn(x.shape, generator=generator, device=generator.device).to(x.device)
    return [(x.float() + 0.5 * noise).to(x.dtype), w, target, dw_acc]


def ignored_tokens(arguments: list, expected: dict) -> torch.Tensor:
    """Tokens without a target."""
    return arguments[2] == IGNORED


def tokens_with_gradient(arguments: list, expected: dict) -> torch.Tensor:
    """Tokens whose row of dx is large enough beside the largest for float32 logits of their size to resolve it."""
    norms = torch.linalg.vector_norm(expected["dx"].float(), dim=1)
    return (norms > 0) & (norms >= expected["lse"].abs().clamp(min=16.0) / RESOLVED * norms.max())


def warm_entries(arguments: list, expected: dict) -> torch.Tensor:
    """Entries of the vocabulary whose gradient is no smaller than SMALL of the largest."""
    norms = torch.linalg.vector_norm(expected["dw_acc"] - arguments[3], dim=1)
    return (norms > 0) & (norms >= SMALL * norms.max())


def cold_entries(arguments: list, expected: dict) -> torch.Tensor:
    """The half of the vocabulary with the smaller gradients, as far as float32 shows them beside the largest.

    With large logits most of them are below what float32 can hold at all, and some hardware flushes those to zero.
    """
    norms = torch.linalg.vector_norm(expected["dw_acc"] - arguments[3], dim=1)
    return (norms <= norms.median()) & (norms > LEAST * norms.max())


def even_entries(arguments: list, expected: dict) -> torch.Tensor:
    """All entries of the vocabulary if every token finds them equally likely, none otherwise."""
    entries = len(arguments[1])
    even = (expected["lse"] - math.log(entries)).abs().max() < 1e-5
    return even.expand(entries)


def memory_cap_bytes(workload: dict) -> int:
    """Most bytes that may be alive in a call beyond the inputs, outputs counted in.

    dx, a float32 copy of its size, a quarter of the float32 logits, and room: less of it at small shapes, so that the
    logits of all tokens fit nowhere where they count (`fresh_draw`), in 16 bits neither.
    """
    tokens, width, entries = workload["N"], workload["H"], workload["V"]
    return 6 * tokens * width + tokens * entries + min(64 << 20, (1 << 18) + tokens * entries // 4)


def copy_budget_bytes(workload: dict) -> int:
    """Most bytes that a call may move with same-dtype copies of PyTorch: the hidden states once."""
    return 2 * workload["N"] * workload["H"]
