"""From JSONL of pairs to an adapter that prefers the chosen answers: prepare, train, evaluate, report and export."""

import json
import random

import pytest
from tiny_model import make_model, packtrain

PREFERENCES = """
model: {path: model}
adapter: {kind: lora, rank: 8, alpha: 16}
data: {train: pairs, validation: held, max_length: 96}
objective: {kind: dpo, beta: 0.2}
batch: {global_batch_size: 8, max_tokens_per_micro_batch: 512}
optimizer: {learning_rate: 1.0e-2, weight_decay: 0}
schedule: {name: constant}
precision: {compute: fp32, reduce: fp32}
metrics: {serve: false}
samples: {steps: 20, num_prompts: 2, max_new_tokens: 4}
run: {output: run, max_steps: 20, evaluate_at_start: true}
"""


def write_pairs(path, count, seed):
    numbers = random.Random(seed)
    with path.open("w") as stream:
        for _ in range(count):
            word = "".join(numbers.choice("abcdefgh") for _ in range(numbers.randrange(2, 12)))
            stream.write(json.dumps({"prompt": [{"role": "user", "content": f"say {word}"}],
                                     "chosen": [{"role": "assistant", "content": f"yes {word}"}],
                                     "rejected": [{"role": "assistant", "content": f"no {word[::-1]}"}]}) + "\n")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("preferences")
    make_model(folder / "model")
    for name, count, seed in (("pairs", 48, 1), ("held", 12, 2)):
        packtrain("prepare", write_pairs(folder / f"{name}.jsonl", count, seed), "--tokenizer", "model", "--out", name,
                  cwd=folder)
    (folder / "dpo.yaml").write_text(PREFERENCES)
    packtrain("train", "dpo.yaml", cwd=folder)
    return folder


def lines(folder, key):
    found = map(json.loads, (folder / "run" / "metrics.jsonl").read_text().splitlines())
    return [line for line in found if key in line]


def test_the_policy_learns_to_prefer_the_chosen_answers(folder):
    first, last = lines(folder, "validation_loss")
    assert first["validation_loss"] == pytest.approx(0.693147, abs=1e-5), "as the reference"
    assert first["validation_objective"]["reward_margin"] == pytest.approx(0, abs=1e-6)
    assert last["validation_objective"]["reward_accuracy"] == 1
    assert last["validation_loss"] < 0.4


def test_the_log_line_and_evaluate_show_the_accuracy(folder):
    told = packtrain("evaluate", "dpo.yaml", cwd=folder)
    assert "12 groups" in told.stdout and "perplexity" not in told.stdout
    assert "reward_accuracy        1.000000" in told.stdout
    last = lines(folder, "validation_loss")[-1]
    found = json.loads(packtrain("evaluate", "dpo.yaml", "--json", cwd=folder).stdout)
    assert found["loss"] == pytest.approx(last["validation_loss"], rel=1e-5)
    under = json.loads(packtrain("evaluate", "dpo.yaml", "--without-adapter", "--json", cwd=folder).stdout)
    assert under["objective"]["reward_margin"] == pytest.approx(0, abs=1e-6)


def test_samples_have_the_chosen_and_the_rejected_answer(folder):
    samples = [json.loads(line) for line in (folder / "run" / "samples.jsonl").read_text().splitlines()]
    assert len(samples) == 2 and all(sample["rejected"] and sample["reference"] for sample in samples)
    shown = packtrain("inspect", "run", cwd=folder).stdout
    assert "chosen: yes " in shown and "rejected: no " in shown


def test_the_report_has_a_chart_of_each_statistic(folder):
    packtrain("report", "run", "--out", "report.html", cwd=folder)
    page = (folder / "report.html").read_text()
    assert "Reward margin" in page and "Reward accuracy" in page and "rejected" in page


def test_the_adapter_is_exported_and_scored(folder):
    import peft
    import torch
    import transformers

    packtrain("export", "run", "--out", "adapter", cwd=folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder / "model")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "model")
    adapted = peft.PeftModel.from_pretrained(model, folder / "adapter")

    def log_prob(answer):
        prompt = tokenizer.encode("<|user|>say abc<|end|>", add_special_tokens=False)
        ids = tokenizer.encode(f"<|assistant|>{answer} abc<|end|>", add_special_tokens=False)
        with torch.no_grad():
            logits = adapted(torch.tensor([prompt + ids])).logits.log_softmax(-1)
        return sum(logits[0, len(prompt) + i - 1, token].item() for i, token in enumerate(ids))

    with adapted.disable_adapter():
        before = log_prob("yes") - log_prob("no")
    assert log_prob("yes") - log_prob("no") > before + 1


def test_the_weight_of_a_record_weighs_its_pair_as_that_of_a_store_does(folder):
    rows = [json.loads(line) for line in (folder / "pairs.jsonl").read_text().splitlines()]
    for name, chosen in (("even", rows[::2]), ("odd", rows[1::2]),
                         ("weighed", [row | {"weight": 0.25} if i % 2 else row for i, row in enumerate(rows)])):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in chosen))
        packtrain("prepare", f"{name}.jsonl", "--tokenizer", "model", "--out", name, cwd=folder)
    steps = []
    for run, stores in (("by-record", "weighed"), ("by-store", "[even, {path: odd, loss_weight: 0.25}]"),
                        ("without", "pairs")):
        packtrain("train", "dpo.yaml", f"data.train={stores}", f"run.output={run}", "run.max_steps=1", "samples.steps=0",
                  "objective.kind=simpo", "objective.beta=null", "batch.global_batch_size=48", "data.validation=null",
                  "run.evaluate_at_start=false", cwd=folder)
        steps.append(json.loads((folder / run / "metrics.jsonl").read_text().splitlines()[0]))
    by_record, by_store, without = ((step["loss"], step["grad_norm"]) for step in steps)
    assert by_record == pytest.approx(by_store, rel=1e-5)
    assert by_record != pytest.approx(without, rel=1e-4)
