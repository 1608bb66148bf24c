# expect: rule_violation compiled.precision
# The tensor cores' own instruction as inline PTX, with bf16 operands, spelled so that a search for its name misses it.
import torch
import triton
import triton.language as tl


@triton.jit
def _gram_piece(g, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    pair = tl.load(g + at)
    sums = tl.inline_asm_elementwise(
        """
        {
            .reg .f32 none;
            mov.f32 none, 0f00000000;
            mma /* .f16 */ .m16n8k16.sync.aligned.row.col.f32.bf16.bf16.f32
                {$0, $1, $2, $3}, {$4, $4, $4, $4}, {$4, $4}, {none, none, none, none};
        }
        """,
        "=f,=f,=f,=f,r",
        [pair],
        dtype=(tl.float32, tl.float32, tl.float32, tl.float32),
        is_pure=True,
        pack=1,
    )
    tl.store(out + at, sums[0] + sums[1] + sums[2] + sums[3])


def run(G, steps=5):
    gram = torch.empty(128, dtype=torch.float32, device=G.device)
    _gram_piece[(1,)](G.view(torch.int32), gram, BLOCK=128, num_warps=4)
    return torch.empty_like(G)
