"""Tests what an export holds in addition to weights: end tokens, chat template, and the checkpoint that it is of."""

import json
import shutil

import program
import pytest
import torch
from comparison import tensors_of
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, PreTrainedTokenizerFast

TEXTS = [f"the kettle counts {word} spoons before dawn." for word in ("seven", "two", "blue", "no") * 8]
TEMPLATE = ("{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>' + '\\n' }}"
            "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
END, TURN_END = 0, 2


def save_tokenizer(folder, texts, template=TEMPLATE):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=320, special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>", chat_template=template)
    fast.save_pretrained(folder)
    return len(fast)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A base model that ends at <|endoftext|>, trained on a chat whose turns end in <|im_end|>."""
    folder = tmp_path_factory.mktemp("chat")
    num_tokens = save_tokenizer(folder / "base", TEXTS)
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(LlamaConfig(
        vocab_size=num_tokens, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
        bos_token_id=END, eos_token_id=END)).save_pretrained(folder / "base")
    (folder / "base/generation_config.json").write_text(json.dumps({"bos_token_id": END, "eos_token_id": END}))
    with open(folder / "chat.jsonl", "w") as file:
        for text in TEXTS:
            turns = [{"role": "user", "content": "Say: " + text}, {"role": "assistant", "content": text}]
            file.write(json.dumps({"messages": turns}) + "\n")
    program.finished("prepare", folder / "chat.jsonl", "--tokenizer", folder / "base", "--out", folder / "store")
    config = program.write_config(folder / "run.yaml", model=folder / "base", output=folder / "run",
                                  train=folder / "store", validation=folder / "store")
    program.finished("train", config, "run.max_steps=2")
    return folder


def export(folder, out, *words):
    program.finished("export", folder / "run", "--out", out, *words)
    return {name: json.loads((out / name).read_text()) if (out / name).exists() else None
            for name in ("config.json", "generation_config.json")}


def test_the_end_token_of_the_data_is_added_to_the_models(trained, tmp_path):
    files = export(trained, tmp_path / "out", "--tokenizer", trained / "base")
    for name, document in files.items():
        assert document["eos_token_id"] == [END, TURN_END], name
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert model.generation_config.eos_token_id == [END, TURN_END]


def test_without_a_tokenizer_config_json_names_the_end_token(trained, tmp_path):
    assert export(trained, tmp_path / "out")["config.json"]["eos_token_id"] == [END, TURN_END]


def test_an_end_token_that_the_model_names_is_not_written_twice(trained, tmp_path):
    base = shutil.copytree(trained / "base", tmp_path / "base")
    (base / "generation_config.json").write_text(json.dumps({"eos_token_id": [TURN_END, END]}))
    files = export(trained, tmp_path / "out", "--tokenizer", base)
    assert files["generation_config.json"]["eos_token_id"] == [TURN_END, END]


def test_the_template_that_the_data_was_written_with_is_exported(trained, tmp_path):
    save_tokenizer(tmp_path / "bare", TEXTS, template=None)
    export(trained, tmp_path / "out", "--tokenizer", tmp_path / "bare")
    assert AutoTokenizer.from_pretrained(tmp_path / "out").chat_template == TEMPLATE


def test_a_tokenizer_that_is_not_the_datas_is_refused_until_asked_for(trained, tmp_path):
    save_tokenizer(tmp_path / "other", ["zebra vortex xylophone winter fjord gnome"] * 20)
    words = ["export", trained / "run", "--out", tmp_path / "out", "--tokenizer", tmp_path / "other"]
    code, _, err = program.packtrain(*words)
    assert code == 65, err
    assert "another tokenizer" in err and "--other-tokenizer" in err and str(trained / "store/tokenizer") in err
    assert not (tmp_path / "out").exists()
    program.finished(*words, "--other-tokenizer")


def test_a_run_whose_store_is_gone_is_exported_with_a_warning(trained, tmp_path):
    moved = shutil.copytree(trained, tmp_path / "moved")
    (trained / "store").rename(trained / "away")
    try:
        code, _, err = program.packtrain("export", moved / "run", "--out", tmp_path / "out")
    finally:
        (trained / "away").rename(trained / "store")
    assert code == 0 and "store is not there" in err, err
    assert json.loads((tmp_path / "out/config.json").read_text())["eos_token_id"] == END


@pytest.fixture
def judged(trained, tmp_path):
    """A run whose best checkpoint is its first: the losses are changed in the manifests."""
    run = tmp_path / "run"
    program.finished("train", trained / "run.yaml", f"run.output={run}", "run.max_steps=2", "checkpoint.save_steps=1")
    for step, loss in ((1, 1.5), (2, 2.5)):
        file = run / f"checkpoints/step-{step}/manifest.json"
        manifest = json.loads(file.read_text())
        manifest["state"]["validation_loss"] = loss
        file.write_text(json.dumps(manifest))
    return run


def test_best_exports_the_checkpoint_of_the_lowest_validation_loss(judged, tmp_path):
    out = program.finished("export", judged, "--best", "--out", tmp_path / "best")
    assert "step 1 of" in out


def test_export_says_which_is_the_newest_and_which_the_best(judged, tmp_path):
    code, out, err = program.packtrain("export", judged, "--out", tmp_path / "newest")
    assert code == 0 and "step 2 of" in out
    assert "step 2 is the newest" in err and "step 1 the best" in err and "--best" in err


def test_best_of_a_run_without_losses_is_refused(trained, judged, tmp_path):
    for file in judged.glob("checkpoints/*/manifest.json"):
        manifest = json.loads(file.read_text())
        del manifest["state"]["validation_loss"]
        file.write_text(json.dumps(manifest))
    code, _, err = program.packtrain("export", judged, "--best", "--out", tmp_path / "out")
    assert code == 66 and "has a validation loss" in err, err


def test_check_of_a_store_that_is_not_there_keeps_what_was_written(trained, tmp_path):
    code, _, err = program.packtrain("export", trained / "run", "--out", tmp_path / "out", "--check", tmp_path / "none")
    assert code == 65 and str(tmp_path / "none") in err, err
    assert (tmp_path / "out/config.json").exists()


def evaluated(trained, *words):
    return json.loads(program.finished("evaluate", trained / "run.yaml", "--json", *words))["loss"]


def dtypes_of(folder):
    return {tensor.dtype for tensor in tensors_of(folder).values()}


@pytest.mark.parametrize("compute, dtype", [("fp32", torch.float32), ("bf16", torch.bfloat16)])
def test_an_export_has_the_dtype_that_the_run_computed_in(trained, tmp_path, compute, dtype):
    program.finished("train", trained / "run.yaml", f"run.output={tmp_path / 'run'}", f"precision.compute={compute}")
    program.finished("export", tmp_path / "run", "--out", tmp_path / "out")
    assert dtypes_of(tmp_path / "out") == {dtype}
    assert json.loads((tmp_path / "out/config.json").read_text())["dtype"] == str(dtype).removeprefix("torch.")
    other = {"fp32": "bfloat16", "bf16": "float32"}[compute]
    program.finished("export", tmp_path / "run", "--out", tmp_path / "other", "--dtype", other)
    assert dtypes_of(tmp_path / "other") == {getattr(torch, other)}


def test_a_training_that_bfloat16_rounds_away_is_named_with_its_share(trained, tmp_path):
    AutoModelForCausalLM.from_pretrained(trained / "base", dtype=torch.bfloat16).save_pretrained(tmp_path / "base")
    run = tmp_path / "run"
    program.finished("train", trained / "run.yaml", f"model.path={tmp_path / 'base'}", f"run.output={run}",
                     "optimizer.learning_rate=1e-5", "run.max_steps=2")
    code, _, err = program.packtrain("export", run, "--out", tmp_path / "out", "--dtype", "bfloat16")
    assert code == 0 and "--dtype float32 keeps it" in err, err
    told = int(err.split("bfloat16 rounds away ")[1].split(" %")[0])
    program.finished("export", run, "--out", tmp_path / "exact")
    start, exact, rounded = (tensors_of(folder) for folder in (tmp_path / "base", tmp_path / "exact", tmp_path / "out"))
    errors = sum(((rounded[name].double() - exact[name].double())[exact[name] != start[name].float()] ** 2).sum()
                 for name in exact)
    changes = sum(((exact[name].double() - start[name].double()) ** 2).sum() for name in exact)
    assert told == pytest.approx(100 * (errors / changes).sqrt().item(), abs=0.6) and told > 50


def test_a_training_that_bfloat16_keeps_is_exported_without_a_warning(trained, tmp_path):
    AutoModelForCausalLM.from_pretrained(trained / "base", dtype=torch.bfloat16).save_pretrained(tmp_path / "base")
    run = tmp_path / "run"
    words = ["export", run, "--out", tmp_path / "out", "--dtype", "bfloat16"]
    program.finished("train", trained / "run.yaml", f"model.path={tmp_path / 'base'}", f"run.output={run}",
                     "optimizer.learning_rate=0.1")
    _, _, err = program.packtrain(*words)
    assert "rounds away" not in err
    shutil.rmtree(tmp_path / "out")
    (tmp_path / "base").rename(tmp_path / "away")
    _, _, err = program.packtrain(*words)
    assert "rounds away of the training is not known" in err and str(tmp_path / "base") in err, err


def test_check_prints_the_loss_of_the_export_next_to_that_of_the_run(trained, tmp_path):
    own = evaluated(trained)
    words = ["export", trained / "run", "--check", trained / "store"]
    out = program.finished(*words, "--out", tmp_path / "out")
    assert f"loss {own:.6f} on {trained / 'store'} ({len(TEXTS)} examples)" in out
    assert f"the run's own evaluation of step 2: {own:.6f} on its data.validation" in out
    out = program.finished(*words, "--out", tmp_path / "rounded", "--dtype", "bfloat16")
    rounded = evaluated(trained, f"model.path={tmp_path / 'rounded'}")
    assert rounded != own and f"loss {rounded:.6f} on" in out


def test_check_of_a_loss_that_is_not_finite_ends_with_an_error_code(trained, tmp_path):
    base = shutil.copytree(trained / "base", tmp_path / "base")
    tensors = tensors_of(base)
    tensors["lm_head.weight"] = torch.full_like(tensors["lm_head.weight"], 3e38)
    save_file(tensors, base / "model.safetensors", metadata={"format": "pt"})
    program.finished("train", trained / "run.yaml", f"model.path={base}", f"run.output={tmp_path / 'run'}",
                     "guard.non_finite=skip", "data.validation=null")
    code, _, err = program.packtrain("export", tmp_path / "run", "--out", tmp_path / "out", "--check",
                                     trained / "store")
    assert code == 71 and "is not finite" in err, err
