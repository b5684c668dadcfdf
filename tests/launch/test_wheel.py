"""A wheel installs into an environment that has torch, and works there without the checkout and without MPI."""

import json
import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import venv

import pytest

REPO = pathlib.Path(__file__).resolve().parents[2]
# --build=FOLDER, or --architectures=LIST with commas
OPTION, VALUE = os.environ["PACKTRAIN_WHEEL_OPTIONS"].split("=")
PATIENCE_S = 300

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
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([REPO / "launch" / "wheel", OPTION, VALUE.replace(",", ";"), folder], check=True)
    (path,) = folder.iterdir()
    return path


class Installed:
    """A new environment with the wheel. Its other packages are links to those of this Python, which saves 5 GB."""

    def __init__(self, folder, wheel):
        venv.create(folder, with_pip=False)
        self.bin = folder / "bin"
        self.site = pathlib.Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
        for package in pathlib.Path(sysconfig.get_path("purelib")).iterdir():
            (self.site / package.name).symlink_to(package)
        subprocess.run([sys.executable, "-m", "pip", "--python", self.bin / "python", "install", "--quiet", "--no-index",
                        "--disable-pip-version-check", wheel], check=True)
        self.package = self.site / "packtrain"
        self.folder = folder / "work"
        self.folder.mkdir()

    def run(self, *words, code=0, **variables):
        environment = {"PATH": f"{self.bin}:/usr/bin:/bin", "HOME": str(self.folder), "OMP_NUM_THREADS": "1",
                       "PYTHONDONTWRITEBYTECODE": "1", **variables}
        done = subprocess.run(words, cwd=self.folder, env=environment, capture_output=True, text=True, check=False,
                              timeout=PATIENCE_S)
        assert done.returncode == code, done.stderr
        return done.stdout


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


def test_the_commands_from_a_configuration_to_a_model_card_are_installed(installed, store):
    (installed.folder / "theirs.yaml").write_text("base_model: ./model\nlearning_rate: 1e-4\n"
                                                  "datasets: [{path: ./texts.jsonl, type: completion}]\n")
    installed.run("packtrain", "import", "theirs.yaml", "--out", "ours.yaml")
    assert (installed.folder / "ours.yaml").exists()
    installed.run("packtrain", "train", "config.yaml", "run.output=base")
    installed.run("packtrain", "export", "base", "--out", "hf", "--tokenizer", "tokenizer", "--dtype", "float32")
    installed.run("packtrain", "tune", "hf", "texts.jsonl", "--out", "tuned", "--lora", "run.max_steps=2", "metrics.serve=false")
    said = installed.run("packtrain", "chat", "tuned/run", "--prompt", "The number", "--device", "cpu", "--compare")
    assert said.startswith("--- base\n")
    assert "library_name: peft" in installed.run("packtrain", "push", "tuned/adapter", "hf:me/tiny", "--card-only")


def test_the_launcher_starts_the_installed_program(installed, store):
    installed.run("packtrain-run", "-n", "2", "config.yaml", "run.output=two-ranks")
    assert (installed.folder / "two-ranks" / "metrics.jsonl").exists()
