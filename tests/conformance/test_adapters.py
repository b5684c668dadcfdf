"""For every family packtrain computes what peft computes with LoRA, in float32: logits, loss, the gradient of every
tensor of the adapter, and merged weights. PEFT folders are read, and those that are written load in peft.
"""

import copy
import json
import shutil

import family
import oracle
import peft_oracle
import pytest
import torch
from comparison import assert_equal, assert_equal_but_for_rounding, assert_same_bytes, tensors_of
from safetensors.torch import load_file, save_file

CASES = [(family.cases_of(name)[0], make) for name in family.names() for make in peft_oracle.ADAPTERS.values()]
CASES += [(case, peft_oracle.tied_embedding) for name in ("llama", "gemma")
          for case in family.cases_of(name)[1:2]]
CASES += [(family.cases_of(name)[0], make) for name, make in peft_oracle.EXPERT_ADAPTERS]
CASES += [(case, make) for case in family.cases_of("gemma4_text") if case.name == "experts-untied"
          for make in (peft_oracle.all_linear, *peft_oracle.OF_EXPERTS)]


class Computed:
    """One adapter, and what both sides computed for it."""

    def __init__(self, case, make_options, folder, tool):
        self.folder = folder
        model, adapted, self.sequences = peft_oracle.make_adapted(case, make_options)
        model.save_pretrained(folder / "model")
        adapted.save_pretrained(folder / "adapter")
        oracle.save_batch(self.sequences, folder / "batch.safetensors")
        copy.deepcopy(adapted).merge_and_unload().save_pretrained(folder / "peft_merged")
        self.logits, self.loss = oracle.logits_and_loss(adapted, self.sequences)
        oracle.save_gradients(adapted, folder / "gradients")
        self.answer = tool.ask(folder)

    def tensors(self, name):
        """Of a folder, without the model's own embedding and head, which peft saves with their adapters."""
        return {key: tensor for key, tensor in tensors_of(self.folder / name).items() if ".base_layer." not in key}

    def in_float64(self, seed):
        """(logits and loss, gradients) of peft."""
        adapted = peft_oracle.load_adapted(self.folder / "model", self.folder / "adapter")
        adapted = oracle.in_float64(adapted, seed)
        for name, parameter in adapted.named_parameters():
            parameter.requires_grad_("lora_" in name or "modules_to_save" in name)
        logits, loss = oracle.logits_and_loss(adapted, self.sequences)
        oracle.save_gradients(adapted, self.folder / "exact")
        return {"logits": logits, "loss": loss}, self.tensors("exact")


def name_of(case):
    return f"{case[0]}-{case[1].__name__}"


@pytest.fixture(scope="module", params=CASES, ids=name_of)
def computed(request, tool, tmp_path_factory):
    folder = tmp_path_factory.mktemp("adapter")
    result = Computed(*request.param, folder, tool)
    assert result.answer.code == 0, result.answer.message
    yield result
    shutil.rmtree(folder)


def test_logits_and_loss_equal_peft(computed):
    ours = load_file(computed.folder / "packed.safetensors")
    assert_equal_but_for_rounding(ours, {"logits": computed.logits, "loss": computed.loss},
                                  lambda seed: computed.in_float64(seed)[0])


def test_every_gradient_equals_peft(computed):
    assert_equal_but_for_rounding(computed.tensors("packed"), computed.tensors("gradients"),
                                  lambda seed: computed.in_float64(seed)[1])


def test_packed_equals_one_by_one(computed):
    assert_equal(load_file(computed.folder / "packed.safetensors"),
                 load_file(computed.folder / "alone.safetensors"))
    assert_equal(computed.tensors("packed"), computed.tensors("alone"))


def test_merged_weights_equal_peft(computed):
    assert_equal(computed.tensors("merged"), computed.tensors("peft_merged"))


def test_peft_loads_what_is_written_and_computes_the_same(computed):
    assert_same_bytes(computed.tensors("written"), computed.tensors("adapter"))
    ids = max(computed.sequences, key=len).unsqueeze(0)
    with torch.no_grad():
        ours, theirs = [
            {"logits": peft_oracle.load_adapted(computed.folder / "model", computed.folder / name)(ids).logits}
            for name in ("written", "adapter")]
    assert_equal(ours, theirs)


def save_adapted(name, make_options, folder):
    model, adapted, sequences = peft_oracle.make_adapted(family.cases_of(name)[0], make_options)
    model.save_pretrained(folder / "model")
    adapted.save_pretrained(folder / "adapter")
    oracle.save_batch(sequences, folder / "batch.safetensors")


@pytest.fixture
def small_adapter(tmp_path):
    """(a folder for the tool, its adapter_config.json)"""
    save_adapted("llama", peft_oracle.attention_alone, tmp_path)
    return tmp_path, tmp_path / "adapter" / "adapter_config.json"


@pytest.mark.parametrize("key, value", [
    ("lora_bias", True), ("bias", "all"), ("init_lora_weights", "pissa"), ("target_parameters", ["mlp.experts"]),
    ("trainable_token_indices", [1, 2]), ("layer_replication", [[0, 2]]), ("rank_pattern", {".*q_proj": 8}),
    ("peft_type", "IA3"), ("r", 0), ("lora_alpha", float("nan")), ("lora_alpha", float("inf"))])
def test_what_is_not_computed_is_refused_by_name(small_adapter, tool, key, value):
    folder, config = small_adapter
    config.write_text(json.dumps({**json.loads(config.read_text()), key: value}))
    answer = tool.ask(folder)
    assert answer.code == 64
    assert "adapter_config.json" in answer.message
    assert key in answer.message or not isinstance(value, str) and value != value or value == float("inf")


def change_config(folder, **options):
    config = folder / "adapter" / "adapter_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), **options}))


def test_an_adapter_of_a_router_is_refused_by_name(tool, tmp_path):
    save_adapted("qwen3_moe", peft_oracle.router_too, tmp_path)
    answer = tool.ask(tmp_path)
    assert answer.code == 64
    assert "'target_parameters' has 'gate.weight'" in answer.message


def test_experts_that_are_one_matrix_are_refused_by_name(tool, tmp_path):
    save_adapted("dbrx", peft_oracle.attention_alone, tmp_path)
    change_config(tmp_path, target_parameters=["mlp.w1"])
    answer = tool.ask(tmp_path)
    assert answer.code == 64
    assert "'target_parameters' has 'mlp.w1'" in answer.message


def test_experts_that_peft_takes_for_transposed_ones_are_refused_by_name(tool, tmp_path):
    save_adapted("llama4_text", peft_oracle.one_projection_of_experts, tmp_path)
    answer = tool.ask(tmp_path)
    assert answer.code == 64
    assert "'target_parameters' has 'experts.down_proj'" in answer.message


def test_dropout_of_experts_is_refused_as_by_peft(tool, tmp_path):
    save_adapted("mixtral", peft_oracle.experts, tmp_path)
    change_config(tmp_path, lora_dropout=0.1)
    answer = tool.ask(tmp_path)
    assert answer.code == 64
    assert "adapters of experts have no dropout" in answer.message


def test_a_tensor_of_another_shape_is_refused_by_name(small_adapter, tool):
    folder, _ = small_adapter
    file = folder / "adapter" / "adapter_model.safetensors"
    tensors = load_file(file)
    name = sorted(tensors)[0]
    save_file({**tensors, name: tensors[name][:-1].contiguous()}, file)
    answer = tool.ask(folder)
    assert answer.code == 66
    assert f"'{name}'" in answer.message
