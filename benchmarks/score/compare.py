#!/usr/bin/env python3
"""Times log-likelihoods of one set of requests: `packtrain score`, and transformers with padded batches. That side
works as lm_eval's model `hf`: longest first, with logits of all rows. Continuations of one token that share their
context share a pass. --lm-eval takes that model itself.

  PYTHONPATH=launch/python benchmarks/score/compare.py --program build/bin/packtrain --make llama-1b --device cuda
"""

import argparse
import json
import os
import random
import resource
import tempfile
import time

import torch
import transformers

from packtrain_tools.scoring.engine import Engine

# hidden, inner, layers, heads, key heads, vocabulary
SHAPES = {"tiny": (64, 160, 2, 4, 2, 512), "smol-135m": (576, 1536, 30, 9, 3, 49152),
          "qwen-0.5b": (896, 4864, 24, 14, 2, 151936),
          "llama-1b": (2048, 8192, 16, 32, 8, 128256), "llama-8b": (4096, 14336, 32, 32, 8, 128256)}
# lengths of a context (mean and deviation of the logarithm), continuations of a context, tokens of one
KINDS = {"endings": (4.3, 0.6, 4, (5, 40)), "letters": (6.2, 0.4, 4, (1, 1)), "answers": (4.4, 0.5, 1, (1, 4))}


def make_model(shape, folder, dtype):
    hidden, inner, layers, heads, key_heads, vocabulary = SHAPES[shape]
    config = transformers.LlamaConfig(
        hidden_size=hidden, intermediate_size=inner, num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=key_heads, vocab_size=vocabulary, max_position_embeddings=4096, tie_word_embeddings=True,
        bos_token_id=0, eos_token_id=0)
    torch.manual_seed(0)
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        transformers.LlamaForCausalLM(config).to(dtype).save_pretrained(folder)
    return folder


def make_requests(kind, contexts, vocabulary, longest):
    """(context, continuation) of token ids."""
    mean, deviation, answers, (least, most) = KINDS[kind]
    chance = random.Random(1)
    requests = []
    for _ in range(contexts):
        length = min(longest - most, max(4, round(chance.lognormvariate(mean, deviation))))
        context = [chance.randrange(1, vocabulary) for _ in range(length)]
        requests += [(context, [chance.randrange(1, vocabulary) for _ in range(chance.randint(least, most))])
                     for _ in range(answers)]
    return requests


class Padded:
    """Transformers as lm_eval's `hf` uses it."""

    def __init__(self, folder, dtype, device):
        self.model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).to(device).eval()
        self.device = device

    def log_likelihoods(self, requests, batch_size):
        groups = {}
        for number, (context, continuation) in enumerate(requests):
            groups.setdefault((*context, *continuation[:-1]), []).append(number)
        inputs = sorted(groups, key=len, reverse=True)
        results = [None] * len(requests)
        for begin in range(0, len(inputs), batch_size):
            chunk = inputs[begin:begin + batch_size]
            padded = torch.zeros(len(chunk), len(chunk[0]), dtype=torch.long)
            for row, ids in enumerate(chunk):
                padded[row, :len(ids)] = torch.tensor(ids)
            with torch.inference_mode():
                found = torch.log_softmax(self.model(padded.to(self.device)).logits, -1)
            for row, ids in enumerate(chunk):
                for number in groups[ids]:
                    tokens = torch.tensor(requests[number][1], device=self.device)
                    values = found[row, len(ids) - len(tokens):len(ids)]
                    same = bool((values.argmax(-1) == tokens).all())
                    results[number] = (float(values.gather(1, tokens[:, None]).sum()), same)
        return results


class OfLmEval:
    def __init__(self, folder, dtype, device):
        from lm_eval.models.huggingface import HFLM
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).to(device).eval()
        self.model = HFLM(pretrained=model, tokenizer=tokenizer(folder))

    def log_likelihoods(self, requests, batch_size):
        self.model.batch_size_per_gpu = batch_size
        with torch.inference_mode():
            return self.model._loglikelihood_tokens([(None, *one) for one in requests], disable_tqdm=True)


def tokenizer(folder):
    """Any tokenizer: the requests are ids."""
    if os.path.exists(os.path.join(folder, "tokenizer.json")):
        return transformers.AutoTokenizer.from_pretrained(folder)
    import tokenizers
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0}, unk_token="a"))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=words, eos_token="a", pad_token="a")


def cpu_seconds():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def timed(work, clock):
    begin = clock()
    try:
        result = work()
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        return None, float("inf")
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return result, clock() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--model", metavar="DIR")
    parser.add_argument("--make", choices=SHAPES, help="random weights of this shape, in place of --model")
    parser.add_argument("--kind", choices=KINDS, default="endings")
    parser.add_argument("--contexts", type=int, default=2000)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch-sizes", default="1,4,16,64,256")
    parser.add_argument("--lm-eval", action="store_true")
    parser.add_argument("--times", type=int, default=2)
    parser.add_argument("--cpu-time", action="store_true", help="count time of the CPU, on a machine with other work")
    arguments = parser.parse_args()
    clock = cpu_seconds if arguments.cpu_time else time.perf_counter
    dtype = torch.float32 if arguments.device == "cpu" else torch.bfloat16
    with tempfile.TemporaryDirectory(prefix="score-") as work:
        folder = arguments.model or make_model(arguments.make, work, dtype)
        vocabulary = transformers.AutoConfig.from_pretrained(folder).vocab_size
        requests = make_requests(arguments.kind, arguments.contexts, vocabulary, 4096)
        engine = Engine(arguments.program, folder, vocabulary, 4096,
                        compute="fp32" if arguments.device == "cpu" else "bf16")
        ours, whole = min((timed(lambda: engine.log_likelihoods(requests), clock) for _ in range(arguments.times)),
                          key=lambda one: one[1])
        print(json.dumps({"side": "packtrain", "seconds": whole, "with": "start and weights"}), flush=True)
        begin = clock()
        peer = (OfLmEval if arguments.lm_eval else Padded)(folder, dtype, arguments.device)
        start = clock() - begin
        peer.log_likelihoods(requests[:8], 1)
        best = float("inf")
        for batch_size in map(int, arguments.batch_sizes.split(",")):
            theirs, seconds = timed(lambda size=batch_size: peer.log_likelihoods(requests, size), clock)
            print(json.dumps({"side": "lm_eval" if arguments.lm_eval else "padded", "batch_size": batch_size,
                              "seconds": seconds, "start": start}), flush=True)
            if theirs is not None:
                best = min(best, seconds)
                apart = max(abs(a - b) for (a, _), (b, _) in zip(ours, theirs))
                same = sum(a == b for (_, a), (_, b) in zip(ours, theirs))
        print(json.dumps({"requests": len(requests), "apart": apart, "same_greedy": same, "ratio": best / whole,
                          "ratio_with_start": (best + start) / whole}), flush=True)


if __name__ == "__main__":
    main()
