#!/usr/bin/env python3
"""flash-linear-attention's kernels of recurrent layers on the documents of benchmarks/ops, one GPU.

    delta_rule.py [--repeats N] [--mamba]

Prints a JSON line for each mixture of documents: the time of the kernels of forward and of backward in us. Time between
kernels is not in it. Shapes of the gated delta rule and its convolution are those of Qwen3-Next: 16 heads of queries
and keys, 32 of values, 128 wide. Mamba-2's state space model is its "simple GLA", at the sizes of
Granite-4.0-H-Micro. There b and c are repeated for all heads before the measurement, and x is multiplied by the steps.
Triton compiles and times its variants first.

With some versions of Triton, flash-linear-attention refuses a kernel of backward (kernel_tuning.py). The kernel is
timed all the same, and the line has "refused": true.
"""

import argparse
import json
from collections.abc import Callable

import torch
from fla.modules.convolution import causal_conv1d
from fla.ops.gated_delta_rule import chunk_gated_delta_rule
from fla.ops.simple_gla import chunk_simple_gla
from kernel_tuning import compile_configs_in_parallel, time_refused_kernels

KEY_HEADS, HEADS, HEAD_DIM, WIDTH = 16, 32, 128, 4
SSD_HEADS, SSD_COLUMNS, SSD_STATE = 64, 64, 128
TOKENS = 8192


def rising_documents(mean: int, tokens: int) -> list[int]:
    """As in benchmarks/ops/delta_rules.cpp."""
    bounds = [0]
    while bounds[-1] < tokens:
        length = mean * (1 + (len(bounds) - 1) % 7) // 4
        bounds.append(min(tokens, bounds[-1] + length))
    return bounds


def kernel_us(call: Callable[[], object], repeats: int) -> float:
    """The time of a call's kernels alone, mean of the repeats. The host's time for launches is not in it."""
    call()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(repeats):
            call()
        torch.cuda.synchronize()
    return sum(event.self_device_time_total for event in profile.key_averages()) / repeats


def time_both(
    name: str, call: Callable[[], torch.Tensor], leaves: list[torch.Tensor], repeats: int
) -> dict[str, float]:
    output = call()
    grad = torch.randn_like(output)

    def backward() -> object:
        return torch.autograd.grad(output, leaves, grad, retain_graph=True)

    return {f"{name} forward": kernel_us(call, repeats), f"{name} backward": kernel_us(backward, repeats)}


def random_heads(tokens: int, heads: int) -> torch.Tensor:
    return torch.randn(1, tokens, heads, HEAD_DIM, device="cuda", dtype=torch.bfloat16)


def measure_state_space_model(bounds: list[int], repeats: int) -> dict[str, float]:
    tokens = bounds[-1]
    seqlens = torch.tensor(bounds, device="cuda")

    def random(width: int) -> torch.Tensor:
        return torch.randn(1, tokens, SSD_HEADS, width, device="cuda", dtype=torch.bfloat16)

    g = torch.randn(1, tokens, SSD_HEADS, device="cuda").abs() * -0.05
    leaves = [x.detach().requires_grad_() for x in (random(SSD_STATE), random(SSD_STATE), random(SSD_COLUMNS), g)]
    return time_both(
        "state space model",
        lambda: chunk_simple_gla(*leaves, scale=1.0, cu_seqlens=seqlens)[0],
        leaves,
        repeats,
    )


def measure(bounds: list[int], repeats: int) -> dict[str, float]:
    tokens = bounds[-1]
    seqlens = torch.tensor(bounds, device="cuda")
    q, k = (torch.nn.functional.normalize(random_heads(tokens, KEY_HEADS), dim=-1) for _ in range(2))
    v = random_heads(tokens, HEADS)
    g = torch.randn(1, tokens, HEADS, device="cuda").abs() * -0.05
    beta = torch.randn(1, tokens, HEADS, device="cuda").sigmoid()
    leaves = [x.detach().requires_grad_() for x in (q, k, v, g, beta)]
    times = time_both(
        "delta rule",
        lambda: chunk_gated_delta_rule(*leaves, scale=HEAD_DIM**-0.5, cu_seqlens=seqlens)[0],
        leaves,
        repeats,
    )
    channels = (2 * KEY_HEADS + HEADS) * HEAD_DIM
    x = torch.randn(1, tokens, channels, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    weight = torch.randn(channels, WIDTH, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    return times | time_both(
        "convolution",
        lambda: causal_conv1d(x, weight, None, activation="silu", cu_seqlens=seqlens)[0],
        [x, weight],
        repeats,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--mamba", action="store_true", help="only Mamba-2's state space model")
    arguments = parser.parse_args()
    repeats = arguments.repeats
    refused = time_refused_kernels()
    compile_configs_in_parallel()
    mixtures = {
        "documents of mean 130": rising_documents(130, TOKENS),
        "documents of mean 475": rising_documents(475, TOKENS),
        "one document": [0, TOKENS],
    }
    for name, bounds in mixtures.items():
        measured = {} if arguments.mamba else measure(bounds, repeats)
        measured |= measure_state_space_model(bounds, repeats)
        times = {key: round(us, 1) for key, us in measured.items()}
        print(json.dumps({"documents": name, "tokens": TOKENS, "refused": refused, **times}), flush=True)


if __name__ == "__main__":
    main()
