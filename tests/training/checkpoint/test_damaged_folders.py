"""Damaged Hugging Face folders: the exit code is right and the message names the file and the tensor or key.
No export is left on the disk."""

import json
import shutil

import pytest
import torch
from hf_folders import change_weights, roundtrip, save_llama, tensors_of
from safetensors.torch import save_file

INDEX = "model.safetensors.index.json"


def refuses(folder, code, *parts):
    source = folder / "in"
    before = {file.name for file in source.iterdir()}
    message = roundtrip(source, folder / "out", exit_code=code)
    for part in parts:
        assert part in message
    assert not (folder / "out").exists() and not (folder / "out.tmp").exists()
    assert {file.name for file in source.iterdir()} == before


@pytest.mark.parametrize("change, message", [
    (lambda t: t.pop("model.layers.1.mlp.up_proj.weight"),
     "in: has no tensor 'model.layers.1.mlp.up_proj.weight'"),
    (lambda t: t.update({"model.norm.weight": torch.ones(23)}),
     "model.safetensors: tensor 'model.norm.weight' has shape [23], want [24]"),
    (lambda t: t.update({"model.embed_tokens.weight": torch.ones(24, 96)}),
     "tensor 'model.embed_tokens.weight' has shape [24, 96], want [96, 24]"),
    (lambda t: t.update({"model.adapter.weight": torch.ones(2)}),
     "model.safetensors: tensor 'model.adapter.weight' belongs to no parameter"),
    (lambda t: t.update({"model.norm.weight": torch.ones(24, dtype=torch.int32)}),
     "model.safetensors: tensor 'model.norm.weight' is not float32, float16 or bfloat16"),
    (lambda t: t.update({"model.norm.weight": torch.ones(24, dtype=torch.int8)}),
     "model.safetensors: tensor 'model.norm.weight' has dtype I8, which packtrain does not read"),
    (lambda t: t.update({"model.norm.weight": torch.ones(24).to(torch.float8_e4m3fn)}),
     "model.safetensors: tensor 'model.norm.weight' has dtype F8_E4M3"),
], ids=["missing", "shape", "transposed", "unknown", "int32", "int8", "fp8"])
def test_tensors_that_do_not_fit_are_named(tmp_path, change, message):
    change_weights(save_llama(tmp_path / "in"), change)
    refuses(tmp_path, 66, message)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.float8_e5m2, torch.float64])
def test_what_is_no_type_of_weights_is_not_called_damaged(tmp_path, dtype):
    change_weights(save_llama(tmp_path / "in"),
                   lambda t: t.update({"model.norm.weight": torch.ones(24).to(dtype)}))
    refuses(tmp_path, 66, "Quantized weights cannot be trained: use the unquantized model")


@pytest.mark.parametrize("num_bytes", [0, 5, 100, -1, -1000])
def test_a_truncated_file_is_named(tmp_path, num_bytes):
    source = save_llama(tmp_path / "in", max_shard_size="10KB")
    shard = sorted(source.glob("*.safetensors"))[1]
    content = shard.read_bytes()
    shard.write_bytes(content[:num_bytes])
    refuses(tmp_path, 66, str(shard))


def test_a_pointer_of_git_lfs_is_not_called_damaged(tmp_path):
    source = save_llama(tmp_path / "in", max_shard_size="10KB")
    shard = sorted(source.glob("*.safetensors"))[1]
    shard.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a21\nsize 9000\n")
    refuses(tmp_path, 66, f"{shard}: is a pointer of git-lfs", "git lfs pull")


@pytest.mark.parametrize("change", [lambda head: head + 1, lambda head: head.float()], ids=["values", "type"])
def test_a_stored_head_of_a_tied_model_that_is_not_its_embedding_is_named(tmp_path, change):
    source = save_llama(tmp_path / "in", tie_word_embeddings=True)
    change_weights(source, lambda t: t.update({"lm_head.weight": change(t["model.embed_tokens.weight"])}))
    refuses(tmp_path, 66, "model.safetensors: tensor 'lm_head.weight' is not 'model.embed_tokens.weight'",
            "tie_word_embeddings")


def sharded(folder):
    """A folder of two files, and its index as written."""
    source = save_llama(folder / "in")
    tensors = tensors_of(source)
    (source / "model.safetensors").unlink()
    names = sorted(tensors)
    files = {"a.safetensors": names[:5], "b.safetensors": names[5:]}
    for file, inside in files.items():
        save_file({name: tensors[name] for name in inside}, source / file)
    index = {name: file for file, inside in files.items() for name in inside}
    (source / INDEX).write_text(json.dumps({"weight_map": index}))
    return source, index


@pytest.mark.parametrize("file, message", [
    ("../in/a.safetensors", "'lm_head.weight' is in '../in/a.safetensors'"),
    ("/etc/a.safetensors", "'lm_head.weight' is in '/etc/a.safetensors'"),
    ("..", "'lm_head.weight' is in '..'"),
    ("a.bin", "'lm_head.weight' is in 'a.bin'"),
    ("", "'lm_head.weight' is in ''"),
    (3, "the file of 'lm_head.weight' is no name"),
    ("c.safetensors", "c.safetensors: no such file"),
    ("b.safetensors", f"b.safetensors: has no tensor 'lm_head.weight', which {INDEX} says is in it: it is in "
                      "a.safetensors"),
])
def test_what_an_index_says_wrong_is_named(tmp_path, file, message):
    source, index = sharded(tmp_path)
    assert index["lm_head.weight"] == "a.safetensors"
    (source / INDEX).write_text(json.dumps({"weight_map": {**index, "lm_head.weight": file}}))
    refuses(tmp_path, 66, message, INDEX if "no tensor" not in message else message)


@pytest.mark.parametrize("text, message", [
    ("[]", "no object 'weight_map'"),
    ('{"weight_map": []}', "no object 'weight_map'"),
    ('{"metadata": {}}', "no object 'weight_map'"),
    ("{", "is no valid JSON at its byte 2"),
    ("", "is no valid JSON at its byte 1"),
])
def test_an_index_that_is_none_is_named(tmp_path, text, message):
    source, _ = sharded(tmp_path)
    (source / INDEX).write_text(text)
    refuses(tmp_path, 66, INDEX, message)


def test_a_tensor_that_the_index_forgot_is_one_too_many_or_read(tmp_path):
    source, index = sharded(tmp_path)
    index.pop("lm_head.weight")
    (source / INDEX).write_text(json.dumps({"weight_map": index}))
    roundtrip(source, tmp_path / "out")
    tensors = tensors_of(source)
    save_file({**{name: tensors[name] for name in sorted(tensors)[:5]}, "extra": torch.ones(2)},
              source / "a.safetensors")
    shutil.rmtree(tmp_path / "out")
    refuses(tmp_path, 66, "a.safetensors: tensor 'extra' belongs to no parameter")


def test_of_two_files_with_a_tensor_the_index_says_which_counts(tmp_path):
    source, _ = sharded(tmp_path)
    index = json.loads((source / INDEX).read_text())
    whole = tensors_of(source)
    name = sorted(whole)[0]
    save_file({name: torch.ones_like(whole[name])}, source / "overlay.safetensors")
    index["weight_map"][name] = "overlay.safetensors"
    (source / INDEX).write_text(json.dumps(index))
    roundtrip(source, tmp_path / "out")
    written = tensors_of(tmp_path / "out")
    assert written.keys() == whole.keys()
    for key, tensor in written.items():
        assert torch.equal(tensor, torch.ones_like(tensor) if key == name else whole[key]), key


def test_a_prefix_that_some_tensors_have_is_named_with_their_number(tmp_path):
    source = save_llama(tmp_path / "in")
    mixed = {("module." if "layers" in name else "") + name: tensor for name, tensor in tensors_of(source).items()}
    save_file(mixed, source / "model.safetensors")
    refuses(tmp_path, 66, "but 'module.model.layers.0.", f"18 of its {len(mixed)} tensors begin with 'module.'",
            "what all tensors begin with")


def test_a_prefix_before_names_without_the_models_own_is_named_as_the_cause(tmp_path):
    source = save_llama(tmp_path / "in", tie_word_embeddings=True)
    bare = {"module." + name.removeprefix("model."): tensor for name, tensor in tensors_of(source).items()}
    save_file(bare, source / "model.safetensors")
    refuses(tmp_path, 66, "all its tensors begin with 'module.'", "model.prefix: module.")


@pytest.mark.parametrize("file, message", [
    ("model-00001-of-00002.safetensors", f"Its index is missing: download {INDEX} again"),
    ("pytorch_model.bin", "only pytorch_model.bin"),
    ("adapter_model.safetensors", "It is an adapter: merge it")])
def test_weights_that_are_not_read_are_named(tmp_path, file, message):
    source = save_llama(tmp_path / "in")
    (source / "model.safetensors").rename(source / file)
    refuses(tmp_path, 64, "has neither model.safetensors nor", f"only {file}", message)


@pytest.mark.parametrize("prefix", ["_orig_mod.", "module.", "base_model.model."])
def test_a_prefix_that_all_tensors_have_is_named_as_the_cause(tmp_path, prefix):
    source = save_llama(tmp_path / "in")
    wrapped = {prefix + name: tensor for name, tensor in tensors_of(source).items()}
    save_file(wrapped, source / "model.safetensors")
    refuses(tmp_path, 66, f"all its tensors begin with '{prefix}'", f"model.prefix: {prefix}")


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_a_weight_that_is_not_finite_is_named(tmp_path, value):
    def spoil(tensors):
        tensors["model.norm.weight"][3] = float(value)
    change_weights(save_llama(tmp_path / "in"), spoil)
    refuses(tmp_path, 66, "model.safetensors: tensor 'model.norm.weight' has a weight that is not finite")


def test_links_out_of_the_folder_are_followed_as_caches_have_them(tmp_path):
    source, _ = sharded(tmp_path)
    blobs = tmp_path / "blobs"
    blobs.mkdir()
    for file in list(source.iterdir()):
        file.rename(blobs / file.name)
        file.symlink_to(f"../blobs/{file.name}")
    roundtrip(source, tmp_path / "out")
    assert tensors_of(tmp_path / "out").keys() == tensors_of(source).keys()
    shutil.rmtree(tmp_path / "out")
    (blobs / "b.safetensors").unlink()
    refuses(tmp_path, 66, "b.safetensors: no such file")


def change_config(folder, values):
    """`values` as they are to be written, JSON or not."""
    config = json.loads((folder / "config.json").read_text())
    text = json.dumps({**config, **{key: f"VALUE {key}" for key in values}})
    for key, value in values.items():
        text = text.replace(f'"VALUE {key}"', value)
    (folder / "config.json").write_text(text)


@pytest.mark.parametrize("key, value, message", [
    ("model_type", '"mamba"', "model_type is 'mamba', want one of"),
    ("model_type", "7", "'model_type' is 7, want a string"),
    ("rope_theta", "NaN", "no valid JSON"),
    ("rms_norm_eps", "1e999", "no valid JSON"),
    ("rms_norm_eps", "-1e-5", "'rms_norm_eps'"),
    ("hidden_size", "1e30", "'hidden_size' is 1e+30, want an integer"),
    ("hidden_size", "18446744073709551615", "'hidden_size'"),
    ("num_hidden_layers", "2147483647", "'num_hidden_layers' is 2147483647, want at most 10000"),
    ("num_hidden_layers", "-1", "'num_hidden_layers'"),
    ("mystery_norm", "7", "'mystery_norm' is not one that this model family honours"),
])
def test_a_config_that_makes_no_model_is_named(tmp_path, key, value, message):
    change_config(save_llama(tmp_path / "in"), {key: value})
    refuses(tmp_path, 64, message)


def test_sizes_whose_product_overflows_are_refused(tmp_path):
    sizes = {"hidden_size": "2147483640", "vocab_size": "2147483647"}
    change_config(save_llama(tmp_path / "in"), sizes)
    refuses(tmp_path, 64, "make more parameters than any model has")
