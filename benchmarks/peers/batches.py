"""Batches of random tokens for hf.py: packed, padded, or rows of one full document."""

import json

import torch
from shapes import FULL_LENGTH


def random_ids(shape, vocab):
    return torch.randint(0, vocab, shape)


def packed(lengths, vocab, device, completion_only=False, num_bounds=None, longest=None):
    """Documents one after another. `num_bounds`: the length of cu_seqlens, padded with empty documents.
    `longest`: the longest document as passed to attention. seq_idx is for convolutions and Mamba-2."""
    ids = random_ids((1, sum(lengths)), vocab)
    positions = torch.cat([torch.arange(length) for length in lengths])[None]
    labels = ids.clone()
    if completion_only:
        prompts = torch.cat([torch.full((length,), length // 2) for length in lengths])[None]
        labels[positions < prompts] = -100
    labels[positions == 0] = -100
    bounds = torch.tensor([0, *lengths]).cumsum(0)
    if num_bounds:
        bounds = torch.cat([bounds, bounds[-1:].expand(num_bounds - len(bounds))])
    bounds = bounds.to(device, torch.int32)
    longest = longest or max(lengths)
    documents = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))[None]
    return dict(input_ids=ids.to(device), labels=labels.to(device),
                position_ids=positions.to(device), seq_idx=documents.to(device, torch.int32),
                cu_seq_lens_q=bounds, cu_seq_lens_k=bounds, max_length_q=longest,
                max_length_k=longest)


def padded(lengths, vocab, device):
    """One row for each document, as long as the longest."""
    longest = max(lengths)
    ids = random_ids((len(lengths), longest), vocab)
    real = torch.arange(longest)[None] < torch.tensor(lengths)[:, None]
    labels = ids.masked_fill(~real, -100)
    return dict(input_ids=ids.to(device), labels=labels.to(device),
                attention_mask=real.long().to(device))


def rows(lengths, vocab, device):
    """Full documents, one row each: causal attention needs no bounds."""
    if set(lengths) != {FULL_LENGTH}:
        raise SystemExit(f"rows of {FULL_LENGTH} tokens only, got {lengths}")
    ids = random_ids((len(lengths), FULL_LENGTH), vocab)
    positions = torch.arange(FULL_LENGTH)[None].expand(len(lengths), -1)
    return dict(input_ids=ids.to(device), labels=ids.clone().to(device),
                position_ids=positions.to(device))


def one_shape(all_lengths, vocab, device, completion_only):
    """Packed batches for a CUDA graph: all have the number of bounds of the batch with most documents, and
    the longest document of any batch."""
    most = max(len(lengths) for lengths in all_lengths) + 1
    longest = max(max(lengths) for lengths in all_lengths)
    return [packed(lengths, vocab, device, completion_only, most, longest)
            for lengths in all_lengths]


def read_plan(path):
    """Reads (strategy, steps) from the output of `packtrain plan --json --steps K`. A step has, for each
    rank, the lengths of its micro-batches. All ranks must have equal numbers, because every micro-batch
    runs collectives."""
    with open(path, encoding="utf-8") as file:
        plan = json.load(file)
    steps = [[[[length for _, _, length in pieces] for pieces in micro_batches]
              for micro_batches in step["ranks"]] for step in plan["steps"]]
    for number, ranks in enumerate(steps):
        if len({len(rank) for rank in ranks}) != 1 or not all(map(all, ranks)):
            raise SystemExit(f"{path}: step {number}: a rank has no document in a micro-batch")
    return plan["strategy"], steps
