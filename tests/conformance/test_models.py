"""For every family and option packtrain computes what transformers computes, in float32: logits,
loss and the gradient of every tensor in the model's files.

transformers (eager attention) runs one example at a time, ours packs examples of very different
lengths. One family alone: pytest -k mistral
"""

import json
import os
import shutil

import family
import oracle
import pytest
import random_configs
import torch
from comparison import (assert_equal, assert_equal_but_for_rounding, assert_same_bytes,
                        tensors_of)
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, PreTrainedConfig

ALL_CASES = [case for name in family.names() for case in family.cases_of(name)]
RANDOM_CASES = [random_configs.draw(name, seed) for name in family.names()
                for seed in range(int(os.environ.get("PACKTRAIN_RANDOM_CASES", "3")))]


class Computed:
    """One model, and what both sides computed for it."""

    def __init__(self, case, folder, tool):
        self.folder = folder
        model, self.sequences = oracle.make_model(case)
        self.architecture = type(model)
        model.save_pretrained(folder / "model")
        oracle.save_batch(self.sequences, folder / "batch.safetensors")
        self.logits, self.loss = oracle.logits_and_loss(model, self.sequences)
        oracle.save_gradients(model, folder / "gradients")
        self.answer = tool.ask(folder)

    def tensors(self, name):
        return tensors_of(self.folder / name)

    def in_float64(self, seed):
        """(logits and loss, gradients) of transformers."""
        model = oracle.in_float64(oracle.load_model(self.folder / "model"), seed)
        logits, loss = oracle.logits_and_loss(model, self.sequences)
        oracle.save_gradients(model, self.folder / "exact")
        return {"logits": logits, "loss": loss}, self.tensors("exact")


@pytest.fixture(scope="module", params=ALL_CASES + RANDOM_CASES, ids=str)
def computed(request, tool, tmp_path_factory):
    folder = tmp_path_factory.mktemp("case")
    result = Computed(request.param, folder, tool)
    assert result.answer.code == 0, result.answer.message
    yield result
    shutil.rmtree(folder)


def test_logits_and_loss_equal_transformers(computed):
    ours = load_file(computed.folder / "packed.safetensors")
    assert_equal_but_for_rounding(ours, {"logits": computed.logits, "loss": computed.loss},
                                  lambda seed: computed.in_float64(seed)[0])


def test_every_gradient_equals_transformers(computed):
    assert_equal_but_for_rounding(computed.tensors("packed"), computed.tensors("gradients"),
                                  lambda seed: computed.in_float64(seed)[1])


def test_packed_equals_one_by_one(computed):
    assert_equal(load_file(computed.folder / "packed.safetensors"),
                 load_file(computed.folder / "alone.safetensors"))
    assert_equal(computed.tensors("packed"), computed.tensors("alone"))


def test_transformers_loads_what_is_written_and_computes_the_same(computed):
    assert_same_bytes(computed.tensors("written"), computed.tensors("model"))
    models = []
    for name in ("written", "model"):
        model, info = AutoModelForCausalLM.from_pretrained(
            computed.folder / name, attn_implementation="eager", experts_implementation="eager",
            output_loading_info=True)
        assert not any(info.values()), info
        assert type(model) is computed.architecture
        models.append(model.eval())
    with torch.no_grad():
        longest = max(computed.sequences, key=len).unsqueeze(0)
        ours, theirs = [{"logits": model(longest, use_cache=False).logits} for model in models]
    assert_equal(ours, theirs)  # the addresses of weights change the order of sums


# Keys of PretrainedConfig.to_dict() of transformers 4 that the installed version does not write.
OLD_KEYS = {
    "torchscript": False, "use_bfloat16": False, "tf_legacy_loss": False, "pruned_heads": {},
    "add_cross_attention": False, "tie_encoder_decoder": False, "min_length": 0, "num_beams": 1,
    "early_stopping": False, "length_penalty": 1.0, "typical_p": 1.0, "prefix": None, "top_k": 50,
    "unk_token_id": 0, "sep_token_id": None, "max_length": 20, "is_decoder": False}


@pytest.mark.parametrize("name", family.names())
def test_a_full_dump_is_read_as_the_short_config(name, tool, tmp_path):
    case = family.cases_of(name)[0]
    case.config().save_pretrained(tmp_path)
    dump = {**OLD_KEYS, **case.config().to_dict()}
    short = rewritten(tool, tmp_path / "short.json", json.loads((tmp_path / "config.json").read_text()))
    assert isinstance(short, dict), short
    assert rewritten(tool, tmp_path / "dump.json", dump) == short


# Keys that other tools, other classes of transformers and the Hub leave in a config.json.
TOOLS_KEYS = {
    "return_dict": True, "problem_type": "single_label_classification", "num_labels": 3, "torch_dtype": "bfloat16",
    "dtype": "bfloat16", "id2label": {"0": "A", "1": "B", "2": "C"}, "label2id": {"A": 0, "B": 1, "C": 2},
    "architectures": ["LlamaForSequenceClassification"], "auto_map": {"AutoModelForCausalLM": "modeling_x.X"},
    "transformers_version": "4.38.1", "_attn_implementation_autoset": True, "_attn_implementation": "sdpa",
    "attn_implementation": "flash_attention_2", "_name_or_path": "somewhere", "_commit_hash": "abc", "use_cache": False,
    "pretraining_tp": 1, "classifier_dropout": None, "summary_use_proj": True, "ctc_loss_reduction": "mean",
    "tokenizer_class": "LlamaTokenizer", "vocab_file": "x.model", "unsloth_version": "1", "use_flash_attn": True,
    "base_model_tp_plan": {}, "decoder_start_token_id": 1, "sep_token_id": 3, "internal_version": "a-1"}


@pytest.mark.parametrize("name", family.names())
def test_what_tools_leave_in_a_config_changes_nothing(name, tool, tmp_path):
    case = family.cases_of(name)[0]
    short = rewritten(tool, tmp_path / "short.json", document_of(case.config()))
    assert isinstance(short, dict), short
    assert rewritten(tool, tmp_path / "full.json", {**document_of(case.config()), **TOOLS_KEYS}) == short


@pytest.mark.parametrize("name", family.names())
def test_one_error_names_all_keys_that_change_the_computation(name, tool, tmp_path):
    document = document_of(family.cases_of(name)[0].config())
    document["initialiser_range"] = document.pop("initializer_range")
    document.update({"query_scale": 0.5, "mup_width": 256, "block_sparsity": {"kind": "x"}})
    message = rewritten(tool, tmp_path / "config.json", document)
    assert all(f"'{key}'" in message for key in ("initializer_range", "initialiser_range", "query_scale", "mup_width",
                                                 "block_sparsity")), message
    assert "model.ignore_keys: [" in message


@pytest.mark.parametrize("case", family.refusals(), ids=str)
def test_what_is_not_computed_is_refused_by_name(case, tool, tmp_path):
    module = family.load(case.family)
    config = module.Config(**module.BASE)
    config.architectures = None
    document = {**config.to_dict(), **case.changes}
    config.from_dict(document).save_pretrained(tmp_path / "model")
    answer = tool.ask(tmp_path)
    assert answer.code == 64, answer.message
    assert f"{case.name}'" in answer.message


def rewritten(tool, path, document):
    """The config.json that we write of this one; or the error."""
    path.write_text(json.dumps(document))
    answer = tool.ask(f"config {path}")
    assert answer.code in (0, 64), answer.message
    return json.loads(answer.message) if answer.code == 0 else answer.message


def document_of(config):
    """All its keys; of a config inside it none of those that every config has."""
    document = json.loads(config.to_json_string(use_diff=False))
    for name in config.sub_configs:
        common = PreTrainedConfig().to_dict().keys() - {"model_type"}
        document[name] = {key: value for key, value in document[name].items() if key not in common}
    return document


def each_key(document):
    """(a name of it, the document without it), one level down too."""
    for key, value in document.items():
        yield key, {name: other for name, other in document.items() if name != key}
        for inner in value if isinstance(value, dict) and not key.endswith(("id2label", "label2id")) else ():
            rest = {name: other for name, other in value.items() if name != inner}
            yield f"{key}.{inner}", {**document, key: rest}


def read_back(kind, document):
    """What transformers makes of the document in a file: infinite numbers are tagged there."""
    return kind._decode_special_floats(json.loads(json.dumps(document)))


@pytest.mark.parametrize("case", ALL_CASES[::2], ids=str)
def test_a_key_that_is_not_set_means_what_it_means_to_transformers(case, tool, tmp_path):
    kind = type(case.config())
    document = document_of(case.config())
    assert isinstance(rewritten(tool, tmp_path / "whole.json", document), dict)
    wrong = []
    for key, short in each_key(document):
        ours = rewritten(tool, tmp_path / "short.json", short)
        if isinstance(ours, str):
            assert "model config: key '" in ours  # it must be set
            continue
        try:
            full = document_of(kind.from_dict(read_back(kind, short)))
        except (KeyError, ZeroDivisionError):
            continue  # to transformers it must be
        if ours != rewritten(tool, tmp_path / "full.json", full):
            wrong.append(key)
    assert not set(wrong) - getattr(family.load(case.family), "OWN_FALLBACKS", set())


@pytest.mark.parametrize("name", family.names())
def test_cases_have_odd_sizes(name):
    configs = [case.config() for case in family.cases_of(name)]
    heads = {config.num_attention_heads for config in configs}
    # Where layers differ, an attribute of the config is refused.
    widths = {getattr(config, "qk_head_dim", None) or config.to_dict().get("head_dim")
              or config.hidden_size // config.num_attention_heads for config in configs}
    assert any(count & (count - 1) for count in heads), "no number of heads that is no power of two"
    assert any(width >= 80 for width in widths), "no head_dim of 80 or more"
    assert all(config.vocab_size % 2 for config in configs), "an even vocabulary"
