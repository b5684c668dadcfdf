"""Random pairs, rollouts and conversations as lines of `packtrain prepare --pretokenized`, and stores of them."""

import json
import math
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "train"))

from programs import PACKTRAIN, PREPARE_SECONDS, call

LONGEST = 4096
LONGEST_ROLLOUT = 2048  # so that all rollouts of a prompt fit in a micro-batch
FLAN = (5.663, 1.0)  # lognormal parameters of an example, as in benchmarks/train/paper


def drawn_length(generator, mu, sigma, least, most):
    return max(least, min(most, round(generator.lognormvariate(mu, sigma))))


def flan_pair(generator):
    """Lengths of a prompt and two answers. A prompt with its chosen answer is an example of FLAN, a third of it the
    answer. The rejected answer is a third of another example."""
    whole, other = (drawn_length(generator, *FLAN, 8, LONGEST) for _ in range(2))
    prompt = max(1, whole - whole // 3)
    return prompt, [max(2, whole // 3), max(2, min(other // 3, LONGEST - prompt))]


def constant_pair(prompt, answer):
    return lambda _: (prompt, [answer, answer])


def rollouts_of_prompt(prompt, count, mu, sigma):
    return lambda generator: (prompt, [drawn_length(generator, mu, sigma, 8, LONGEST_ROLLOUT) for _ in range(count)])


def _example(prompt, answer, columns=None):
    labels = [-100] * len(prompt) + answer
    return {"input_ids": prompt + answer, "labels": labels} | (columns or {})


def write_groups(path, draw, count, vocab_size, kind, seed=1):
    """Writes `count` groups of lengths `draw(generator)`: of the kind "pairs" or "rollouts"."""
    generator = random.Random(seed)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(count):
            length, answers = draw(generator)
            prompt = generator.choices(range(2, vocab_size), k=length)
            drawn = [generator.choices(range(2, vocab_size), k=answer) for answer in answers]
            if kind == "pairs":
                group = {name: _example(prompt, answer) for name, answer in zip(("chosen", "rejected"), drawn)}
            else:
                # Random weights give each token about this, so that ratios are not clipped.
                columns = {"old_log_prob": -math.log(vocab_size)}
                group = {"rollouts": [_example(prompt, answer, columns | {"advantage": generator.gauss(0, 1)})
                                      for answer in drawn]}
            print(json.dumps(group, separators=(",", ":")), file=file)
    return path


def write_conversations(path, count, turns, lengths, vocab_size, seed=1):
    """Writes `count` conversations of `turns` turns. `lengths`: tokens of a question, of the thoughts before an answer,
    which later turns do not have, and of the answer."""
    generator = random.Random(seed)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(count):
            history, members = [], []
            for _ in range(turns):
                question, thoughts, answer = (generator.choices(range(2, vocab_size), k=length) for length in lengths)
                members.append(_example(history + question, thoughts + answer))
                history = history + question + answer
            print(json.dumps({"turns": members}, separators=(",", ":")), file=file)
    return path


def make_store(lines, folder, vocab_size, columns=()):
    """A store of the lines. It replaces one that is there."""
    options = [word for name in columns for word in ("--token-column", name)]
    call([PACKTRAIN, "prepare", "--pretokenized", lines, "--vocab-size", str(vocab_size), "--out", folder,
          "--overwrite", *options], folder + ".log", PREPARE_SECONDS)
    return folder
