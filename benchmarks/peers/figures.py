"""The measurements of a peer and its output: step times and the figures computed from them."""

import math
import statistics
import time

import torch


class StepTimer:
    """Seconds between marks, measured on the GPU's own timeline where there is one."""

    def __init__(self, on_gpu):
        self.on_gpu = on_gpu
        self.marks = []

    def mark(self):
        if self.on_gpu:
            self.marks.append(torch.cuda.Event(enable_timing=True))
            self.marks[-1].record()
        else:
            self.marks.append(time.perf_counter())

    def seconds(self):
        pairs = list(zip(self.marks[:-1], self.marks[1:]))
        if not self.on_gpu:
            return [end - begin for begin, end in pairs]
        torch.cuda.synchronize()
        return [begin.elapsed_time(end) / 1e3 for begin, end in pairs]


def step_figures(shape, tokens, squares, seconds):
    """Figures of one GPU. `tokens` and `squares` (sum of squared document lengths) are its share of each
    step. `seconds` is the time of each step. tok_s and tflops are those of the median step, tok_s_mean is
    that of all steps."""
    rates = [count / time for count, time in zip(tokens, seconds)]
    flops = [shape.training_flops(*work) / time
             for *work, time in zip(tokens, squares, seconds)]
    return dict(
        tokens=round(statistics.mean(tokens)), tok_s=round(statistics.median(rates), 1),
        tok_s_mean=round(sum(tokens) / sum(seconds), 1),
        step_s=round(statistics.median(seconds), 6),
        tflops=round(statistics.median(flops) / 1e12, 1) if math.isfinite(flops[0]) else None)


def peak_gib():
    """Peak memory of tensors on this GPU since the last call, or since the start."""
    if not torch.cuda.is_available():
        return 0.0
    peak = torch.cuda.max_memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    return round(peak / 2**30, 2)
