#!/usr/bin/env python3
"""Peer: torchtitan 0.2.2, its own trainer, model, FSDP2 and torch.compile, on random tokens.

    torchrun --nproc-per-node N titan.py --shape llama-3-8b --tokens 8192 [--documents full]

For several GPUs. Weights are bf16; reduction, master weights and moments are float32. AdamW is fused, clipping
is at 1.0. A step has one micro-batch without recomputation; weights are gathered once a step. Attention is
by variable lengths for short documents, else torch's own. Needs the wheels of ./fetch_wheels. Prints a JSON line.
"""

import argparse
import itertools
import json
import os
import random

import torch
import torch.distributed as dist
from figures import StepTimer, peak_gib, step_figures
from shapes import (FULL_LENGTH, add_document_argument, add_shape_arguments, chosen_shape,
                    draw_lengths)
from torchtitan.components.dataloader import ParallelAwareDataloader
from torchtitan.config import ConfigManager
from torchtitan.models import llama3
from torchtitan.protocols.train_spec import register_train_spec
from torchtitan.tools.logging import init_logger
from torchtitan.train import Trainer

END_OF_DOCUMENT = 0
FLAVOR = "benchmark"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_shape_arguments(parser)
    add_document_argument(parser)
    parser.add_argument("--reshard", action="store_true", help="gathers again for backward")
    parser.add_argument("--warm-up", type=int, default=4, help="steps that are not counted")
    parser.add_argument("--steps", type=int, default=10)
    arguments = parser.parse_args()
    if len(arguments.tokens) != 1:
        parser.error("--tokens: one number")
    return arguments


class Tokenizer:
    """The members that torchtitan reads from a tokenizer when the data are token ids."""

    eos_id = END_OF_DOCUMENT
    bos_id = None

    def __init__(self, vocab):
        self.vocab = vocab

    def get_vocab_size(self):
        return self.vocab


class Documents(torch.utils.data.IterableDataset):
    """Rows of documents that end with END_OF_DOCUMENT. `lengths`: those of the rows that were read."""

    def __init__(self, rank, row_length, vocab, documents):
        self.rank, self.row_length, self.vocab = rank, row_length, vocab
        self.documents = documents
        self.lengths = []

    def __iter__(self):
        ids = torch.Generator().manual_seed(self.rank)
        generator = random.Random(self.rank)
        while True:
            row = torch.randint(1, self.vocab, (self.row_length + 1,), generator=ids)
            lengths = draw_lengths(generator, self.row_length, self.documents)
            row[torch.tensor(lengths).cumsum(0) - 1] = END_OF_DOCUMENT
            self.lengths.append(lengths)
            yield {"input": row[:-1]}, row[1:]

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


class Benchmark(Trainer):
    """torchtitan's trainer with a mark after each measured step."""

    num_warm_up = 0
    timer = None

    def train_step(self, data_iterator):
        super().train_step(data_iterator)
        if self.step >= self.num_warm_up:
            self.timer.mark()


def model_arguments(shape, documents):
    # torchtitan computes the inner size as int(8 / 3 hidden), times a factor, rounded down.
    factor = (shape.inner + 0.5) / int(8 * shape.hidden / 3)
    attention = dict(attn_type="varlen", attn_mask_type="block_causal")
    return llama3.TransformerModelArgs(
        dim=shape.hidden, n_layers=shape.layers, n_heads=shape.heads, n_kv_heads=shape.kv_heads,
        vocab_size=shape.vocab, multiple_of=1, ffn_dim_multiplier=factor,
        rope_theta=shape.rope_theta, eos_id=END_OF_DOCUMENT,
        **(attention if documents == "short" else {}))


def register(shape, documents, made):
    """Registers the model `llama3` with FLAVOR and our documents, which are stored in `made`."""
    def load(dp_world_size, dp_rank, tokenizer, job_config, **_):
        training = job_config.training
        made.append(Documents(dp_rank, training.seq_len, shape.vocab, documents))
        return ParallelAwareDataloader(made[-1], dp_rank=dp_rank, dp_world_size=dp_world_size,
                                       batch_size=training.local_batch_size)

    spec = llama3.get_train_spec()
    spec.model_args = {FLAVOR: model_arguments(shape, documents)}
    spec.build_tokenizer_fn = lambda config: Tokenizer(shape.vocab)
    spec.build_dataloader_fn = load
    spec.state_dict_adapter = spec.build_validator_fn = None
    register_train_spec("llama3", spec)


def settings(row_length, num_rows, arguments):
    """The settings of torchtitan."""
    return [
        "--model.name", "llama3", "--model.flavor", FLAVOR, "--compile.enable",
        "--training.seq_len", str(row_length), "--training.local_batch_size", str(num_rows),
        "--training.steps", str(arguments.warm_up + arguments.steps),
        "--optimizer.lr", "1e-5", "--lr_scheduler.warmup_steps", "2",
        "--activation_checkpoint.mode", "none", "--metrics.log_freq", "1000",
        "--parallelism.fsdp_reshard_after_forward", "always" if arguments.reshard else "never",
        "--job.dump_folder", os.environ.get("TITAN_FOLDER", "/tmp/titan"),
    ]


def step_work(rows, num_rows):
    """Tokens and sum of squared lengths of each step of `num_rows` rows."""
    steps = [list(itertools.chain.from_iterable(rows[begin:begin + num_rows]))
             for begin in range(0, len(rows), num_rows)]
    return [(sum(lengths), sum(n * n for n in lengths)) for lengths in steps]


def main():
    arguments = parse_arguments()
    shape, tokens = chosen_shape(arguments), arguments.tokens[0]
    row_length = min(FULL_LENGTH, tokens)
    num_rows = tokens // row_length
    made = []
    register(shape, arguments.documents, made)
    Benchmark.num_warm_up = arguments.warm_up
    Benchmark.timer = StepTimer(on_gpu=True)
    init_logger()
    trainer = Benchmark(ConfigManager().parse_args(settings(row_length, num_rows, arguments)))
    trainer.train()
    seconds = Benchmark.timer.seconds()
    read = made[0].lengths[: (arguments.warm_up + arguments.steps) * num_rows]
    tokens_and_squares = step_work(read, num_rows)[arguments.warm_up:]
    figures = step_figures(shape, *zip(*tokens_and_squares), seconds)
    if dist.get_rank() == 0:
        print(json.dumps(dict(peer="torchtitan", gpus=dist.get_world_size()) | vars(arguments)
                         | figures | dict(peak_gib=peak_gib())), flush=True)
    trainer.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
