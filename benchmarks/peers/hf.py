#!/usr/bin/env python3
"""Peer: transformers on packed documents, with FlashAttention-2 over cu_seqlens.

    hf.py --shape llama-3.2-1b --tokens 16384 [--compile MODE] [--liger PARTS]
    torchrun --nproc-per-node N hf.py ...        several GPUs: FSDP2

bf16 weights and gradients, float32 master weights and moments, fused AdamW, clipping at 1.0, one
micro-batch a step, no recomputation, random weights and tokens. Prints a JSON line for each number of
tokens. --liger needs the package liger-kernel.
"""

import argparse
import functools
import json
import os
import random
import statistics
import time

import torch
import torch.distributed as dist
from hf_model import compile_model, make_model
from hf_optimizer import MasterAdamW, ShardedAdamW, shard
from shapes import add_shape_arguments, chosen_shape, draw_lengths

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"  # the CPU only to try this program out


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_shape_arguments(parser)
    parser.add_argument(
        "--compile", choices=["none", "layers", "model"], default="none",
        help="torch.compile on each layer and the loss, or on the whole model")
    parser.add_argument("--graph", action="store_true",
                        help="the whole step in a CUDA graph; not with --liger, which waits")
    parser.add_argument(
        "--liger", choices=["none", "loss", "all"], default="none",
        help="Liger's fused head and loss, or all of its kernels")
    parser.add_argument("--fsdp", action="store_true", help="FSDP2 on one GPU too")
    parser.add_argument("--reshard", action="store_true", help="FSDP2 gathers again for backward")
    parser.add_argument("--completion-only", action="store_true",
                        help="the first half of each document is not supervised")
    parser.add_argument("--warm-up", type=int, default=4, help="steps that are not counted")
    parser.add_argument("--steps", type=int, default=10)
    return parser.parse_args()


def make_batch(lengths, vocab, completion_only, num_bounds, longest):
    """A packed batch on the device. `num_bounds`: of cu_seqlens, filled up with empty documents;
    `longest`: what attention is told."""
    tokens = sum(lengths)
    ids = torch.randint(0, vocab, (1, tokens))
    positions = torch.cat([torch.arange(length) for length in lengths])[None]
    labels = ids.clone()
    if completion_only:
        prompts = torch.cat([torch.full((length,), length // 2) for length in lengths])[None]
        labels[positions < prompts] = -100
    labels[positions == 0] = -100
    bounds = torch.tensor([0, *lengths]).cumsum(0)
    bounds = torch.cat([bounds, bounds[-1:].expand(num_bounds - len(bounds))])
    bounds = bounds.to(DEVICE, torch.int32)
    return dict(input_ids=ids.to(DEVICE), labels=labels.to(DEVICE),
                position_ids=positions.to(DEVICE), cu_seq_lens_q=bounds, cu_seq_lens_k=bounds,
                max_length_q=longest, max_length_k=longest)


def make_batches(all_lengths, vocab, arguments):
    """With --graph all of one shape: that of the one with most documents and of the longest one."""
    most = max(len(lengths) for lengths in all_lengths) + 1
    longest = max(max(lengths) for lengths in all_lengths)
    return [make_batch(lengths, vocab, arguments.completion_only,
                       most if arguments.graph else len(lengths) + 1,
                       longest if arguments.graph else max(lengths)) for lengths in all_lengths]


class StepTimer:
    """Seconds between marks: of the GPU's own timeline where there is one."""

    def __init__(self):
        self.marks = []

    def mark(self):
        if DEVICE == "cuda":
            self.marks.append(torch.cuda.Event(enable_timing=True))
            self.marks[-1].record()
        else:
            self.marks.append(time.perf_counter())

    def seconds(self):
        pairs = list(zip(self.marks[:-1], self.marks[1:]))
        if DEVICE != "cuda":
            return [end - begin for begin, end in pairs]
        torch.cuda.synchronize()
        return [begin.elapsed_time(end) / 1e3 for begin, end in pairs]


def train_step(model, optimizer, batch):
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    return loss.detach()


class GraphedStep:
    """train_step() of batches of one shape as a CUDA graph."""

    def __init__(self, model, optimizer, batch):
        self.batch = {name: value.clone() if torch.is_tensor(value) else value
                      for name, value in batch.items()}
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):  # compiles, and lets libraries allocate what they keep
                train_step(model, optimizer, self.batch)
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = train_step(model, optimizer, self.batch)

    def __call__(self, batch):
        for name, value in self.batch.items():
            if torch.is_tensor(value):
                value.copy_(batch[name])
        self.graph.replay()
        return self.loss


def train(step, batches, num_warm_up):
    """Seconds of each step after the warm-up, and the last loss."""
    timer = StepTimer()
    for index, batch in enumerate(batches):
        if index == num_warm_up:
            timer.mark()
        loss = step(batch)
        if index >= num_warm_up:
            timer.mark()
    return timer.seconds(), loss.item()


def measure(model, optimizer, shape, tokens, arguments):
    rank, num_ranks = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    generator = random.Random(rank)
    all_lengths = [draw_lengths(generator, tokens)
                   for _ in range(arguments.warm_up + arguments.steps)]
    batches = make_batches(all_lengths, shape.vocab, arguments)
    torch._dynamo.reset()  # each number of tokens is compiled for itself
    if DEVICE == "cuda":
        torch.cuda.reset_peak_memory_stats()
    if arguments.graph:
        step = GraphedStep(model, optimizer, batches[0])
    else:
        step = functools.partial(train_step, model, optimizer)
    seconds, loss = train(step, batches, arguments.warm_up)
    counted = all_lengths[arguments.warm_up:]
    squares = sum(n * n for lengths in counted for n in lengths) / len(seconds)
    step_s = statistics.median(seconds)
    peak = torch.cuda.max_memory_allocated() if DEVICE == "cuda" else 0
    return dict(
        tokens=tokens, gpus=num_ranks, tok_s=round(tokens / step_s, 1),
        tok_s_mean=round(tokens / statistics.mean(seconds), 1), step_s=round(step_s, 6),
        tflops=round(shape.training_flops(tokens, squares) / step_s / 1e12, 1),
        loss=round(loss, 3), peak_gib=round(peak / 2**30, 2))


def main():
    arguments = parse_arguments()
    num_ranks = int(os.environ.get("WORLD_SIZE", 1))
    sharded = num_ranks > 1 or arguments.fsdp
    if sharded:
        os.environ.setdefault("MASTER_ADDR", "localhost")
        os.environ.setdefault("MASTER_PORT", "29555")
        dist.init_process_group("nccl" if DEVICE == "cuda" else "gloo",
                                rank=int(os.environ.get("RANK", 0)), world_size=num_ranks)
    if DEVICE == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    torch.manual_seed(0)
    shape = chosen_shape(arguments)
    dtype = torch.float32 if sharded else torch.bfloat16
    model = make_model(shape, DEVICE, dtype, arguments.compile, arguments.liger)
    if sharded:
        shard(model, arguments.reshard)
    compile_model(model, arguments.compile)
    optimizer = ShardedAdamW(model) if sharded else MasterAdamW(model)
    options = {name: value for name, value in vars(arguments).items() if name != "tokens"}
    for tokens in arguments.tokens:
        row = dict(peer="hf") | options | measure(model, optimizer, shape, tokens, arguments)
        if int(os.environ.get("RANK", 0)) == 0:
            print(json.dumps(row), flush=True)
    if sharded:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
