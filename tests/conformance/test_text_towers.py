"""Tests the text model of a multimodal folder. Training changes the text model alone, and an export
keeps the other parts as they were."""

import json
import shutil

import program
import pytest
import torch
import transformers
from comparison import tensors_of
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText
import itertools

SIZES = {"vocab_size": 96, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "pad_token_id": 0,
         "max_position_embeddings": 256}
TOWER = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
PICTURES = {"image_size": 28, "patch_size": 14}
GATED = {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 6, "linear_value_head_dim": 8,
         "layer_types": ["linear_attention", "full_attention"],
         "rope_parameters": {"rope_type": "default", "rope_theta": 700.0, "partial_rotary_factor": 0.5,
                             "mrope_section": [1, 1, 0], "mrope_interleaved": True}}
GATED_PICTURES = {"depth": 1, "num_heads": 2, "out_hidden_size": 24, "num_position_embeddings": 16}

# {model: (class of its config, keyword arguments: sizes are of the text model, then of the pictures' tower)}
MODELS = {
    "gemma3": ("Gemma3Config", {"sliding_window": 8}, PICTURES, {"mm_tokens_per_image": 4, "image_token_index": 90}),
    "llava": ("LlavaConfig", {"model_type": "llama"}, {"model_type": "clip_vision_model", **PICTURES},
              {"image_token_index": 90}),
    "mistral3": ("Mistral3Config", {"model_type": "mistral"}, {"model_type": "pixtral", "head_dim": 8, **PICTURES},
                 {"image_token_index": 90, "tie_word_embeddings": False}),
    "internvl": ("InternVLConfig", {"model_type": "qwen2"}, {"image_size": [28, 28], "patch_size": [14, 14]},
                 {"image_token_id": 90}),
    "mistral3_of_ministral3": ("Mistral3Config", {"model_type": "ministral3", "rope_parameters": {
        "rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 8,
        "llama_4_scaling_beta": 0.3}}, {"model_type": "pixtral", "head_dim": 8, **PICTURES},
        {"image_token_index": 90, "tie_word_embeddings": False}),
    "qwen2_5_vl": ("Qwen2_5_VLConfig", {"hidden_size": 32, "rope_parameters": {  # heads of 8; it reads no head_dim
        "rope_type": "default", "rope_theta": 700.0, "mrope_section": [1, 1, 2]}},
                   {"depth": 1, "num_heads": 2, "out_hidden_size": 32, "fullatt_block_indexes": [0]},
                   {"image_token_id": 90, "video_token_id": 91}),
    "qwen3_vl": ("Qwen3VLConfig", {"rope_parameters": {"rope_type": "default", "rope_theta": 700.0,
                                                       "mrope_section": [2, 1, 1], "mrope_interleaved": True}},
                 {"depth": 1, "num_heads": 2, "out_hidden_size": 24, "deepstack_visual_indexes": [0],
                  "num_position_embeddings": 16}, {"image_token_id": 90, "video_token_id": 91}),
    "qwen3_5": ("Qwen3_5Config", GATED, GATED_PICTURES, {"image_token_id": 90, "video_token_id": 91}),
    "qwen3_5_moe": ("Qwen3_5MoeConfig", {**GATED, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 12,
                                         "shared_expert_intermediate_size": 8}, GATED_PICTURES,
                    {"image_token_id": 90, "video_token_id": 91}),
    "llama4": ("Llama4Config", {"intermediate_size_mlp": 36, "num_local_experts": 3, "attention_chunk_size": 7,
                                "moe_layers": [1], "no_rope_layers": [1, 0], "floor_scale": 5, "attn_scale": 0.3},
               {"vision_output_dim": 8, "projector_input_dim": 8, "projector_output_dim": 8, **PICTURES},
               {"image_token_index": 90, "boi_token_index": 91, "eoi_token_index": 92}),
    "gemma4": ("Gemma4Config", {"num_hidden_layers": 4, "layer_types": ["sliding_attention", "full_attention"] * 2,
                                "global_head_dim": 12, "num_kv_shared_layers": 2, "hidden_size_per_layer_input": 6,
                                "vocab_size_per_layer_input": 96, "sliding_window": 8},
               {"head_dim": 8, "num_key_value_heads": 2},
               # No text has these. Their layers would read the inputs of the pad.
               {"image_token_id": 96, "video_token_id": 97, "audio_token_id": 98, "audio_config": None}),
    "gemma4_with_experts": ("Gemma4Config", {
        "num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"], "global_head_dim": 12,
        "attention_k_eq_v": True, "hidden_size_per_layer_input": 0, "enable_moe_block": True, "num_experts": 3,
        "top_k_experts": 2, "moe_intermediate_size": 12, "sliding_window": 8}, {"head_dim": 8, "num_key_value_heads": 2},
        {"image_token_id": 96, "video_token_id": 97, "audio_token_id": 98, "audio_config": None}),
    "idefics3": ("Idefics3Config", {"model_type": "llama"}, PICTURES, {"image_token_id": 90}),
}


def save_model(folder, name, dtype=torch.float32):
    config_class, text, tower, whole = MODELS[name]
    torch.manual_seed(0)
    config = getattr(transformers, config_class)(text_config={**SIZES, **text}, vision_config={**TOWER, **tower},
                                                 **whole)
    model = AutoModelForImageTextToText.from_config(config)
    for parameter in model.parameters():  # norms and biases too
        parameter.data.normal_(std=0.2)
    model.to(dtype).save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text('{"size": 28}')
    return folder


def rename_as_new(folder):
    """The names that the classes themselves use, as some folders have them."""
    tensors = {}
    for name, tensor in load_file(folder / "model.safetensors").items():
        if name.startswith("language_model.lm_head."):
            name = name.removeprefix("language_model.")
        elif name.startswith("language_model.model."):
            name = "model.language_model." + name.removeprefix("language_model.model.")
        elif not name.startswith(("model.", "lm_head.")):
            name = "model." + name
        tensors[name] = tensor
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def is_text(name):
    own = ("model.embed_tokens.", "model.layers.", "model.norm.")  # of Qwen2.5-VL, whose pictures' part is "visual"
    return "language_model" in name or "text_model" in name or "lm_head" in name or name.startswith(own)


@pytest.fixture
def config(tmp_path):
    return program.prepare_run(tmp_path, SIZES["vocab_size"])


def evaluated(config, *words):
    return json.loads(program.finished("evaluate", config, "--json", *words))["loss"]


def loss_of_transformers(folder, store, classes=AutoModelForImageTextToText):
    model = classes.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    tensors = load_file(next(store.glob("*.safetensors")))
    offsets, loss, count = tensors["offsets"].tolist(), 0.0, 0
    with torch.no_grad():
        for begin, end in itertools.pairwise(offsets):
            ids = tensors["input_ids"][begin:end].long()[None]
            logits = model(input_ids=ids, use_cache=False).logits[0, :-1]
            loss += torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="sum").item()
            count += ids.shape[1] - 1
    return loss / count


@pytest.mark.parametrize("name, layout", [*((name, "old") for name in MODELS), ("gemma3", "new"), ("llava", "new")])
def test_a_text_model_is_trained_and_exported_with_the_other_parts(config, tmp_path, name, layout):
    model = save_model(tmp_path / "model", name)
    if layout == "new":
        rename_as_new(model)
    assert evaluated(config) == pytest.approx(loss_of_transformers(model, tmp_path / "validation"), rel=1e-5)
    program.finished("train", config)
    program.finished("export", tmp_path / "run", "--dtype", "float32", "--out", tmp_path / "out")
    exported = loss_of_transformers(tmp_path / "out", tmp_path / "validation")
    assert evaluated(config) == pytest.approx(exported, rel=1e-5)
    before, after = tensors_of(model), tensors_of(tmp_path / "out")
    assert before.keys() == after.keys()
    for tensor in before:
        is_trained = is_text(tensor) and not tensor.endswith(".layer_scalar")
        assert before[tensor].equal(after[tensor]) != is_trained, tensor
    old, new = (json.loads((place / "config.json").read_text()) for place in (model, tmp_path / "out"))
    assert {**new, "torch_dtype": None} == {**old, "torch_dtype": None}
    assert (tmp_path / "out/preprocessor_config.json").read_text() == '{"size": 28}'


def test_other_parts_keep_their_types_in_an_export_of_several_files(config, tmp_path):
    model = save_model(tmp_path / "model", "llava")
    tensors = tensors_of(model)
    tensors["vision_tower.embeddings.position_ids"] = torch.arange(5)
    tensors["vision_tower.embeddings.flags"] = torch.tensor([True, False])
    save_file(tensors, model / "model.safetensors", metadata={"format": "pt"})
    program.finished("train", config)
    program.finished("export", tmp_path / "run", "--dtype", "bfloat16", "--out", tmp_path / "out",
                     "--max-shard-size", "20KB")
    after = tensors_of(tmp_path / "out")
    assert len(list((tmp_path / "out").glob("model-*-of-*.safetensors"))) > 2
    for name, tensor in tensors.items():
        assert after[name].dtype == (torch.bfloat16 if is_text(name) else tensor.dtype), name
        assert is_text(name) or after[name].equal(tensor), name
    assert json.loads((tmp_path / "out/config.json").read_text())["dtype"] == "float32"
    loss_of_transformers(tmp_path / "out", tmp_path / "validation")


def test_the_text_model_can_be_written_alone(config, tmp_path):
    save_model(tmp_path / "model", "gemma3")
    program.finished("train", config)
    (tmp_path / "model").rename(tmp_path / "moved")
    code, _, err = program.packtrain("export", tmp_path / "run", "--out", tmp_path / "out")
    assert code == 66 and "--base" in err and "--text-only" in err and str(tmp_path / "model") in err, err
    program.finished("export", tmp_path / "run", "--out", tmp_path / "out", "--base", tmp_path / "moved")
    program.finished("export", tmp_path / "run", "--text-only", "--out", tmp_path / "text", "--dtype", "float32")
    loss = loss_of_transformers(tmp_path / "text", tmp_path / "validation", AutoModelForCausalLM)
    (tmp_path / "moved").rename(tmp_path / "model")
    assert evaluated(config) == pytest.approx(loss, rel=1e-5)


def test_tokens_are_added_to_the_text_model_and_dropouts_left_out_of_it(config, tmp_path):
    model = save_model(tmp_path / "model", "llava")
    whole = json.loads((model / "config.json").read_text())
    whole["text_config"]["attention_dropout"] = 0.1
    whole["vision_config"]["attention_dropout"] = 0.2
    (model / "config.json").write_text(json.dumps(whole))
    code, _, err = program.packtrain("train", config)
    assert code == 64 and "'attention_dropout' is 0.1" in err, err
    program.finished("train", config, "model.dropout=0", "model.resize_vocabulary=99")
    program.finished("export", tmp_path / "run", "--out", tmp_path / "out")
    written = json.loads((tmp_path / "out/config.json").read_text())
    assert written["text_config"]["vocab_size"] == 99
    assert written["text_config"]["attention_dropout"] == 0 and written["vision_config"]["attention_dropout"] == 0.2
    assert AutoModelForImageTextToText.from_pretrained(tmp_path / "out").lm_head.weight.shape[0] == 99


def test_a_wrapped_folder_of_more_than_text_is_read_by_its_prefix(config, tmp_path):
    model = save_model(tmp_path / "model", "gemma3")
    plain = evaluated(config)
    wrapped = {f"_orig_mod.{name}": tensor for name, tensor in tensors_of(model).items()}
    save_file(wrapped, model / "model.safetensors", metadata={"format": "pt"})
    assert evaluated(config, "model.prefix=_orig_mod.") == plain


def save_gemma3n(folder):
    """As a published folder, with towers of one tensor each: transformers makes the towers with another package. Keys of
    layers that read those of another layer are there too. Returns the text model, the towers, and the names of such keys."""
    config = transformers.Gemma3nTextConfig(**{
        **SIZES, "num_hidden_layers": 4, "layer_types": ["sliding_attention", "full_attention"] * 2, "sliding_window": 8,
        "num_kv_shared_layers": 2, "hidden_size_per_layer_input": 6, "vocab_size_per_layer_input": 96, "laurel_rank": 4,
        "altup_num_inputs": 3, "activation_sparsity_pattern": [0.8, 0.0, 0.5, 0.0], "pad_token_id": None})
    torch.manual_seed(0)
    text = AutoModelForCausalLM.from_config(config).eval()
    for parameter in text.parameters():
        parameter.data.normal_(std=0.2)
    text.save_pretrained(folder)
    tensors = {f"model.language_model.{name.removeprefix('model.')}": tensor
               for name, tensor in tensors_of(folder).items()}
    unread = {f"model.language_model.layers.{layer}.self_attn.{part}.weight": torch.zeros(16, 24)
              for layer in (2, 3) for part in ("k_proj", "v_proj")}
    others = {"model.vision_tower.a.weight": torch.ones(3), "model.audio_tower.b.weight": torch.ones(2, 5),
              "model.embed_vision.embedding.weight": torch.ones(4, 24)}
    save_file({**tensors, **unread, **others}, folder / "model.safetensors", metadata={"format": "pt"})
    whole = {"model_type": "gemma3n", "architectures": ["Gemma3nForConditionalGeneration"],
             "text_config": config.to_dict(), "vision_config": {"model_type": "gemma3n_vision"},
             "audio_config": {"model_type": "gemma3n_audio"}, "tie_word_embeddings": True}
    (folder / "config.json").write_text(json.dumps(whole))
    return text, others, unread.keys()


def test_the_text_model_of_gemma3n_is_trained_next_to_its_towers(config, tmp_path):
    text, others, unread = save_gemma3n(tmp_path / "model")
    text.save_pretrained(tmp_path / "alone")
    want = loss_of_transformers(tmp_path / "alone", tmp_path / "validation", AutoModelForCausalLM)
    assert evaluated(config) == pytest.approx(want, rel=1e-5)
    program.finished("train", config)
    program.finished("export", tmp_path / "run", "--dtype", "float32", "--out", tmp_path / "out")
    program.finished("export", tmp_path / "run", "--dtype", "float32", "--text-only", "--out", tmp_path / "text")
    exported = loss_of_transformers(tmp_path / "text", tmp_path / "validation", AutoModelForCausalLM)
    assert evaluated(config) == pytest.approx(exported, rel=1e-5)
    before, after = tensors_of(tmp_path / "model"), tensors_of(tmp_path / "out")
    assert before.keys() - unread == after.keys()
    for name, tensor in others.items():
        assert after[name].equal(tensor), name
    name = "model.language_model.layers.1.altup.prediction_coefs.weight"
    assert not after[name].equal(before[name])


@pytest.mark.parametrize("changes, parts", [
    ({"model_type": "blip-2", "text_config": {"model_type": "opt"}},
     ["\"blip-2\"", "\"opt\"", "not one that packtrain trains"]),
    ({"model_type": "paligemma", "text_config": {"model_type": "gemma", **SIZES}}, ["\"paligemma\"", "behind them"])])
def test_what_is_not_computed_is_refused_by_its_type(config, tmp_path, changes, parts):
    model = save_model(tmp_path / "model", "llava")
    (model / "config.json").write_text(json.dumps(changes))
    code, _, err = program.packtrain("plan", config)
    assert code == 64 and all(part in err for part in parts), err


def test_two_text_models_in_a_folder_are_refused_by_their_places(config, tmp_path):
    model = save_model(tmp_path / "model", "llava")
    tensors = tensors_of(model)
    for name in ("embed_tokens.weight", "norm.weight"):
        tensors[f"draft.{name}"] = tensors[f"language_model.model.{name}"].clone()
    save_file(tensors, model / "model.safetensors", metadata={"format": "pt"})
    code, _, err = program.packtrain("evaluate", config)
    assert code == 66 and "2 text models" in err and "draft." in err, err


@pytest.mark.parametrize("text_type", ["cohere2", "gemma", "gemma2", "gemma3_text", "gemma3n_text", "gemma4_text", "granite", "llama", "llama4_text",
                                       "ministral3", "mistral", "phi3", "qwen2", "qwen2_5_vl_text", "qwen3", "qwen3_vl_text"])
def test_sizes_that_a_text_config_leaves_out_are_those_of_its_class(tool, tmp_path, text_type):
    def written(text):
        (tmp_path / "config.json").write_text(json.dumps({"model_type": "llava", "text_config": text}))
        answer = tool.ask(f"config {tmp_path / 'config.json'}")
        assert answer.code == 0, answer.message
        return json.loads(answer.message)

    whole = transformers.AutoConfig.for_model(text_type).to_dict()
    assert written({"model_type": text_type}) == written(whole)


def test_a_run_from_a_checkpoint_of_a_text_model_finds_the_other_parts(config, tmp_path):
    model = save_model(tmp_path / "model", "mistral3")
    program.finished("train", config)
    second = f"run.output={tmp_path / 'second'}"
    program.finished("train", config, second, f"model.path={tmp_path}/run/checkpoints/step-1")
    program.finished("export", tmp_path / "second", "--out", tmp_path / "out")
    shutil.rmtree(tmp_path / "run")
    parts = {name for name in tensors_of(model) if not is_text(name)}
    assert parts <= tensors_of(tmp_path / "out").keys()
