"""Where the log-probabilities of a reference come from: base, files and a second model are one reference."""

import json
import pathlib

import numpy
import pytest
import torch
from preference_runs import ADAPTER, evaluations, make_stores, settings, statistics
from runs import losses, steps, take_checkpoint
from safetensors.numpy import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM

LEARNS = ["optimizer.learning_rate=2.0e-2", "checkpoint.save_steps=3", "checkpoint.keep=10"]


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    return make_stores(tmp_path_factory.mktemp("references"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("hf") / "model"
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=512, hidden_size=64, intermediate_size=160, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512,
                         tie_word_embeddings=False)
    LlamaForCausalLM(config).save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def model(folder):
    return ["model.config=null", f"model.path={folder}"]


def score(lab, words, store, *more, ranks=1):
    process = lab.start("scored", *words, *more, f"data.validation={store}", "--log-probs", "--json", ranks=ranks,
                        command="score")
    code, out, err = lab.finish(process)
    assert code == 0, err
    return pathlib.Path(json.loads(out)["sets"][0]["file"])


def score_both(lab, words, stores, *more):
    """The digest in the names of the files."""
    files = [score(lab, words, store, *more) for store in stores["pairs"]]
    return files[0].stem.removeprefix("log-probs-")


def assert_same(found, wanted):
    numpy.testing.assert_allclose(losses(found), losses(wanted), rtol=3e-5)
    ours, theirs = statistics(found), statistics(wanted)
    for name in theirs:
        if name == "reward_accuracy":  # of equal rewards at first, where rounding decides
            ours[name], theirs[name] = ours[name][1:], theirs[name][1:]
        numpy.testing.assert_allclose(ours[name], theirs[name], rtol=3e-4, atol=3e-5, err_msg=name)
    (one,), (other,) = evaluations(found), evaluations(wanted)
    assert one["validation_loss"] == pytest.approx(other["validation_loss"], rel=3e-5)


@pytest.mark.parametrize("base", [[], ["model.base=nf4"]])
@pytest.mark.parametrize("ranks", [1, 2])
def test_base_files_and_second_model_are_one_reference(lab, stores, model, folder, base, ranks):
    words = [*settings(stores, "dpo"), *model, *base, *ADAPTER, *LEARNS]
    name = f"source-{len(base)}-{ranks}"
    under = lab.run(f"{name}-base", *words, ranks=ranks)
    assert max(map(abs, statistics(under)["reward_margin"][1:])) > 1e-3, "the policy has left its reference"
    assert statistics(under)["reward_margin"][0] == 0, "a new adapter changes nothing"
    score_both(lab, [*model, *base], stores, "adapter.kind=lora", "--without-adapter")
    assert_same(lab.run(f"{name}-files", *words, "objective.reference=log_probs", ranks=ranks), under)
    second = ["objective.reference=model", f"objective.reference_path={folder}"]
    assert_same(lab.run(f"{name}-second", *words, *second, ranks=ranks), under)


def test_a_whole_model_has_files_or_a_second_model_as_reference(lab, stores, model, folder):
    words = [*settings(stores, "dpo"), *model, *LEARNS]
    score_both(lab, model, stores)
    files = lab.run("whole-files", *words)
    second = lab.run("whole-second", *words, "objective.reference=model", f"objective.reference_path={folder}")
    assert_same(second, files)


def test_a_resumed_run_and_evaluate_read_the_files_of_the_first_weights(lab, stores, model):
    words = [*settings(stores, "dpo"), *model, *LEARNS]
    score_both(lab, model, stores)
    unbroken = lab.run("files", *words)
    take_checkpoint(unbroken, 3, lab.folder / "runs" / "files-resumed")
    resumed = lab.run("files-resumed", *words)
    assert sorted(steps(resumed)) == [4, 5]
    assert losses(resumed) == losses(unbroken)[3:]
    (wanted,) = evaluations(unbroken)
    process = lab.start("files", "--json", ranks=2, command="evaluate", config=unbroken / "config.yaml")
    code, out, err = lab.finish(process)
    assert code == 0, err
    assert json.loads(out)["loss"] == pytest.approx(wanted["validation_loss"], rel=1e-5)


def test_files_of_another_model_are_read_by_their_digest(lab, stores, model):
    digest = score_both(lab, [], stores)  # of the random weights of the lab's configuration
    words = [*settings(stores, "dpo"), *model, *LEARNS, f"objective.reference_path={digest}"]
    other = lab.run("other-files", *words)
    assert abs(statistics(other)["reward_margin"][0]) > 1e-4, "the policy does not begin as this reference"


@pytest.mark.parametrize("ranks", [1, 2])
def test_kto_has_a_second_model_as_reference(lab, stores, model, folder, ranks):
    words = [*settings(stores, "kto"), *model, *LEARNS]
    second = ["objective.reference=model", f"objective.reference_path={folder}"]
    under = lab.run(f"kto-base-{ranks}", *words, *ADAPTER, ranks=ranks)
    assert_same(lab.run(f"kto-second-{ranks}", *words, *ADAPTER, *second, ranks=ranks), under)
    whole = lab.run(f"kto-whole-{ranks}", *words, *second, ranks=ranks)
    assert losses(whole)[0] == pytest.approx(0.5, abs=1e-6), "of weights that are those of the reference"


def test_the_memory_plan_has_the_second_model(lab, stores, model, folder):
    planned = {}
    for name, more in (("alone", []), ("second", ["objective.reference=model", f"objective.reference_path={folder}"])):
        words = [*settings(stores, "kto"), *model, *ADAPTER, *more]
        code, out, err = lab.finish(lab.start(f"memory-{name}", "--memory", "--ranks", "2", "--json", *words, command="plan"))
        assert code == 0, err
        planned[name] = json.loads(out)["memory_bytes_by_purpose"]
    frozen = sum(value for name, value in planned["alone"].items() if name.startswith("frozen"))
    slots = planned["alone"]["gather slots"]
    # The trained model's slots have its adapter too.
    assert frozen < planned["second"].pop("reference model") <= frozen + slots
    assert planned["second"] == planned["alone"]


def test_missing_files_are_named_with_the_command_that_makes_them(lab, stores, folder, tmp_path):
    fresh = make_stores(tmp_path)
    words = [*settings(fresh, "dpo"), "model.config=null", f"model.path={folder}"]
    code, _, err = lab.finish(lab.start("no-files", *words))
    assert code == 65
    assert f"packtrain score {folder} {fresh['pairs'][0]} --log-probs precision.compute=fp32" in err
    assert f"&& packtrain score {folder} {fresh['pairs'][1]} --log-probs" in err, "both at the first failure"
    score_both(lab, ["model.config=null", f"model.path={folder}"], fresh)
    file = next(fresh["pairs"][0].glob("log-probs-*.safetensors"))
    file.write_bytes(file.read_bytes()[:-40])
    code, _, err = lab.finish(lab.start("broken-files", *words))
    assert code == 65 and str(file) in err


def test_the_base_is_no_reference_where_modules_are_trained_whole(lab, stores, model):
    words = [*settings(stores, "dpo"), *model, *ADAPTER, "adapter.save=[lm_head]"]
    code, _, err = lab.finish(lab.start("saved-modules", *words))
    assert code == 64
    assert "objective.reference: base asks for the model under the adapter, but" in err


def test_a_reference_of_another_vocabulary_is_refused(lab, stores, model, tmp_path):
    config = LlamaConfig(vocab_size=640, hidden_size=64, intermediate_size=160, num_hidden_layers=1,
                         num_attention_heads=4, num_key_value_heads=2)
    LlamaForCausalLM(config).save_pretrained(tmp_path / "other")
    words = [*settings(stores, "dpo"), *model, "objective.reference=model",
             f"objective.reference_path={tmp_path / 'other'}"]
    code, _, err = lab.finish(lab.start("other-vocabulary", *words))
    assert code == 64
    assert "a vocabulary of 640 tokens, the trained model one of 512" in err


@pytest.mark.parametrize("ranks", [1, 2])
def test_mismatched_answers_that_run_out_of_memory_are_divided(lab, stores, model, folder, ranks):
    """Micro-batches of one example cannot be divided. Those of mismatched answers have several."""
    second = ["objective.reference=model", f"objective.reference_path={folder}"]
    words = [*settings(stores, "kto"), *model, *second, *ADAPTER, "batch.strategy=padding_free", "batch.micro_batch_size=1"]
    # The other model computes the reference, so the first forward of this one is of mismatched answers.
    more = ["fault.kind=out_of_memory", "fault.step=2", "fault.micro_batch=0"]
    broken = lab.run(f"divided-{ranks}", *words, *more, ranks=ranks)
    assert steps(broken)[2]["num_out_of_memory"] == 1
    entry = json.loads((broken / "plan.json").read_text())["entries"][-1]
    assert entry["lowered_from"] == 512 and entry["from_step"] == 1
    assert_same(broken, lab.run(f"undivided-{ranks}", *words, ranks=ranks))


@pytest.mark.parametrize("kind", ["pairs", "rollouts"])
def test_scores_of_shared_prompts_are_those_of_whole_examples(lab, stores, model, tmp_path, kind):
    store = stores[kind][0]
    words = [*model, "--out"]
    whole = score(lab, [*words, str(tmp_path / "whole")], store, "batch.share_prefixes=false")
    one = score(lab, [*words, str(tmp_path / "one")], store)
    wanted, found = load_file(whole), load_file(one)
    assert found["offsets"].tolist() == wanted["offsets"].tolist()
    numpy.testing.assert_allclose(found["log_probs"], wanted["log_probs"], rtol=1e-4, atol=2e-5)
    assert (found["log_probs"] != wanted["log_probs"]).any(), "prompts are shared"
    two = score(lab, [*words, str(tmp_path / "two")], store, ranks=2)
    assert two.read_bytes() == one.read_bytes()
    # A budget that holds no whole group, and parts that begin with each group.
    for more in (["batch.max_tokens_per_micro_batch=96", "data.max_length=96"], ["--part-tokens", "1"]):
        small = load_file(score(lab, [*words, str(tmp_path / more[0].replace("/", ""))], store, *more, ranks=2))
        numpy.testing.assert_allclose(small["log_probs"], wanted["log_probs"], rtol=1e-4, atol=2e-5)


def test_candidates_after_answers_that_share_their_prompt(lab, stores, model, tmp_path):
    store = stores["rollouts"][1]
    num_examples = len(load_file(score(lab, [*model, "--out", str(tmp_path / "labels")], store))["offsets"]) - 1
    save_file({"offsets": 2 * numpy.arange(num_examples + 1), "ids": numpy.arange(2 * num_examples, dtype=numpy.int32)},
              tmp_path / "candidates")
    found = {}
    for share in ("true", "false"):
        words = [*model, f"batch.share_prefixes={share}", "--candidates", str(tmp_path / "candidates")]
        found[share] = load_file(score(lab, [*words, "--out", str(tmp_path / share)], store))
    assert len(found["true"]["candidate_log_probs"]) == 2 * num_examples
    for name in ("log_probs", "candidate_log_probs"):
        numpy.testing.assert_allclose(found["true"][name], found["false"][name], rtol=1e-4, atol=2e-5)
