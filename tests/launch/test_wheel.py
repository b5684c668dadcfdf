"""A wheel installs into an environment that has torch, and works there without the checkout and without MPI."""

import json
import re
import subprocess

import pytest
from installed_wheel import REPO, Installed, build_wheel

CONFIG = """
model:
  config: {model_type: llama, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, num_attention_heads: 2,
           num_key_value_heads: 2, vocab_size: 300, max_position_embeddings: 256, rms_norm_eps: 1.0e-6}
data: {train: store, max_length: 256}
batch: {global_batch_size: 4, max_tokens_per_micro_batch: 256}
precision: {compute: fp32, reduce: fp32}
metrics: {serve: false}
run: {output: run, max_steps: 3}
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return build_wheel(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    return Installed(tmp_path_factory.mktemp("environment"), wheel)


@pytest.fixture(scope="module")
def store(installed):
    lines = [json.dumps({"text": f"The number after {number} is {number + 1}."}) for number in range(40)]
    (installed.folder / "texts.jsonl").write_text("\n".join(lines) + "\n")
    installed.run("python", installed.package / "python" / "train_tokenizer.py", "texts.jsonl", "--vocab-size", "300",
                  "--out", "tokenizer")
    installed.run("packtrain", "prepare", "texts.jsonl", "--tokenizer", "tokenizer", "--out", "store")
    (installed.folder / "config.yaml").write_text(CONFIG)
    return installed.folder / "store"


def test_the_name_of_a_wheel_has_the_platform_that_it_needs(wheel):
    assert re.fullmatch(r"packtrain-[0-9.]+-py3-none-manylinux_2_\d+_x86_64\.whl", wheel.name)


def test_libraries_are_found_below_the_environment_alone(installed):
    dynamic = subprocess.run(["objdump", "-p", installed.package / "bin" / "packtrain"], capture_output=True, text=True,
                             check=True).stdout
    folders = re.search(r"RPATH +(\S+)", dynamic)[1].split(":")
    assert folders and all(folder.startswith("$ORIGIN/") for folder in folders)
    assert str(REPO) not in dynamic


def test_each_library_of_others_comes_with_its_licence(installed):
    libraries = {path.name for path in (installed.package / "lib").iterdir() if path.is_file()}
    assert libraries
    assert {path.name for path in (installed.package / "lib" / "licenses").iterdir()} == {f"{name}.txt" for name in libraries}


def test_one_process_prepares_plans_trains_and_exports_without_mpi(installed, store):
    assert json.loads((store / "store.json").read_text())["num_examples"] == 40
    assert "step" in installed.run("packtrain", "plan", "config.yaml", "--ranks", "2")
    installed.run("packtrain", "train", "config.yaml", PACKTRAIN_MPI_LIBRARY="/nowhere/libmpi.so.40")
    installed.run("packtrain", "export", "run", "--out", "model", "--tokenizer", "tokenizer")
    assert (installed.folder / "model" / "model.safetensors").exists()


TASK = """
task: next_number
dataset_path: json
dataset_kwargs: {data_files: {test: questions.jsonl}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{asked}}"
doc_to_choice: "{{answers}}"
doc_to_target: right
target_delimiter: ""
metric_list: [{metric: acc}]
"""
OFFLINE = {"HF_HUB_OFFLINE": "1", "HTTP_PROXY": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9"}
CHECK = """
import json, peft, torch, transformers
base = transformers.AutoModelForCausalLM.from_pretrained("hf", dtype=torch.float32)
merged = transformers.AutoModelForCausalLM.from_pretrained("merged", dtype=torch.float32)
tokens = transformers.AutoTokenizer.from_pretrained("merged")("The number after 7 is", return_tensors="pt")
with torch.no_grad():
    before = base(**tokens).logits
    adapted = peft.PeftModel.from_pretrained(base, "tuned/adapter")(**tokens).logits
    print(json.dumps([float((merged(**tokens).logits - adapted).abs().max()), float((adapted - before).abs().max())]))
"""


def test_a_model_is_tuned_asked_scored_exported_and_loaded_without_a_network(installed, store):
    """The README's first commands, on a model that is made here."""
    run = lambda *words: installed.run(*words, **OFFLINE)  # noqa: E731
    run("packtrain", "train", "config.yaml", "run.output=base")
    run("packtrain", "export", "base", "--out", "hf", "--tokenizer", "tokenizer", "--dtype", "float32")
    said = run("packtrain", "tune", "hf", "texts.jsonl", "--out", "tuned", "--lora", "run.num_epochs=2",
               "optimizer.learning_rate=1e-2", "metrics.serve=false")
    before, after = map(float, re.search(r"validation loss: ([\d.]+) before, ([\d.]+) after", said).groups())
    assert after < before
    assert run("packtrain", "chat", "tuned/run", "--prompt", "The number", "--device", "cpu", "--compare").startswith("--- base\n")
    questions = [{"asked": f"The number after {number} is", "answers": [f" {number + 1}.", " green."], "right": 0}
                 for number in range(8)]
    (installed.folder / "questions.jsonl").write_text("\n".join(map(json.dumps, questions)) + "\n")
    (installed.folder / "tasks").mkdir()
    (installed.folder / "tasks" / "next_number.yaml").write_text(TASK)
    run("packtrain", "score", "tuned/run", "--best", "--tasks", "next_number", "--include-path", "tasks", "--out", "scores.json")
    assert json.loads((installed.folder / "scores.json").read_text())["results"]["next_number"]["acc,none"] > 0.5
    run("packtrain", "merge", "hf", "tuned/adapter", "--out", "merged", "--dtype", "float32")
    difference, learned = json.loads(run("python", "-c", CHECK).splitlines()[-1])
    assert difference < 1e-4 < learned
    assert "library_name: peft" in run("packtrain", "push", "tuned/adapter", "hf:me/tiny", "--card-only")


def test_a_configuration_of_another_trainer_becomes_one_that_is_accepted(installed, store):
    (installed.folder / "theirs.yaml").write_text("base_model: ./model\nlearning_rate: 1e-4\n"
                                                  "datasets: [{path: ./texts.jsonl, type: completion}]\n")
    installed.run("packtrain", "import", "theirs.yaml", "--out", "ours.yaml")
    assert (installed.folder / "ours.yaml").exists()
    installed.run("packtrain", "config", "ours.yaml")


def test_plans_and_strategies_are_in_the_package(installed, store):
    installed.run("python", "-m", "packtrain.strategies.karmarkar_karp", "--store", "store", "--ranks", "2", "--max-tokens", "256",
                  "--out", "kk.jsonl")
    installed.run("packtrain", "plan", "config.yaml", "--ranks", "2", "batch.strategy=file", "batch.plan_file=kk.jsonl")


def test_the_launcher_starts_the_installed_program(installed, store):
    installed.run("packtrain-run", "-n", "2", "config.yaml", "run.output=two-ranks")
    assert (installed.folder / "two-ranks" / "metrics.jsonl").exists()
