"""`packtrain import`: configurations of axolotl, LLaMA-Factory and TRL, with the result for each key."""

import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest
import yaml
from tiny_model import PROGRAM, environment, in_process

import import_config  # on the path by tiny_model
from packtrain_tools.importing.keys import leaves
from packtrain_tools.prepare.arguments import make_parser

CASES = pathlib.Path(__file__).resolve().parent / "import_cases"
FILES = sorted(path.name for path in CASES.iterdir() if path.suffix in (".yml", ".yaml", ".json"))



def run(*words, cwd=CASES, code=0, checked=False):
    """`checked`: the program checks the result."""
    return in_process(import_config, [*([f"--program={PROGRAM}"] if checked else []), *words], cwd, code)


def listed(file, *words, cwd=CASES):
    return json.loads(run(file, "--json", *words, cwd=cwd).stderr)


def write(folder, text, name="config.yaml"):
    (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return name


def axolotl(folder, more=""):
    return write(folder, f"base_model: ./m\ndatasets: [{{path: ./d.jsonl, type: completion}}]\nlearning_rate: 1e-4\n{more}")


def test_there_are_twenty_cases_of_three_kinds():
    assert len(FILES) >= 20
    assert {name.split("-")[0] for name in FILES} == {"axolotl", "factory", "trl"}


@pytest.mark.parametrize("file", FILES)
def test_a_case_has_its_expected_list_and_configuration(file, tmp_path):
    shown = run(file, "--out", tmp_path / "CONFIG", checked=True)
    text = shown.stdout.replace(str(tmp_path / "CONFIG"), "CONFIG") + "---\n" + (tmp_path / "CONFIG").read_text()
    expected = CASES / "expected" / f"{file}.txt"
    if os.environ.get("PACKTRAIN_RECORD"):
        expected.write_text(text)
    assert text == expected.read_text()


@pytest.mark.parametrize("file", FILES)
def test_each_key_of_a_case_is_carried_or_listed(file):
    result = listed(file)
    named = {key for one in result["carried"] for key in one["keys"]} | {one["key"] for one in result["not_carried"]}
    text = (CASES / file).read_text()
    for key, _ in leaves(json.loads(text) if file.endswith(".json") else yaml.safe_load(text)):
        assert any(key == one or key.startswith((f"{one}.", f"{one}[")) for one in named), key


@pytest.mark.parametrize("file", FILES)
def test_every_setting_of_a_case_is_in_the_list(file):
    result = listed(file)
    assert {one["to"] for one in result["carried"]} >= {
        f"{section}.{key}" for section, values in result["settings"].items() for key in values}


@pytest.mark.parametrize("file", FILES)
def test_the_prepare_commands_of_a_case_are_commands_of_prepare(file):
    for words in listed(file)["commands"]:
        if words[:2] != ["packtrain", "prepare"] or "--pretokenized" in words:
            continue
        assert make_parser("prepare").parse_args(words[2:]).sources  # a usage error ends the test


def test_the_program_starts_it(tmp_path):
    done = subprocess.run([PROGRAM, "import", axolotl(tmp_path), "--out", "out.yaml"], cwd=tmp_path, capture_output=True,
                          text=True, check=False, env=environment(), timeout=120)
    assert done.returncode == 0, done.stderr
    assert "base_model -> model.path: ./m" in done.stdout and (tmp_path / "out.yaml").exists()


def test_ranks_multiply_the_batch_of_one(tmp_path):
    file = axolotl(tmp_path, "micro_batch_size: 2\ngradient_accumulation_steps: 3\n")
    assert listed(file, "--ranks", 8, cwd=tmp_path)["settings"]["batch"]["global_batch_size"] == 48


def test_a_product_of_batch_and_accumulation_is_divided(tmp_path):
    file = axolotl(tmp_path, "micro_batch_size: 2\nbatch_size: 8\n")
    assert listed(file, cwd=tmp_path)["settings"]["batch"]["global_batch_size"] == 8


def test_no_evaluation_an_epoch_is_none_before_the_end(tmp_path):
    file = axolotl(tmp_path, "val_set_size: 0.1\nevals_per_epoch: 0\nsaves_per_epoch: 0\n")
    result = listed(file, cwd=tmp_path)["settings"]
    assert result["run"]["evaluate_steps"] == 0 and result["checkpoint"]["save_steps"] == 0


def test_8_bit_products_are_those_of_all_linear_layers(tmp_path):
    file = axolotl(tmp_path, "bf16: true\nfp8: true\nfp8_enable_fsdp_float8_all_gather: true\n")
    result = listed(file, cwd=tmp_path)
    assert result["settings"]["precision"] == {"compute": "bf16", "linear": "fp8_tensor", "weight_gradient": "fp8"}
    assert not any(one["matters"] for one in result["not_carried"] if one["key"].startswith("fp8"))
    run(file, "--out", tmp_path / "out.yaml", cwd=tmp_path, checked=True)


def test_8_bit_products_under_an_adapter_are_those_of_frozen_weights(tmp_path):
    result = listed(axolotl(tmp_path, "adapter: lora\nlora_r: 8\nlora_target_linear: true\nfp8: true\n"), cwd=tmp_path)
    assert result["settings"]["precision"]["linear"] == "fp8_tensor"
    assert "weight_gradient" not in result["settings"]["precision"]


def test_muon_is_muon(tmp_path):
    result = listed(axolotl(tmp_path, "optimizer: muon\n"), cwd=tmp_path)
    assert result["settings"]["optimizer"]["name"] == "muon"


def test_with_packing_a_step_has_the_tokens_of_its_packed_sequences(tmp_path):
    file = axolotl(tmp_path, "micro_batch_size: 2\nsequence_len: 512\nsample_packing: true\n")
    result = listed(file, "--ranks", 4, cwd=tmp_path)["settings"]
    assert result["batch"] == {"strategy": "multipack", "global_batch_size": 8, "max_tokens_per_micro_batch": 1024}
    assert result["data"]["max_length"] == 512  # global_batch_size counts rows of it


def test_a_number_that_yaml_reads_as_text_is_a_number(tmp_path):
    assert listed(axolotl(tmp_path), cwd=tmp_path)["settings"]["optimizer"]["learning_rate"] == 1e-4


def test_without_out_the_configuration_alone_is_on_standard_output(tmp_path):
    shown = run(axolotl(tmp_path), cwd=tmp_path)
    assert yaml.safe_load(shown.stdout)["model"] == {"path": "./m"}
    assert "Carried from axolotl" in shown.stderr


def test_an_existing_file_is_kept_unless_it_may_be_replaced(tmp_path):
    file = axolotl(tmp_path)
    write(tmp_path, "mine", "out.yaml")
    assert "exists" in run(file, "--out", "out.yaml", cwd=tmp_path, code=64).stderr
    assert (tmp_path / "out.yaml").read_text() == "mine"
    run(file, "--out", "out.yaml", "--overwrite", cwd=tmp_path)
    assert (tmp_path / "out.yaml").read_text() != "mine"


def test_a_kind_can_be_forced(tmp_path):
    file = write(tmp_path, "model_name_or_path: ./m\nlearning_rate: 1e-4\n")
    assert "--from axolotl|llama-factory|trl" in run(file, cwd=tmp_path, code=64).stderr
    assert listed(file, "--from", "trl", cwd=tmp_path)["kind"] == "TRL"


def test_a_result_that_is_not_valid_is_written_and_named(tmp_path):
    file = axolotl(tmp_path, "adapter: lora\nlora_dropout: 0.5\npeft_init_lora_weights: loftq\n")
    said = run(file, "--out", "out.yaml", cwd=tmp_path, code=64, checked=True).stderr
    assert "not a configuration yet" in said and "adapter.init" in said
    assert (tmp_path / "out.yaml").exists()


@pytest.mark.parametrize("text, word", [
    ("base_model: m\nrl: dpo\nlearning_rate: 1\n", "rl"),
    ("model_name_or_path: m\nstage: dpo\ndataset: d\n", "stage"),
    ("model_name_or_path: m\ndataset_name: d\nbeta: 0.1\n", "beta"),
])
def test_other_kinds_of_training_are_refused(tmp_path, text, word):
    said = run(write(tmp_path, text), cwd=tmp_path, code=64).stderr
    assert word in said and "only configurations of supervised training" in said and "docs/preferences.md" in said


def test_preference_pairs_of_a_list_of_data_sets_are_refused(tmp_path):
    shutil.copytree(CASES / "lists", tmp_path / "lists")
    file = write(tmp_path, "model_name_or_path: ./m\nstage: sft\ndataset: pairs\ndataset_dir: lists\n")
    assert "preference pairs" in run(file, cwd=tmp_path, code=64).stderr


def test_a_configuration_of_packtrain_is_recognised(tmp_path):
    file = write(tmp_path, "model: {path: m}\nrun: {seed: 1}\n")
    assert "a configuration of packtrain already" in run(file, cwd=tmp_path, code=64).stderr


LAUGHS = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9))


@pytest.mark.parametrize("text, code, what", [
    ("", 65, "got nothing, wanted a mapping"),
    ("- a\n- b\n", 65, "got a list, wanted a mapping"),
    ("just words\n", 65, "got a text, wanted a mapping"),
    ("a: [1, 2\n", 65, ":2:1: is no plain YAML"),
    ("base_model: !!python/object/apply:os.system ['touch hacked']\n", 65, "is no plain YAML"),
    ("base_model: !!binary aGk=\n", 65, "got a value of the kind bytes"),
    ("base_model: m\nlearning_rate: 2024-01-01\n", 65, "got a value of the kind date"),
    ("base_model: m\nbase_model: n\n", 65, "the key 'base_model' is there twice"),
    ("1: 2\n", 65, "got the key '1', wanted a text"),
    ("a: 1\n---\nb: 2\n", 65, "is no plain YAML"),
    (b"base_model: \xff\xfe\n", 65, "is not UTF-8"),
    ("a: " + "[" * 5000, 65, "cannot be parsed"),
    ("a: " + "9" * 5000 + "\n", 65, "cannot be parsed"),
    (LAUGHS, 65, "more than 10,000 values"),
    ("x: y\n", 64, "cannot be seen from its 1 keys"),
    ("base_model: m\nlearning_rate: fast\n", 64, "learning_rate: got 'fast', wanted a number"),
    ("base_model: m\nlearning_rate: [1]\n", 64, "learning_rate: got [1], wanted a number"),
    ("base_model: m\nlearning_rate: .inf\n", 64, "learning_rate: got inf, wanted a number"),
    ("base_model: m\nlearning_rate: -1\n", 64, "learning_rate: got -1, wanted a number"),
    ("base_model: m\nmicro_batch_size: 1" + "0" * 400 + "\n", 64, "micro_batch_size: got 1000"),
    ("base_model: m\nmicro_batch_size: 1.5\n", 64, "micro_batch_size: got 1.5, wanted an integer"),
    ("base_model: m\nmicro_batch_size: 0\n", 64, "micro_batch_size: got 0, wanted an integer from 1"),
    ("base_model: m\nmicro_batch_size: true\n", 64, "micro_batch_size: got True, wanted a number"),
    ("base_model: 7\n", 64, "base_model: got 7, wanted a text"),
    ("base_model: {a: b}\n", 64, "base_model: got {'a': 'b'}, wanted a text"),
    ("base_model: m\nsample_packing: often\n", 64, "sample_packing: got 'often', wanted true or false"),
    ("base_model: m\nseed: 99999999999999999999\n", 64, "seed: got 99999999999999999999"),
    ("base_model: m\ndatasets: 3\n", 64, "datasets: got 3, wanted a list of mappings"),
    ("base_model: m\ndatasets: [a]\n", 64, "datasets: got ['a'], wanted a list of mappings"),
    ("base_model: m\ndatasets: [{type: alpaca}]\n", 64, "datasets[0].path: got None, wanted a file"),
    ("base_model: m\ndeepspeed: 3\n", 64, "deepspeed: got 3"),
    ("base_model: m\nadapter: lora\nlora_target_modules: {a: 1}\n", 64, "lora_target_modules: got {'a': 1}"),
], ids=lambda value: str(value)[:40])
def test_hostile_files_are_refused_in_words(tmp_path, text, code, what):
    done = run(write(tmp_path, text), cwd=tmp_path, code=code)
    assert what in done.stderr and "Traceback" not in done.stderr
    assert done.stdout == "" and not (tmp_path / "hacked").exists()


@pytest.mark.parametrize("text, what", [
    ('{"base_model": "m", "learning_rate": NaN}', "NaN is no number of JSON"),
    ('{"base_model": "m", "base_model": "n"}', "the key 'base_model' is there twice"),
    ("[1]", "got a list"),
    ("{", "cannot be parsed"),
])
def test_hostile_json_is_refused_in_words(tmp_path, text, what):
    assert what in run(write(tmp_path, text, "config.json"), cwd=tmp_path, code=65).stderr


def test_a_file_of_many_bytes_is_not_read(tmp_path):
    file = write(tmp_path, "#" * (1 << 21))
    assert re.search(r"has 2,097,152 bytes, wanted at most 1,048,576", run(file, cwd=tmp_path, code=65).stderr)


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    assert "nowhere.yaml" in run("nowhere.yaml", cwd=tmp_path, code=65).stderr
    assert "is a folder" in run(".", cwd=tmp_path, code=65).stderr
