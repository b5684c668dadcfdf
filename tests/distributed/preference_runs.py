"""Small stores of pairs, judged answers and rollouts, and settings that train on them."""

import json
import random
import subprocess

from runs import PROGRAM, steps

ADAPTER = ["adapter.kind=lora", "adapter.rank=4", "adapter.alpha=8"]
PAIRS = ["dpo", "ipo", "orpo", "simpo", "cpo"]
WITH_REFERENCE = ["dpo", "ipo", "kto"]
STORE_OF = {**dict.fromkeys(PAIRS, "pairs"), "kto": "judged", "policy": "rollouts"}
# A larger epsilon keeps the rounding of gradients near 0 out of the first updates.
STEPS = ["run.max_steps=5", "batch.global_batch_size=6", "batch.max_tokens_per_micro_batch=512",
         "optimizer.learning_rate=1.0e-2", "optimizer.epsilon=1.0e-5"]


def example(prompt, answer):
    return {"input_ids": prompt + answer, "labels": [-100] * len(prompt) + answer}


def prompt_of(numbers):
    return [numbers.randrange(4, 200) for _ in range(numbers.randrange(2, 60))]


def answer_of(numbers, first):
    """Tokens of one of two ranges: chosen answers have other tokens than rejected ones."""
    return [numbers.randrange(first, first + 100) for _ in range(numbers.randrange(1, 30))]


def pair(numbers):
    prompt = prompt_of(numbers)
    return {"chosen": example(prompt, answer_of(numbers, 200)), "rejected": example(prompt, answer_of(numbers, 300)),
            "margin": round(numbers.uniform(0, 2), 3)}


def judged(numbers):
    is_good = numbers.random() < 0.5
    answer = answer_of(numbers, 200 if is_good else 300)
    return {"desirable" if is_good else "undesirable": example(prompt_of(numbers), answer)}


def rollouts(numbers):
    prompt, members = prompt_of(numbers), []
    for _ in range(numbers.randrange(1, 5)):
        answer = answer_of(numbers, 200)
        values = {"advantage": numbers.uniform(-1, 1),
                  "old_log_prob": [0.0] * len(prompt) + [-6.2 + numbers.uniform(-0.3, 0.3) for _ in answer]}
        members.append({**example(prompt, answer), **values})
    return {"rollouts": members}


def turns(numbers):
    """A conversation. Prompts grow from turn to turn; some follow thoughts that later ones lack."""
    members, common = [], prompt_of(numbers)
    for _ in range(numbers.randrange(1, 6)):
        thoughts = answer_of(numbers, 300) if numbers.random() < 0.4 else []
        members.append(example(common + thoughts, answer_of(numbers, 200)))
        common = common + prompt_of(numbers)
    return {"turns": members}


MAKERS = {"pairs": pair, "judged": judged, "rollouts": rollouts, "turns": turns}


def make_store(folder, name, kind, count, seed):
    numbers = random.Random(seed)
    columns = ["--token-column", "advantage", "--token-column", "old_log_prob"] if kind == "rollouts" else []
    return write_store(folder, name, [MAKERS[kind](numbers) for _ in range(count)], *columns)


def write_store(folder, name, values, *columns):
    lines = folder / f"{name}.jsonl"
    lines.write_text("".join(json.dumps(value) + "\n" for value in values))
    subprocess.run([PROGRAM, "prepare", "--pretokenized", str(lines), "--vocab-size", "512", *columns,
                    "--out", str(folder / name)], check=True, capture_output=True, text=True)
    return folder / name


def make_stores(folder):
    """{kind: (store to train on, store to evaluate on)}"""
    return {kind: (make_store(folder, f"{kind}-train", kind, 60, 1), make_store(folder, f"{kind}-held", kind, 17, 2))
            for kind in ("pairs", "judged", "rollouts")}


def settings(stores, objective):
    train, held = stores[STORE_OF[objective]]
    return [f"objective.kind={objective}", f"data.train={train}", f"data.validation={held}", *STEPS]


def statistics(run):
    """{name: values by step}"""
    lines = [line["objective"] for _, line in sorted(steps(run).items())]
    return {name: [line.get(name) for line in lines] for name in lines[0]}


def evaluations(run):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if "validation_loss" in line]
