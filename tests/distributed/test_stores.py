"""Several stores with repeats and loss weights: the same run on any number of ranks."""

import json
import subprocess

import numpy
import pytest
from runs import PROGRAM, losses, steps

SMALL = ["batch.global_batch_size=8", "data.max_length=400", "run.num_epochs=1", "run.max_steps=null"]


@pytest.fixture(scope="session")
def two_stores(lab):
    return {name: lab.make_store(name, count, seed)
            for name, count, seed in (("first", 13, 21), ("second", 9, 22))}


def train_stores(stores, weights=(1.0, 1.0), repeats=(1, 2)):
    entries = [f"{{path: {path}, repeats: {n}, loss_weight: {w}}}"
               for path, n, w in zip(stores.values(), repeats, weights)]
    return f"data.train=[{', '.join(entries)}]"


def test_repeats_are_counted(lab, two_stores):
    run_folder = lab.run("repeats", train_stores(two_stores), *SMALL)
    assert sum(line["num_examples"] for line in steps(run_folder).values()) == 13 + 2 * 9


@pytest.mark.parametrize("normalize", ["tokens", "examples"])
def test_weighted_losses_are_the_same_on_two_ranks_and_at_twice_the_weights(lab, two_stores, normalize):
    overrides = [*SMALL, f"batch.normalize={normalize}"]
    one = lab.run(f"weighted-{normalize}-1", train_stores(two_stores, (0.5, 2.0)), *overrides)
    two = lab.run(f"weighted-{normalize}-2", train_stores(two_stores, (0.5, 2.0)), *overrides, ranks=2)
    doubled = lab.run(f"weighted-{normalize}-doubled", train_stores(two_stores, (1.0, 4.0)), *overrides)
    alike = lab.run(f"weighted-{normalize}-alike", train_stores(two_stores), *overrides)
    numpy.testing.assert_allclose(losses(two), losses(one), rtol=2e-5)
    assert losses(doubled) == losses(one)
    assert losses(alike) != losses(one)


def test_a_store_named_twice_is_refused(lab, two_stores):
    path = two_stores["first"]
    code, _, err = lab.finish(lab.start("named-twice", f"data.train=[{path}, {path}/]"))
    assert code == 64
    assert "more than once" in err


def test_stores_of_different_vocabularies_are_refused(lab, two_stores):
    other = lab.make_store("other-vocabulary", 5, 1, vocab_size=300)
    code, _, err = lab.finish(lab.start("vocabularies", f"data.train=[{two_stores['first']}, {other}]"))
    assert code == 65
    assert "300" in err and "512" in err and str(other) in err


def write_tokenizer(folder, tokens):
    folder.mkdir(parents=True)
    vocabulary = {token: number for number, token in enumerate(tokens)}
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"type": "BPE", "vocab": vocabulary},
                                                       "added_tokens": []}))


@pytest.mark.parametrize("place", ["data.train", "data.validation"])
def test_a_store_whose_ids_mean_other_tokens_than_the_models_is_refused(lab, place):
    tokens = [f"token {number}" for number in range(512)]
    name = f"tokenizers-{place}"
    model = lab.folder / f"{name}-model"
    write_tokenizer(model, tokens)
    (model / "config.json").write_text(json.dumps(
        {"model_type": "llama", "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 512, "rms_norm_eps": 1e-6,
         "max_position_embeddings": 512, "tie_word_embeddings": True, "hidden_act": "silu"}))
    config = lab.config(name)
    config.write_text(f"model: {{path: {model}}}\ndata: {{train: {lab.train_store}, validation: "
                      f"{lab.validation_store}, max_length: 512}}\nbatch: {{max_tokens_per_micro_batch: 1024}}\n"
                      f"run: {{output: {lab.folder / 'runs' / name}}}\n")
    for kind, of_store, code in [("same", tokens, 0), ("named", [*tokens[:-2], "<call>", "</call>"], 0),
                                 ("other", tokens[1:] + tokens[:1], 65)]:
        store = lab.make_store(f"{name}-{kind}", 40, 3)
        write_tokenizer(store / "tokenizer", of_store)
        found, _, err = lab.finish(lab.start(name, f"{place}={store}", command="plan", config=config))
        assert found == code, err
        assert (": 2 of 512 ids mean other tokens" in err) == (kind == "named"), err
    assert (f'token store {store} was made with another tokenizer than that of {model}: 512 of 512 ids mean other '
            'tokens (id 0: "token 1", to the model "token 0")') in err
    found, _, err = lab.finish(lab.start(name, f"{place}={store}", config=config))
    assert found == 65 and "was made with another tokenizer" in err


def test_an_export_with_tokens_that_have_no_row_says_so(lab):
    run = lab.run("exported", "run.max_steps=1")
    for more in (0, 3):
        tokenizer = lab.folder / f"tokenizer-{more}"
        write_tokenizer(tokenizer, [f"token {number}" for number in range(512 + more)])
        done = subprocess.run([PROGRAM, "export", str(run), "--out", str(lab.folder / f"export-{more}"), "--tokenizer",
                               str(tokenizer)], check=True, capture_output=True, text=True)
        warning = f"{tokenizer}: the tokenizer has {512 + more} tokens, the model 512: the last {more} have no row"
        assert (warning in done.stderr) == (more > 0), done.stderr


@pytest.mark.parametrize("ranks", [1, 2])
def test_training_warns_once_of_validation_examples_that_are_trained(lab, ranks):
    from safetensors.numpy import load_file

    trained = load_file(lab.train_store / "part-00000.safetensors")
    begin, end = trained["offsets"][5:7]
    lines = lab.folder / f"part-of-validation-{ranks}.jsonl"
    lines.write_text(json.dumps({"input_ids": trained["input_ids"][begin:end].tolist()}) + "\n"
                     + json.dumps({"input_ids": [1, 2, 3]}) + "\n")
    store = lab.folder / f"part-of-validation-{ranks}"
    subprocess.run([PROGRAM, "prepare", "--pretokenized", str(lines), "--vocab-size", "512", "--out", str(store)],
                   check=True, capture_output=True)
    code, out, err = lab.finish(lab.start(f"overlap-{ranks}", f"data.validation={{own: {lab.validation_store}, part: {store}}}",
                                          "run.max_steps=1", ranks=ranks))
    assert code == 0, err
    said = f"data.validation.part is training data in part: 1 of 2 examples of {store} are in data.train"
    assert (out + err).count(said) == 1 and "data.validation.own" not in out + err


def test_training_names_examples_that_are_cut_to_nothing(lab):
    lines = lab.folder / "late.jsonl"
    ids = list(range(100))
    lines.write_text("".join(json.dumps({"input_ids": ids, "labels": labels}) + "\n"
                             for labels in ([-100] * 99 + ids[99:], ids)))
    store = lab.folder / "late"
    subprocess.run([PROGRAM, "prepare", "--pretokenized", str(lines), "--vocab-size", "512", "--out", str(store)],
                   check=True, capture_output=True)
    settings = [f"data.train={store}", "data.max_length=50", "data.too_long=truncate"]
    code, out, err = lab.finish(lab.start("late", *settings))
    said = "1 of 2 examples are cut at data.max_length = 50 before anything that is learned, and left out"
    assert code == 0 and said in out + err and "Raise data.max_length" in out + err, err
    plan = json.loads((lab.folder / "runs" / "late" / "plan.json").read_text())
    assert plan["cut_to_nothing_examples"] == 1 and plan["masked_examples"] == 0
