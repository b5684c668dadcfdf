"""`packtrain merge` keeps the data types of the model's files."""

import json
import shutil
import subprocess

import pytest
import torch
from runs import PROGRAM
from safetensors.torch import load_file, save_file

ADAPTER = ["adapter.kind=lora", "adapter.rank=4", "adapter.targets=[q_proj]", "optimizer.learning_rate=1.0e-2"]
F32, BF16, F16 = torch.float32, torch.bfloat16, torch.float16


def packtrain(*words):
    return subprocess.run([PROGRAM, *map(str, words)], check=False, capture_output=True, text=True)


@pytest.fixture(scope="module")
def folders(lab):
    """A float32 model, and the PEFT folder of an adapter of its q_proj."""
    base, peft = lab.folder / "typed-base", lab.folder / "typed-peft"
    done = packtrain("export", lab.run("typed-base", "run.max_steps=1"), "--out", base, "--dtype", "float32")
    assert done.returncode == 0, done.stderr
    run = lab.run("typed-adapter", *ADAPTER, "model.config=null", f"model.path={base}", "run.max_steps=3")
    done = packtrain("export", run, "--out", peft)
    assert done.returncode == 0, done.stderr
    return base, peft


def stored_as(base, folder, type_of, dtype, scale=1.0):
    """A copy of the model whose tensors have the types type_of(name)."""
    shutil.copytree(base, folder)
    tensors = {name: (scale * values).to(type_of(name)) for name, values in load_file(base / "model.safetensors").items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((base / "config.json").read_text())
    for key in ("dtype", "torch_dtype"):
        config.pop(key, None)
    if dtype:
        config["dtype"] = dtype
    (folder / "config.json").write_text(json.dumps(config))
    return tensors


def of_norms(name):
    return F32 if "norm" in name else BF16


@pytest.mark.parametrize("type_of, dtype, written", [
    (lambda name: F16, "float16", "float16"), (lambda name: F32, "float32", "float32"),
    (lambda name: BF16, None, "bfloat16"), (of_norms, "bfloat16", "bfloat16")],
    ids=["float16", "float32", "bfloat16", "mixed"])
def test_unchanged_tensors_keep_their_bytes(folders, tmp_path, type_of, dtype, written):
    base, peft = folders
    before = stored_as(base, tmp_path / "base", type_of, dtype)
    done = packtrain("merge", tmp_path / "base", peft, "--out", tmp_path / "merged")
    assert done.returncode == 0, done.stderr
    after = load_file(tmp_path / "merged" / "model.safetensors")
    assert after.keys() == before.keys()
    for name, values in after.items():
        assert values.dtype == type_of(name), name
        assert torch.equal(values, before[name]) == ("q_proj" not in name), name
    config = json.loads((tmp_path / "merged" / "config.json").read_text())
    assert config["dtype"] == config["torch_dtype"] == written


def test_the_option_still_decides(folders, tmp_path):
    base, peft = folders
    done = packtrain("merge", base, peft, "--out", tmp_path / "merged", "--dtype", "bfloat16")
    assert done.returncode == 0, done.stderr
    assert {values.dtype for values in load_file(tmp_path / "merged" / "model.safetensors").values()} == {BF16}


def test_a_sum_beyond_float16_is_an_error(folders, tmp_path):
    base, peft = folders
    tensors = stored_as(base, tmp_path / "base", lambda name: F16, "float16")
    name = next(name for name in tensors if "q_proj" in name)
    tensors[name] = torch.full_like(tensors[name], torch.finfo(F16).max)
    save_file(tensors, tmp_path / "base" / "model.safetensors", metadata={"format": "pt"})
    enlarged = tmp_path / "peft"
    shutil.copytree(peft, enlarged)
    config = json.loads((enlarged / "adapter_config.json").read_text())
    (enlarged / "adapter_config.json").write_text(json.dumps({**config, "lora_alpha": 10_000_000}))
    done = packtrain("merge", tmp_path / "base", enlarged, "--out", tmp_path / "merged")
    assert done.returncode == 66
    assert name in done.stderr and "--dtype bfloat16 or float32" in done.stderr
    assert not (tmp_path / "merged").exists()
