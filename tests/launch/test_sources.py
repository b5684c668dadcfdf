"""Models and data sets of the hub, and data that is no token store, in a configuration."""

import contextlib
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import pytest
from tiny_model import PROGRAM, REPO, environment, hub_with, make_model, packtrain, write_conversations

from packtrain_tools.prepared import files_of, prepared_folder  # on the path by tiny_model

CONFIG = """
model: {{path: {model}}}
data: {{train: {train}, validation: {validation}, max_length: 64{more}}}
batch: {{global_batch_size: 8, max_tokens_per_micro_batch: 512}}
precision: {{compute: fp32, reduce: fp32}}
metrics: {{serve: false}}
run: {{output: {output}, max_steps: 3, evaluate_at_start: true}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sources")
    make_model(folder / "model")
    write_conversations(folder / "chats.jsonl")
    write_conversations(folder / "held-out.jsonl", times=1)
    for name in ("train", "validation"):
        (folder / "example" / "chats").mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / "chats.jsonl", folder / "example" / "chats" / f"{name}.jsonl")
    for source, store in (("chats.jsonl", "store"), ("held-out.jsonl", "held-out")):
        packtrain("prepare", source, "--tokenizer", "model", "--out", store, cwd=folder)
    write(folder, "stores", train="store", validation="held-out")
    packtrain("train", "stores.yaml", cwd=folder)
    return folder


def write(folder, name, model="model", train="chats.jsonl", validation="held-out.jsonl", more=""):
    (folder / f"{name}.yaml").write_text(CONFIG.format(model=model, train=train, validation=validation, more=more,
                                                       output=name))
    return f"{name}.yaml"


def losses(folder, name):
    lines = map(json.loads, (folder / name / "metrics.jsonl").read_text().splitlines())
    return [line.get("loss", line.get("validation_loss")) for line in lines if "loss" in line or "validation_loss" in line]


def stores_of(folder, name):
    return sorted(path.parent for path in (folder / name / "stores").glob("*/*/store.json"))


@pytest.fixture
def hub(folder, tmp_path):
    return hub_with(folder / "model", tmp_path)


def test_files_train_as_their_stores_do(folder):
    said = packtrain("train", write(folder, "files"), cwd=folder).stderr
    assert said.count("making a token store of") == 2
    assert losses(folder, "files") == losses(folder, "stores") and len(losses(folder, "stores")) >= 4


def test_a_store_is_made_once_for_the_same_data(folder):
    packtrain("plan", write(folder, "once"), cwd=folder)
    made = {path: (path / "store.json").stat().st_mtime_ns for path in stores_of(folder, "once")}
    said = packtrain("train", "once.yaml", cwd=folder).stderr
    assert len(made) == 2 and "making a token store" not in said
    assert made == {path: (path / "store.json").stat().st_mtime_ns for path in stores_of(folder, "once")}


@pytest.mark.parametrize("options", [["--chat-template", "{}"], ["--chat-template={}"]])
def test_a_changed_file_of_an_option_is_another_store(folder, tmp_path, options):
    template = tmp_path / "chat.jinja"
    options = [option.format(template) for option in options]

    def place():
        return prepared_folder(files_of([str(folder / "chats.jsonl")]), str(folder / "model"), options, "stores")

    template.write_text("a")
    first = place()
    assert place() == first
    template.write_text("b")
    assert place() != first


def test_two_ranks_train_on_files(folder):
    launcher = [sys.executable, REPO / "launch" / "packtrain-run", "-n", "2", "--program", PROGRAM]
    done = subprocess.run([*map(str, launcher), write(folder, "two")], cwd=folder, capture_output=True, text=True,
                          check=False, env=environment(), timeout=300)
    assert done.returncode == 0, done.stderr
    assert losses(folder, "two") == pytest.approx(losses(folder, "stores"), rel=1e-5)
    assert len(stores_of(folder, "two")) == 2


def test_a_model_of_the_hub_trains_as_its_folder_does(folder, hub):
    packtrain("train", write(folder, "of-hub", model="hf:example/tiny"), cwd=folder, **hub)
    assert losses(folder, "of-hub") == losses(folder, "stores")


def test_a_data_set_of_the_hub_is_prepared(folder, tmp_path):
    config = write(folder, "set", train="hf:example/chats", validation="'hf:example/chats:validation'")
    packtrain("plan", config, cwd=folder, HF_HOME=str(tmp_path))
    assert len(stores_of(folder, "set")) == 2


@pytest.mark.parametrize("command", ["verify", "evaluate"])
def test_other_commands_take_the_same_names(folder, hub, command):
    name = f"of-{command}"
    packtrain(command, write(folder, name, model="hf:example/tiny"), *(["model.path=hf:example/tiny"] * (command == "evaluate")),
              cwd=folder, **hub)
    assert len(stores_of(folder, name)) == 2


def test_a_plan_of_memory_prepares_no_data(folder, hub):
    packtrain("plan", write(folder, "memory", model="hf:example/tiny"), "--memory", cwd=folder, **hub)
    assert not (folder / "memory").exists()


def test_options_of_prepare_and_the_folder_of_stores_are_keys(folder):
    more = ", prepared_path: shared, prepare_options: [--train-on, all]"
    packtrain("plan", write(folder, "options", more=more), cwd=folder)
    infos = [json.loads(path.read_text()) for path in (folder / "shared").glob("*/*/store.json")]
    plain = json.loads((folder / "store" / "store.json").read_text())
    largest = max(infos, key=lambda info: info["num_examples"])
    assert largest["num_examples"] == plain["num_examples"]
    assert largest["num_loss_tokens"] > plain["num_loss_tokens"]


def commands_with(text):
    """Of running processes."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            line = path.read_bytes().decode(errors="replace")
            if text in line:
                found.append(line)
    return found


def test_ctrl_c_ends_the_preparation_too(folder):
    lines = (folder / "chats.jsonl").read_text()
    (folder / "many-chats.jsonl").write_text(lines * 8000)
    config = write(folder, "stopped", train="many-chats.jsonl")
    with subprocess.Popen([PROGRAM, "train", config], cwd=folder, env=environment(), stderr=subprocess.DEVNULL) as command:
        deadline = time.monotonic() + 60
        while not any("prepare.py" in line for line in commands_with("many-chats")):
            assert time.monotonic() < deadline and command.poll() is None
            time.sleep(0.1)
        command.send_signal(signal.SIGINT)
        assert command.wait(60) != 0
    deadline = time.monotonic() + 60
    while commands_with("many-chats"):
        assert time.monotonic() < deadline, commands_with("many-chats")
        time.sleep(0.1)


@pytest.mark.parametrize("changes, code, what", [
    ({"model": "hf:example/other"}, 65, "hf:example/other: cannot be loaded"),
    ({"train": "bad.jsonl"}, 65, "prepare ended with 65"),
    ({"train": "empty"}, 65, "empty"),
    ({"more": ", prepare_options: [--out, x]"}, 64, "data.prepare_options has --out"),
    ({"model": "null"}, 64, "chats.jsonl is no token store, and without model.path"),
])
def test_what_cannot_be_used_is_named(folder, hub, changes, code, what):
    (folder / "bad.jsonl").write_text("no json\n")
    pathlib.Path(folder / "empty").mkdir(exist_ok=True)
    said = packtrain("train", write(folder, "refused", **changes), cwd=folder, code=code, **hub).stderr
    assert what in said and "Traceback" not in said
