#!/usr/bin/env python3
"""Checks an exported model in `transformers`: its loss on a validation store, every example alone
and in float32, must equal the loss that `packtrain evaluate --json` printed. Prints a unigram
model's perplexity on the same tokens, and sampled continuations."""

import json
import math
import sys
from collections.abc import Iterator

from packtrain_tools.environment import use_environment
from packtrain_tools.errors import Parser, ToolError, run_main

PROGRAM = "check_export"
use_environment(PROGRAM, "transformers")
import numpy as np  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402

from packtrain_tools.store_reader import StoreReader  # noqa: E402

VERIFY = 74  # exit code: kVerify of framework/core/error.h
PROMPT_TOKENS = 8


def parse_arguments():
    parser = Parser(prog=PROGRAM, description=__doc__)
    parser.add_argument("--model", required=True, help="the folder that `packtrain export` wrote")
    parser.add_argument("--train", required=True, metavar="STORE", help="for the unigram model")
    parser.add_argument("--validation", required=True, metavar="STORE")
    parser.add_argument("--evaluation", required=True, metavar="FILE",
                        help="what `packtrain evaluate --json` printed")
    parser.add_argument("--tolerance", type=float, default=1e-4, metavar="NATS",
                        help="the losses may differ by this much (default 1e-4)")
    parser.add_argument("--max-unigram-ratio", type=float, metavar="R",
                        help="fail unless the perplexity is below R times a unigram model's")
    return parser.parse_args()


def sum_losses(model, store: StoreReader) -> tuple[float, float, int]:
    """The summed cross-entropy in nats over all predicted tokens, times their weights; the sum of the
    weights; and the number of tokens."""
    total, weight, count = 0.0, 0.0, 0
    table = torch.tensor(store.info.get("loss_weights", [0, 1]), dtype=torch.float64)
    with torch.inference_mode():
        for input_ids, loss_mask in store.examples():
            ids = torch.from_numpy(input_ids.astype(np.int64))
            weights = table[torch.from_numpy(loss_mask[1:].astype(np.int64))]
            rows = weights > 0  # row t predicts token t + 1
            logits = model(ids[None]).logits[0, :-1][rows].double()
            losses = torch.nn.functional.cross_entropy(logits, ids[1:][rows], reduction="none")
            total += (losses * weights[rows]).sum().item()
            weight += weights.sum().item()
            count += int(rows.sum())
    return total, weight, count


def unigram_loss(train: StoreReader, validation: StoreReader) -> float:
    """Mean loss of the training store's token frequencies, with add-one smoothing."""
    counts = train.count_ids() + 1
    losses = -np.log(counts / counts.sum())
    wanted = validation.count_ids()
    return float((wanted * losses).sum() / wanted.sum())


def sample(model, tokenizer, store: StoreReader, number: int) -> Iterator[tuple[str, str]]:
    """Beginnings of validation examples, each with a continuation."""
    torch.manual_seed(0)
    for input_ids, _ in store.examples():
        if len(input_ids) < 2 * PROMPT_TOKENS:
            continue
        prompt = torch.from_numpy(input_ids[:PROMPT_TOKENS].astype(np.int64))[None]
        output = model.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=True,
                                temperature=0.8, top_k=50, max_new_tokens=40,
                                pad_token_id=tokenizer.pad_token_id)
        yield (tokenizer.decode(prompt[0]),
               tokenizer.decode(output[0, PROMPT_TOKENS:], skip_special_tokens=True))
        number -= 1
        if number == 0:
            return


def check(arguments, ours: dict, total: float, weight: float, count: int):
    theirs = total / weight
    difference = abs(ours["loss"] - theirs)
    print(f"validation loss       packtrain {ours['loss']:.6f}   transformers {theirs:.6f}   "
          f"difference {difference:.1e} (at most {arguments.tolerance:g})")
    if ours["num_loss_tokens"] != count:
        raise ToolError(f"packtrain counted {ours['num_loss_tokens']:,} tokens to predict, "
                        f"{arguments.validation} has {count:,}", exit_code=VERIFY)
    if not difference <= arguments.tolerance:
        raise ToolError(f"{arguments.model}: transformers' loss is {theirs:.6f}, packtrain's "
                        f"{ours['loss']:.6f}: they differ by {difference:.2e}, wanted at most "
                        f"{arguments.tolerance:g}", exit_code=VERIFY)


def check_unigram(max_ratio: float | None, perplexity: float, unigram: float):
    print(f"validation perplexity model {perplexity:.1f}   unigram model {unigram:.1f}")
    if perplexity > unigram:
        print("  counting tokens does better: the text is too little to learn from, or was learned by heart")
    if max_ratio is not None and not perplexity < max_ratio * unigram:
        raise ToolError(f"the model's perplexity is {perplexity:.1f}, wanted less than "
                        f"{max_ratio:g} times a unigram model's {unigram:.1f}", exit_code=VERIFY)


def main():
    arguments = parse_arguments()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    train, validation = StoreReader(arguments.train), StoreReader(arguments.validation)
    with open(arguments.evaluation, encoding="utf-8") as stream:
        ours = json.load(stream)
    model = transformers.AutoModelForCausalLM.from_pretrained(arguments.model,
                                                              dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(arguments.model)
    check(arguments, ours, *sum_losses(model, validation))
    unigram = unigram_loss(train, validation)
    check_unigram(arguments.max_unigram_ratio, math.exp(ours["loss"]), math.exp(unigram))
    print(f"ok: {arguments.model} has the same loss in transformers, and is better than a unigram model"
          if arguments.max_unigram_ratio else
          f"ok: {arguments.model} has the same loss in transformers")
    for prompt, continuation in sample(model, tokenizer, validation, 2):
        print(f"continuation of {prompt!r}:\n  {continuation!r}")


if __name__ == "__main__":
    sys.exit(run_main(PROGRAM, main))
