"""`packtrain push`: uploads and model cards, with a server in place of the hub."""

import json
import shutil

import pytest
import yaml
from fake_hub import serving
from tiny_model import make_model, packtrain

FAST = ["optimizer.learning_rate=1e-2", "run.num_epochs=3", "metrics.serve=false"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """`whole` and `lora`, as `tune` leaves them."""
    folder = tmp_path_factory.mktemp("push")
    make_model(folder / "model")
    texts = [json.dumps({"text": f"The number after {number} is {number + 1}."}) for number in range(80)]
    (folder / "texts.jsonl").write_text("\n".join(texts) + "\n")
    for out, words in (("whole", []), ("lora", ["--lora"])):
        packtrain("tune", folder / "model", folder / "texts.jsonl", "--out", folder / out, *words, *FAST, cwd=folder)
    return folder


def push(folder, *words, hub=None, code=0, **more):
    reached = {"HF_ENDPOINT": hub.address if hub else "http://127.0.0.1:9", "HF_HUB_OFFLINE": "0", "HF_TOKEN": "hf_fake"}
    return packtrain("push", *words, cwd=folder, code=code, **{**reached, **more})


def card_of(text):
    _, metadata, body = text.split("---\n", 2)
    return yaml.safe_load(metadata), body


def test_a_model_is_uploaded_as_one_commit(folder):
    with serving() as hub:
        said = push(folder, "whole/model", "hf:me/tiny", "--private", "--message", "First", hub=hub).stdout
    assert hub.created == [{"name": "tiny", "organization": "me", "visibility": "private"}]
    assert [(commit["path"], commit["summary"]) for commit in hub.commits] == [("/api/models/me/tiny/commit/main", "First")]
    own = {path.name: path.read_bytes() for path in (folder / "whole" / "model").iterdir()}
    assert {path: hub.files[path] for path in own} == own
    assert set(hub.files) - set(own) == {"README.md", "training/config.yaml", "training/curves.svg"}
    assert f"{len(hub.files)} files" in said
    assert hub.tokens == {"Bearer hf_fake"}


def test_the_card_has_data_losses_configuration_and_curves(folder):
    with serving() as hub:
        push(folder, "whole/model", "hf:me/tiny", hub=hub)
    metadata, body = card_of(hub.files["README.md"].decode())
    assert metadata["library_name"] == "transformers" and "packtrain" in metadata["tags"]
    (stores,) = (folder / "whole" / "stores").iterdir()
    for name in ("train", "validation"):
        info = json.loads((stores / name / "store.json").read_text())
        assert f"| {info['num_examples']:,} | {info['num_tokens']:,} |" in body
    lines = [json.loads(line) for line in (folder / "whole/run/metrics.jsonl").read_text().splitlines()]
    for line in lines:
        if "validation_loss" in line:
            assert f"| {line['step']} | {line['validation_loss']:.4f} |" in body
    assert "learning_rate: 0.01" in body and "training/curves.svg" in body
    assert yaml.safe_load(hub.files["training/config.yaml"])["run"]["num_epochs"] == 3
    assert hub.files["training/curves.svg"].startswith(b"<svg")


def test_the_digest_of_the_data_changes_with_the_data(folder, tmp_path):
    shutil.copytree(folder / "whole", tmp_path / "whole")
    config = tmp_path / "whole" / "run" / "config.yaml"
    config.write_text(config.read_text().replace(str(folder / "whole" / "stores"), str(tmp_path / "whole" / "stores")))
    (manifest,) = (tmp_path / "whole" / "stores").glob("*/train/store.json")
    before = push(tmp_path, "whole/model", "hf:me/tiny", "--card-only").stdout
    info = json.loads(manifest.read_text())
    info["shards"][0]["digest"] = "0" * 32
    manifest.write_text(json.dumps(info))
    changed = [line for line in push(tmp_path, "whole/model", "hf:me/tiny", "--card-only").stdout.splitlines()
               if line not in before.splitlines()]
    assert len(changed) == 1 and changed[0].startswith("| training |")
    assert before == push(folder, "whole/model", "hf:me/tiny", "--card-only").stdout


def test_folders_of_the_machine_are_not_uploaded(folder):
    with serving() as hub:
        push(folder, "whole/model", "hf:me/tiny", hub=hub)
        push(folder, "lora/adapter", "hf:me/adapter", "--base", "hf:example/tiny", hub=hub)
    for path, content in hub.files.items():
        assert str(folder.parent).encode() not in content, path


def test_an_adapter_names_its_model_on_the_hub(folder):
    with serving() as hub:
        push(folder, "lora/adapter", "hf:me/adapter", "--base", "hf:example/tiny", hub=hub)
    assert json.loads(hub.files["adapter_config.json"])["base_model_name_or_path"] == "example/tiny"
    metadata, body = card_of(hub.files["README.md"].decode())
    assert (metadata["library_name"], metadata["base_model"], metadata["base_model_relation"]) == ("peft", "example/tiny", "adapter")
    assert 'PeftModel.from_pretrained(model, "me/adapter")' in body
    assert "config.json" not in hub.files


def test_an_adapter_of_an_unknown_model_is_refused(folder):
    with serving() as hub:
        said = push(folder, "lora/adapter", "hf:me/adapter", hub=hub, code=64).stderr
    assert "--base hf:OWNER/NAME" in said and not hub.commits


def test_card_only_uploads_nothing(folder):
    done = push(folder, "lora/adapter", "hf:me/adapter", "--card-only", HF_HUB_OFFLINE="1")
    metadata, body = card_of(done.stdout)
    assert metadata["library_name"] == "peft" and "base_model" not in metadata
    assert "A LoRA adapter of model." in body


def test_a_model_of_the_hubs_cache_is_named_as_on_the_hub(folder, tmp_path):
    cached = tmp_path / "models--example--tiny" / "snapshots" / "abc"
    shutil.copytree(folder / "model", cached)
    packtrain("tune", cached, folder / "texts.jsonl", "--out", tmp_path / "out", "--lora", *FAST, cwd=tmp_path)
    metadata, _ = card_of(push(tmp_path, "out/adapter", "hf:me/adapter", "--card-only").stdout)
    assert metadata["base_model"] == "example/tiny"


def test_a_card_of_ones_own_is_kept(folder, tmp_path):
    shutil.copytree(folder / "whole" / "model", tmp_path / "model")
    (tmp_path / "model" / "README.md").write_text("# Mine\n")
    with serving() as hub:
        said = push(tmp_path, "model", "hf:me/tiny", hub=hub).stderr
    assert hub.files["README.md"] == b"# Mine\n"
    assert push(tmp_path, "model", "hf:me/tiny", "--card-only").stdout == "# Mine\n"
    (tmp_path / "model" / "README.md").write_bytes(b"\xff")
    assert "is not UTF-8" in push(tmp_path, "model", "hf:me/tiny", code=65).stderr
    assert "the card is about no run" in said


def test_pickles_code_and_hidden_files_are_left_out(folder, tmp_path):
    shutil.copytree(folder / "whole" / "model", tmp_path / "model")
    for name in ("pytorch_model.bin", "modeling.py", ".env", "sub/model.safetensors"):
        path = tmp_path / "model" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
    with serving() as hub:
        said = push(tmp_path, "model", "hf:me/tiny", "--run", folder / "whole" / "run", hub=hub).stderr
    assert not {"pytorch_model.bin", "modeling.py", ".env", "sub/model.safetensors"} & set(hub.files)
    assert "not uploaded: .env, modeling.py, pytorch_model.bin, sub/model.safetensors" in said
    assert "## Data" in hub.files["README.md"].decode()


def test_a_branch_is_committed_to(folder):
    with serving() as hub:
        push(folder, "whole/model", "hf:me/tiny@dev", hub=hub)
    assert hub.commits[0]["path"] == "/api/models/me/tiny/commit/dev"


def test_without_a_network_nothing_is_uploaded(folder):
    offline = push(folder, "whole/model", "hf:me/tiny", HF_HUB_OFFLINE="1", code=69).stderr
    assert "HF_HUB_OFFLINE is set" in offline and "--card-only" in offline
    assert "cannot be reached" in push(folder, "whole/model", "hf:me/tiny", code=69).stderr


def test_a_refusal_of_the_hub_says_how_to_log_in(folder):
    with serving(refuses=401) as hub:
        said = push(folder, "whole/model", "hf:me/tiny", hub=hub, code=69).stderr
    assert "the hub answered 401" in said and "hf auth login" in said


@pytest.mark.parametrize("words, code, what", [
    (["nowhere", "hf:me/tiny"], 64, "nowhere: is no folder"),
    (["whole/model", "me/tiny"], 64, "is no name of a model"),
    (["whole/model", "hf:tiny"], 64, "is no name of a model"),
    (["whole/model", "hf:me/tiny", "--base", "tiny"], 64, "is no name of a model"),
    (["whole/run", "hf:me/tiny"], 65, "has no weights"),
    (["whole/model", "hf:me/tiny", "--run", "model"], 64, "model: is no folder of a run"),
    (["whole/model", "hf:me/tiny", "--privat"], 0, ""),  # argparse takes a beginning
    (["whole/model", "hf:me/tiny", "--publik"], 64, "unknown option --publik"),
], ids=lambda value: " ".join(value) if isinstance(value, list) else None)
def test_wrong_calls_are_refused_in_words(folder, words, code, what):
    assert what in push(folder, *words, *(["--card-only"] if code == 0 else []), code=code).stderr
