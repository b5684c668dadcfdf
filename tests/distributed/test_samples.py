"""Tests continuations during training: they equal those of transformers, and no loss changes."""

import json
import subprocess

import pytest
from runs import PROGRAM, assert_bit_equal, losses, take_checkpoint

SMALL = ["run.max_steps=6", "checkpoint.save_steps=3", "checkpoint.keep=10"]
SAMPLES = ["samples.steps=2", "samples.num_prompts=3", "samples.max_new_tokens=12", "samples.prompt_tokens=8"]


def samples(run):
    return [json.loads(line) for line in (run / "samples.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def sampled(lab):
    return lab.run("sampled", *SMALL, *SAMPLES)


def test_each_prompt_has_a_line_at_every_interval_and_at_the_end(sampled, lab):
    lines = samples(sampled)
    assert [line["step"] for line in lines] == [step for step in (2, 4, 6) for _ in range(3)]
    assert [line["example"] for line in lines[:3]] == [0, 6, 13], "spread over 20 examples"
    for line in lines:
        assert line["store"] == str(lab.validation_store)
        assert len(line["continuation"]) == 12 and not line["ended"] and line["reference"]
        assert all(0 <= token < 512 for token in line["continuation"])
    odd = lab.run("odd", "run.max_steps=3", *SAMPLES)
    assert sorted({line["step"] for line in samples(odd)}) == [2, 3], "the last step too"


def test_training_is_what_it_is_without(sampled, lab):
    assert_bit_equal(sampled, lab.run("unsampled", *SMALL))


@pytest.mark.parametrize("ranks", [2, 3])
def test_any_number_of_ranks_writes_the_same(sampled, lab, ranks):
    assert samples(lab.run(f"sampled-{ranks}", *SMALL, *SAMPLES, ranks=ranks)) == samples(sampled)


def test_continuations_are_those_of_transformers(sampled, lab):
    import torch
    from transformers import AutoModelForCausalLM

    out = lab.folder / "sampled-export"
    subprocess.run([PROGRAM, "export", str(sampled), "--out", str(out)], check=True, capture_output=True)
    model = AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32)
    for line in samples(sampled)[-3:]:
        prompt = torch.tensor([line["prompt"]])
        text = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=12, do_sample=False,
                              eos_token_id=None, pad_token_id=0)
        assert text[0, len(line["prompt"]):].tolist() == line["continuation"]


def test_a_continuation_ends_at_the_models_end_token(sampled, lab):
    first = samples(sampled)[0]["continuation"]
    end = next((token for token in first if token != first[0]), first[0])
    line = samples(lab.run("ended", "run.max_steps=2", f"model.config.eos_token_id={end}", *SAMPLES))[0]
    assert line["ended"] and line["continuation"] == first[:first.index(end) + 1]


def test_drawn_tokens_differ_from_the_likeliest_and_come_again(sampled, lab):
    drawn = [lab.run(f"drawn-{ranks}", "run.max_steps=2", *SAMPLES, "samples.temperature=1", "samples.top_p=0.9",
                     ranks=ranks) for ranks in (1, 2)]
    assert samples(drawn[0]) == samples(drawn[1])
    assert samples(drawn[0]) != samples(sampled)[:3]
    assert losses(drawn[0]) == losses(sampled)[:2]


def test_a_resumed_run_has_each_line_once(sampled, lab):
    run = lab.folder / "runs" / "resampled"
    take_checkpoint(sampled, 3, run)
    (run / "samples.jsonl").write_text((sampled / "samples.jsonl").read_text())
    lab.run("resampled", *SMALL, *SAMPLES)
    assert samples(run) == samples(sampled)


def test_named_sets_have_prompts_of_their_own_and_no_set_means_training_data(lab):
    other = lab.make_store("other", 9, 31)
    sets = json.dumps({"web": str(lab.validation_store), "code": str(other)})
    lines = samples(lab.run("of-sets", "run.max_steps=1", f"data.validation={sets}", *SAMPLES))
    assert [line["set"] for line in lines] == ["web"] * 3 + ["code"] * 3
    (line, *_) = samples(lab.run("of-train", "run.max_steps=1", "data.validation=", *SAMPLES))
    assert line["store"] == str(lab.train_store) and "set" not in line


def test_prompts_that_do_not_fit_are_refused_before_the_first_step(lab):
    code, _, err = lab.finish(lab.start("long", "samples.steps=1", "samples.max_new_tokens=1024"))
    assert code == 64 and "no example has a beginning" in err and "samples.max_new_tokens" in err, err
    assert not (lab.folder / "runs" / "long" / "checkpoints").exists()
