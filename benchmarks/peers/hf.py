#!/usr/bin/env python3
"""Peer: transformers on packed documents, with FlashAttention-2 over cu_seqlens.

    hf.py --shape llama-3.2-1b --tokens 16384 [--compile MODE] [--liger PARTS]
    hf.py --shape mistral-7b --plan PLAN.json,...    the micro-batches that packtrain planned
    hf.py --config configs/families/NAME.yaml ...    any model family
    hf.py --jobs JOBS.json ...                       several, each with plans of its own
    torchrun --nproc-per-node N hf.py ...            several GPUs: FSDP2

Weights and gradients are bf16; reduction, master weights and moments are float32. AdamW is fused, clipping is
at 1.0, nothing is recomputed. Weights and tokens are random. --tokens has one micro-batch a step. Prints a JSON line
for each number of tokens or plan. --liger needs the package liger-kernel.
"""

import argparse
import functools
import gc
import json
import os
import random

import torch
import torch.distributed as dist
from batches import one_shape, packed, padded, read_plan, rows
from figures import StepTimer, peak_gib, step_figures
from hf_model import attend_to, compile_model, has_delta_rules, make_model
from hf_optimizer import MasterAdamW, ShardedAdamW, shard
from kernel_tuning import compile_configs_in_parallel, time_refused_kernels
from shapes import (add_document_argument, add_shape_arguments, chosen_shape, configured_shape,
                    draw_lengths)

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"  # the CPU only for trying this program


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_shape_arguments(parser)
    add_document_argument(parser)
    parser.add_argument("--config", metavar="FILE",
                        help="of packtrain, whose model.config is the model, instead of --shape")
    parser.add_argument("--jobs", metavar="FILE",
                        help="[[CONFIG, [PLAN, ...]], ...]: one model after the other, instead of "
                        "--config and --plan; on one GPU a model that fails is a row that says why")
    parser.add_argument("--plan", type=lambda text: text.split(","), default=[], metavar="FILE,...",
                        help="of `packtrain plan --json --steps K`, instead of --tokens; those of "
                        "the strategy padding are padded")
    parser.add_argument(
        "--compile", choices=["none", "layers", "model"], default="none",
        help="torch.compile on each layer and the loss, or on the whole model")
    parser.add_argument("--graph", action="store_true",
                        help="the whole step in a CUDA graph; not with --liger, which waits")
    parser.add_argument(
        "--liger", choices=["none", "loss", "all"], default="none",
        help="Liger's fused head and loss, or all of its kernels")
    parser.add_argument("--attention", choices=["flash", "cudnn", "eager"], default="flash",
                        help="cudnn: torch's, for --documents full alone; eager: where caps or "
                        "sinks need it or flex_attention, instead of that")
    parser.add_argument("--fsdp", action="store_true", help="FSDP2 on one GPU too")
    parser.add_argument("--reshard", action="store_true", help="FSDP2 gathers again for backward")
    parser.add_argument("--completion-only", action="store_true",
                        help="the first half of each document is not supervised")
    parser.add_argument("--warm-up", type=int, default=4, help="steps that are not counted")
    parser.add_argument("--steps", type=int, default=10)
    arguments = parser.parse_args()
    if arguments.attention == "cudnn" and arguments.documents != "full":
        parser.error("--attention cudnn needs --documents full")
    return arguments


def rank_and_world():
    return (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)


def drawn_batches(shape, tokens, arguments):
    """One micro-batch for each step, and the lengths."""
    generator = random.Random(rank_and_world()[0])
    lengths = [draw_lengths(generator, tokens, arguments.documents)
               for _ in range(arguments.warm_up + arguments.steps)]
    if arguments.graph:
        batches = one_shape(lengths, shape.vocab, DEVICE, arguments.completion_only)
    elif arguments.attention == "cudnn":
        batches = [rows(step, shape.vocab, DEVICE) for step in lengths]
    else:
        batches = [packed(step, shape.vocab, DEVICE, arguments.completion_only)
                   for step in lengths]
    return [[batch] for batch in batches], [[step] for step in lengths]


def train_step(model, optimizer, micro_batches, accumulates_locally=False):
    """`accumulates_locally`: weights stay gathered and gradients unreduced until the last micro-batch of
    the step."""
    for batch in micro_batches:
        if accumulates_locally:
            is_last = batch is micro_batches[-1]
            model.set_requires_gradient_sync(is_last)
            model.set_reshard_after_backward(is_last)
        loss = model(**batch).loss
        (loss / len(micro_batches)).backward()
    optimizer.step()
    return loss.detach()


class GraphedStep:
    """train_step() of one micro-batch as a CUDA graph; all micro-batches have one shape."""

    def __init__(self, model, optimizer, batch):
        self.batch = {name: value.clone() if torch.is_tensor(value) else value
                      for name, value in batch.items()}
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):  # compiles, and lets libraries allocate their buffers
                train_step(model, optimizer, [self.batch])
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = train_step(model, optimizer, [self.batch])

    def __call__(self, micro_batches):
        for name, value in self.batch.items():
            if torch.is_tensor(value):
                value.copy_(micro_batches[0][name])
        self.graph.replay()
        return self.loss


def train(step, batches, num_warm_up):
    """Seconds of each step after the warm-up, and the last loss."""
    timer = StepTimer(DEVICE == "cuda")
    for index, micro_batches in enumerate(batches):
        if index == num_warm_up:
            timer.mark()
        loss = step(micro_batches)
        if index >= num_warm_up:
            timer.mark()
    return timer.seconds(), loss.item()


def measure(step, shape, batches, work, num_warm_up):
    """`work`: tokens and sum of squared lengths of each step, the mean over ranks."""
    if DEVICE == "cuda":
        torch.cuda.empty_cache()
    peak_gib()
    seconds, loss = train(step, batches, num_warm_up)
    tokens, squares = zip(*work[num_warm_up:])
    return (dict(gpus=rank_and_world()[1]) | step_figures(shape, tokens, squares, seconds)
            | dict(loss=round(loss, 3), peak_gib=peak_gib()))


def count_work(lengths):
    flat = [length for micro_batch in lengths for length in micro_batch]
    return sum(flat), sum(length * length for length in flat)


def measure_tokens(model, optimizer, shape, tokens, arguments):
    torch._dynamo.reset()  # each number of tokens is compiled separately
    batches, lengths = drawn_batches(shape, tokens, arguments)
    step = functools.partial(train_step, model, optimizer)
    if arguments.graph:
        step = GraphedStep(model, optimizer, batches[0][0])
    return measure(step, shape, batches, [count_work(step) for step in lengths], arguments.warm_up)


def measure_plan(model, optimizer, shape, path, arguments):
    """Rows of one plan. Steps with several micro-batches and sharded weights are also measured with
    gradients that each GPU accumulates and that are reduced once."""
    strategy, steps = read_plan(path)
    rank, num_ranks = rank_and_world()
    if any(len(ranks) != num_ranks for ranks in steps):
        raise SystemExit(f"{path} is not for {num_ranks} ranks")
    make = padded if strategy == "padding" else packed
    attend_to(model, "padded" if strategy == "padding" else "packed", arguments.attention)
    work = [[total / num_ranks for total in map(sum, zip(*map(count_work, ranks)))]
            for ranks in steps]
    several = num_ranks > 1 and max(len(ranks[0]) for ranks in steps) > 1
    for locally in (False, True) if several else (False,):
        batches = [[make(lengths, shape.vocab, DEVICE) for lengths in ranks[rank]]
                   for ranks in steps]
        step = functools.partial(train_step, model, optimizer, accumulates_locally=locally)
        yield dict(strategy=strategy, local_accumulation=locally) | measure(
            step, shape, batches, work, arguments.warm_up)


def measure_job(shape, plans, arguments):
    """Rows of one model."""
    sharded = dist.is_initialized()
    model = make_model(shape, DEVICE, torch.float32 if sharded else torch.bfloat16, arguments)
    # All micro-batches of a plan have different lengths.
    compile_model(model, arguments.compile, dynamic=True if plans else None)
    if sharded:
        shard(model, arguments.reshard)
    optimizer = ShardedAdamW(model) if sharded else MasterAdamW(model)
    about = dict(experts=model.get_experts_implementation()[""])
    if DEVICE == "cuda" and has_delta_rules(model):
        about["refused"] = time_refused_kernels()
    for path in plans:
        for row in measure_plan(model, optimizer, shape, path, arguments):
            yield about | row
    for tokens in [] if plans else arguments.tokens:
        yield about | measure_tokens(model, optimizer, shape, tokens, arguments)


def read_jobs(arguments):
    """(configuration or None, shape, plans) of each model."""
    if not arguments.jobs:
        shape = configured_shape(arguments.config) if arguments.config else chosen_shape(arguments)
        return [(arguments.config, shape, arguments.plan)]
    with open(arguments.jobs, encoding="utf-8") as file:
        return [(config, configured_shape(config), plans) for config, plans in json.load(file)]


def measure_jobs(arguments):
    for config, shape, plans in read_jobs(arguments):
        about = dict(config=config)
        try:
            for row in measure_job(shape, plans, arguments):
                yield about | row
        except Exception as error:  # pylint: disable=broad-exception-caught
            if not arguments.jobs or dist.is_initialized():  # other ranks would wait for this one
                raise
            yield about | dict(error=f"{type(error).__name__}: {str(error).splitlines()[0]}")
        torch._dynamo.reset()
        gc.collect()


def main():
    arguments = parse_arguments()
    num_ranks = int(os.environ.get("WORLD_SIZE", 1))
    if DEVICE == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    if num_ranks > 1 or arguments.fsdp:
        os.environ.setdefault("MASTER_ADDR", "localhost")
        os.environ.setdefault("MASTER_PORT", "29555")
        dist.init_process_group("nccl" if DEVICE == "cuda" else "gloo",
                                rank=int(os.environ.get("RANK", 0)), world_size=num_ranks)
    torch.manual_seed(0)
    compile_configs_in_parallel()
    options = {name: value for name, value in vars(arguments).items()
               if name not in ("plan", "jobs")}
    for row in measure_jobs(arguments):
        if rank_and_world()[0] == 0:
            print(json.dumps(dict(peer="hf") | options | row), flush=True)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
