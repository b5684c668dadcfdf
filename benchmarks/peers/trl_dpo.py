#!/usr/bin/env python3
"""Peer: TRL's DPOTrainer with a LoRA adapter on random weights, the reference under the adapter.

    trl_dpo.py --pairs PAIRS.jsonl --shape llama-3-8b --batch 8 --accumulate 8 [--checkpointing] ...

PAIRS has the lines of `packtrain prepare --pretokenized`: {"chosen": {"input_ids", "labels"}, "rejected": ...}. Weights
are bf16, the adapter float32, AdamW fused, nothing is logged or saved. Tokens are given to the trainer as they are.
Prints a JSON line: pairs/s over all steps after the warm-up. Needs the package trl (fetch_wheels).
"""

import argparse
import json
import tempfile
import time

import torch
from datasets import Dataset
from figures import peak_gib
from hf_model import make_config, register_attention
from peft import LoraConfig
from shapes import add_shape_arguments, chosen_shape
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, PrinterCallback, TrainerCallback
from trl import DPOConfig, DPOTrainer

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"  # the CPU only for trying this program


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_shape_arguments(parser)
    parser.add_argument("--pairs", required=True, metavar="FILE")
    parser.add_argument("--batch", type=int, default=4, help="pairs of a micro-batch")
    parser.add_argument("--accumulate", type=int, default=16, help="micro-batches of a step")
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--alpha", type=float, default=32)
    parser.add_argument("--checkpointing", action="store_true", help="activations are computed again")
    parser.add_argument("--liger", action="store_true", help="Liger's kernels of layers")
    parser.add_argument("--attention", choices=["sdpa", "full_rows", "flash_attention_2"], default="full_rows",
                        help="full_rows: causal without a mask, which torch's flash kernels take: the pads are behind")
    parser.add_argument("--sampling", choices=["random", "group_by_length"], default="random",
                        help="group_by_length: pairs of similar lengths in a micro-batch")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--warm-up", type=int, default=2, help="steps that are not counted")
    return parser.parse_args()


def read_pairs(path):
    """Columns of the trainer's own tokenisation."""
    rows = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            pair = json.loads(line)
            members = [pair[name] for name in ("chosen", "rejected")]
            length = next(t for t, label in enumerate(members[0]["labels"]) if label != -100)
            chosen, rejected = (member["input_ids"] for member in members)
            rows.append({"prompt": "", "chosen": "", "rejected": "", "prompt_ids": chosen[:length],
                         "chosen_ids": chosen[length:], "rejected_ids": rejected[length:],
                         "length": max(len(chosen), len(rejected))})
    return rows


class TokenTrainer(DPOTrainer):
    """Takes data that are tokens already."""

    def _prepare_dataset(self, dataset, *_, **__):
        return dataset


class StepTimes(TrainerCallback):
    """The end of each step."""

    def __init__(self):
        self.ends = []

    def mark(self):
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        self.ends.append(time.perf_counter())

    def on_train_begin(self, *_, **__):
        self.mark()

    def on_step_end(self, *_, **__):
        self.mark()


def make_model(arguments):
    register_attention(DEVICE, compiled=False)
    with torch.device(DEVICE):
        return AutoModelForCausalLM.from_config(make_config(chosen_shape(arguments)), dtype=torch.bfloat16,
                                                attn_implementation=arguments.attention)


def make_trainer(arguments, times, folder):
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel({"<pad>": 0, "<eos>": 1}, "<eos>")),
                                        pad_token="<pad>", eos_token="<eos>", padding_side="right")
    config = DPOConfig(
        output_dir=folder, per_device_train_batch_size=arguments.batch,
        gradient_accumulation_steps=arguments.accumulate,
        max_steps=arguments.warm_up + arguments.steps, bf16=DEVICE == "cuda", learning_rate=5e-6, max_length=None,
        gradient_checkpointing=arguments.checkpointing, use_liger_kernel=arguments.liger, optim="adamw_torch_fused",
        train_sampling_strategy=arguments.sampling, length_column_name="length", remove_unused_columns=False,
        precompute_ref_log_probs=False, logging_steps=10**6, save_strategy="no", report_to="none", disable_tqdm=True,
        dataloader_num_workers=2, use_cpu=DEVICE == "cpu", seed=1)
    lora = LoraConfig(r=arguments.rank, lora_alpha=arguments.alpha, target_modules="all-linear", task_type="CAUSAL_LM")
    return TokenTrainer(model=make_model(arguments), args=config, processing_class=tokenizer, peft_config=lora,
                        train_dataset=Dataset.from_list(read_pairs(arguments.pairs)), callbacks=[times])


def main():
    arguments = parse_arguments()
    torch.manual_seed(0)
    times = StepTimes()
    with tempfile.TemporaryDirectory() as folder:
        trainer = make_trainer(arguments, times, folder)
        trainer.remove_callback(PrinterCallback)  # its lines begin as ours do
        peak_gib()
        trained = trainer.train()
    seconds = times.ends[-1] - times.ends[arguments.warm_up]
    pairs = arguments.batch * arguments.accumulate
    print(json.dumps(dict(peer="trl_dpo") | vars(arguments) | dict(
        pairs_s=round(pairs * arguments.steps / seconds, 3), step_s=round(seconds / arguments.steps, 3),
        loss=round(trained.training_loss, 4), peak_gib=peak_gib())), flush=True)


if __name__ == "__main__":
    main()
