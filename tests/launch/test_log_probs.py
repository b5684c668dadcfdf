"""`packtrain score --log-probs`: the log-probabilities that transformers finds, and the file that keeps them."""

import json

import numpy as np
import pytest
import yaml
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from tiny_model import make_model, packtrain, write_conversations

from packtrain_tools.store_reader import StoreReader  # on the path by tiny_model

FLOAT32 = ("precision.compute=fp32", "precision.reduce=fp32", "data.max_length=64", "batch.max_tokens_per_micro_batch=64")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("log_probs")
    make_model(folder / "model")
    make_model(folder / "other", seed=1)
    packtrain("prepare", write_conversations(folder / "chats.jsonl", times=3), "--tokenizer", "model", "--out", "store",
              cwd=folder)
    return folder


def score(folder, *words, code=0):
    done = packtrain("score", *words, "--log-probs", *FLOAT32, cwd=folder, code=code)
    return done.stderr if code else done.stdout


def metadata(path):
    with safe_open(path, framework="numpy") as file:
        return file.metadata()


def logits_of(folder):
    """A function from ids to the logits [ids, vocabulary] of transformers."""
    import torch
    import transformers
    model = transformers.AutoModelForCausalLM.from_pretrained(folder / "model", dtype=torch.float32).requires_grad_(False)
    return lambda ids: model(torch.tensor([list(map(int, ids))])).logits[0]


def write_greedy_store(folder):
    """Examples of tokens that the model itself finds likeliest, up to the last one."""
    logits = logits_of(folder)
    with open(folder / "greedy.jsonl", "w", encoding="utf-8") as stream:
        for first in range(5, 11):
            ids = [first]
            for _ in range(6):
                ids.append(int(logits(ids)[-1].argmax()))
            stream.write(json.dumps({"input_ids": [*ids, (ids[-1] + 1) % 250]}) + "\n")
    packtrain("prepare", "--pretokenized", "greedy.jsonl", "--vocab-size", 279, "--out", "greedy", "--overwrite", cwd=folder)


def expected(folder, store):
    """Of each example: log-probabilities of its learned tokens, and whether they are the likeliest ones."""
    logits_of_ids = logits_of(folder)
    for ids, mask in StoreReader(str(folder / store)).examples():
        logits = logits_of_ids(ids)[:-1]
        found = logits.log_softmax(-1).numpy()[np.arange(len(ids) - 1), ids[1:]]
        learned = mask[1:] != 0
        yield found[learned], (logits.argmax(-1).numpy() == ids[1:])[learned]


@pytest.mark.parametrize("store", ["store", "greedy"])
def test_every_learned_token_has_its_log_probability_in_the_order_of_the_store(folder, store):
    if store == "greedy":
        write_greedy_store(folder)
    score(folder, "model", store, "--out", f"{store}.safetensors")
    found = load_file(folder / f"{store}.safetensors")
    wanted = list(expected(folder, store))
    assert found["offsets"].tolist() == np.cumsum([0, *(len(values) for values, _ in wanted)]).tolist()
    np.testing.assert_allclose(found["log_probs"], np.concatenate([values for values, _ in wanted]), atol=1e-4)
    assert found["greedy"].tolist() == np.concatenate([greedy for _, greedy in wanted]).astype(int).tolist()
    if store == "greedy":
        assert len(found["greedy"]) // 2 < found["greedy"].sum() < len(found["greedy"])


def test_without_a_file_name_the_store_keeps_them_and_is_still_a_store(folder):
    packtrain("prepare", folder / "chats.jsonl", "--tokenizer", "model", "--out", "kept", cwd=folder)
    score(folder, "model", "kept")
    score(folder, "other", "kept")
    kept = list((folder / "kept").glob("log-probs-*.safetensors"))
    assert len(kept) == 2
    assert all(path.name == f"log-probs-{metadata(path)['model']}.safetensors" for path in kept)
    packtrain("prepare", folder / "chats.jsonl", "--tokenizer", "model", "--out", "kept", "--overwrite", cwd=folder)
    assert not list((folder / "kept").glob("log-probs-*"))


def test_a_file_of_the_same_model_and_data_is_kept(folder):
    score(folder, "model", "store", "--out", "same.safetensors")
    before = (folder / "same.safetensors").stat().st_mtime_ns
    assert "kept" in score(folder, "model", "store", "--out", "same.safetensors")
    assert (folder / "same.safetensors").stat().st_mtime_ns == before


@pytest.mark.parametrize("words, key", [(["other", "store"], "model"), (["model", "shorter"], "data"),
                                        (["model", "store", "precision.compute=bf16"], "model_settings")])
def test_a_file_of_another_model_or_data_is_refused(folder, words, key):
    score(folder, "model", "store", "--out", "first.safetensors")
    if not (folder / "shorter").exists():
        packtrain("prepare", folder / "chats.jsonl", "--tokenizer", "model", "--out", "shorter", "--max-examples", 5,
                  cwd=folder)
    done = packtrain("score", *words[:2], "--log-probs", *FLOAT32, *words[2:], "--out", "first.safetensors", cwd=folder, code=65)
    assert f"exists with another {key}:" in done.stderr


def test_a_damaged_file_is_refused(folder):
    (folder / "damaged.safetensors").write_bytes(b"no safetensors")
    assert "damaged.safetensors" in score(folder, "model", "store", "--out", "damaged.safetensors", code=65)


def test_candidates_have_the_log_probability_of_the_token_after_the_example(folder):
    examples = list(StoreReader(str(folder / "store")).examples())
    counts = [number % 3 for number in range(len(examples))]
    ids = np.arange(sum(counts), dtype=np.int32) * 7 % 250
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    save_file({"offsets": offsets, "ids": ids}, folder / "candidates.safetensors")
    score(folder, "model", "store", "--candidates", "candidates.safetensors", "--out", "with.safetensors")
    score(folder, "model", "store", "--out", "without.safetensors")
    found, without = load_file(folder / "with.safetensors"), load_file(folder / "without.safetensors")
    np.testing.assert_allclose(found["log_probs"], without["log_probs"], atol=1e-5)
    assert found["candidate_offsets"].tolist() == offsets.tolist()
    logits, wanted = logits_of(folder), []
    for (tokens, _), begin, end in zip(examples, offsets, offsets[1:]):
        last = logits(tokens)[-1].log_softmax(-1)
        wanted += last[ids[begin:end].astype(np.int64)].tolist()
    np.testing.assert_allclose(found["candidate_log_probs"], wanted, atol=1e-4)


@pytest.mark.parametrize("offsets, ids, message", [
    ([0, 1], [5], "has offsets of 1 examples, the store has 12"),
    ([0] * 12 + [2], [5], "do not rise from 0 to the number of ids"),
    ([0] * 12 + [1], [100000], "has id 100000, wanted 0..")])
def test_candidates_that_do_not_fit_are_refused(folder, offsets, ids, message):
    save_file({"offsets": np.array(offsets, np.int64), "ids": np.array(ids, np.int32)}, folder / "wrong.safetensors")
    assert message in score(folder, "model", "store", "--candidates", "wrong.safetensors", "--out", "no.safetensors", code=65)
    assert not (folder / "no.safetensors").exists()


def test_a_configuration_scores_each_of_its_sets(folder):
    (folder / "sets.yaml").write_text(yaml.safe_dump({
        "model": {"path": "model"}, "data": {"validation": {"a": "store", "b": "store"}}}))
    done = packtrain("score", "sets.yaml", "--log-probs", "--json", *FLOAT32, "--out", "sets", cwd=folder)
    sets = json.loads(done.stdout)["sets"]
    assert [one["file"] for one in sets] == ["sets/a.safetensors", "sets/b.safetensors"]
    score(folder, "model", "store", "--out", "alone.safetensors")
    alone = load_file(folder / "alone.safetensors")["log_probs"]
    for one in sets:
        assert load_file(folder / one["file"])["log_probs"].tolist() == alone.tolist()
        assert one["loss"] == pytest.approx(-alone.mean(), rel=1e-5)


def test_the_folder_of_a_run_that_was_moved_is_scored_itself(folder, tmp_path):
    (folder / "run.yaml").write_text(yaml.safe_dump({
        "model": {"path": str(folder / "model")}, "data": {"train": str(folder / "store"), "max_length": 64},
        "run": {"output": "run", "max_steps": 1}, "schedule": {"warmup_steps": 0}, "metrics": {"serve": False},
        "optimizer": {"learning_rate": 1e-2}, "precision": {"compute": "fp32", "reduce": "fp32"}}))
    packtrain("train", "run.yaml", cwd=folder)
    exported = folder / "exported"
    packtrain("export", "run", "--out", exported, "--dtype", "float32", cwd=folder)
    (folder / "run").rename(folder / "moved")
    packtrain("train", "run.yaml", "optimizer.learning_rate=0", cwd=folder)
    for name, model, where in (("model", exported, folder), ("here", "moved", folder), ("there", folder / "moved", tmp_path)):
        packtrain("score", model, folder / "store", "--log-probs", *FLOAT32, "--out", folder / f"{name}-run.safetensors",
                  cwd=where)
    wanted, here, there = (load_file(folder / f"{name}-run.safetensors")["log_probs"] for name in ("model", "here", "there"))
    np.testing.assert_allclose(here, wanted, rtol=1e-4, atol=1e-5)
    assert here.tolist() == there.tolist()


@pytest.mark.parametrize("words, message", [
    (["model", "store"], "got neither --log-probs nor --tasks"),
    (["model", "store", "store", "--log-probs"], "got several stores"),
    (["model", "--log-probs"], "data.validation names no token store")])
def test_wrong_words_are_refused(folder, words, message):
    assert message in packtrain("score", *words, cwd=folder, code=64).stderr
