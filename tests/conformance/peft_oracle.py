"""peft as the oracle of adapters: LoRA over transformers' random models, one example at a time."""

import copy

import oracle
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers.pytorch_utils import Conv1D

# Linear layers of transformers that no adapter targets here. Some choose experts or scale their sum. Others are of Gemma
# 3n's copies of the hidden state.
ROUTERS = ["router", "router.layer", "router.proj", "shared_expert_gate", "gate", "gate.wg", "modality_router",
           "prediction_coefs", "correction_coefs", "per_layer_model_projection", "altup_projections.0",
           "altup_projections.1", "altup_unembed_projections.0", "altup_unembed_projections.1"]
MIXED = ("mixer.q_proj", "mixer.k_proj", "mixer.v_proj", "mixer.o_proj")
EMBEDDINGS = ("embed_tokens", "embed_in", "embeddings", "word_embeddings", "wte")


# Types whose out_proj PEFT refuses, because kernels of Mamba-2 read its weight.
WITHOUT_OUT_PROJ = ("falcon_h1", "nemotron_h")


def linear_paths(model):
    """The linear layers of attention and MLP that PEFT adapts."""
    head = model.get_output_embeddings()
    left_out = [*ROUTERS, "out_proj"] if model.config.model_type in WITHOUT_OUT_PROJ else ROUTERS
    return [path for path, module in model.named_modules()
            if isinstance(module, (torch.nn.Linear, Conv1D)) and module is not head
            and not any(path.endswith(f".{name}") for name in left_out)]


def last_names(paths):
    return sorted({path.rsplit(".", 1)[-1] for path in paths})


def attention_names(model, layer=""):
    """Those of layers with any mixer, or of one layer. All branches of Nemotron-H are called mixer. PEFT takes gate_proj of
    AFMoE's attention for that of experts."""
    return last_names(path for path in linear_paths(model)
                      if ("attn" in path or "attention" in path or path.endswith(MIXED)) and f".{layer}" in path
                      and not path.endswith("attn.gate_proj"))


def embedding_name(model):
    embedding = model.get_input_embeddings()
    (name,) = [path.rsplit(".", 1)[-1] for path, module in model.named_modules() if module is embedding]
    assert name in EMBEDDINGS
    return name


def has_stacked_experts(model):
    return any(type(module).__name__.endswith("Experts") for module in model.modules())


def all_linear(model):
    """With all-linear peft trains stacked experts too."""
    if has_stacked_experts(model) or model.config.model_type in WITHOUT_OUT_PROJ:
        return {"r": 4, "lora_alpha": 7, "target_modules": last_names(linear_paths(model))}
    return {"r": 4, "lora_alpha": 7, "target_modules": "all-linear", "exclude_modules": ROUTERS}


def router_too(model):
    return {"r": 4, "target_modules": "all-linear"}


def expert_paths(model):
    return [path for path, _ in model.named_parameters() if path.endswith((".gate_up_proj", ".up_proj", ".down_proj"))]


def first_of_experts(model):
    """The name of their first projection, which experts without a gate have under another name."""
    return expert_paths(model)[0].split(".experts.")[-1]


def experts(model):
    return {"r": 3, "lora_alpha": 7, "target_modules": attention_names(model)[:1],
            "target_parameters": [f"experts.{first_of_experts(model)}", "experts.down_proj"]}


def one_projection_of_experts(model):
    return {"r": 5, "lora_alpha": 3, "target_modules": [], "use_rslora": True,
            "target_parameters": ["experts.down_proj"]}


def experts_in_some_layers(model):
    """PEFT applies layers_to_transform to modules alone."""
    first, *_, last = expert_paths(model)
    return {"r": 4, "lora_alpha": 8, "target_modules": attention_names(model)[-1:], "layers_to_transform": [1],
            "target_parameters": [first, last], "rank_pattern": {f"experts.{first_of_experts(model)}": 2},
            "alpha_pattern": {f"^{last}": 0.7}}


def names_of_single_experts(model):
    """Those of transformers 4, which PEFT turns to target_parameters of other ranks."""
    names = ["w1", "w2", "w3"] if model.config.model_type == "mixtral" else ["gate_proj", "up_proj", "down_proj"]
    return {"r": 2, "lora_alpha": 3, "target_modules": [*attention_names(model)[:1], *names]}


def attention_alone(model):
    return {"r": 5, "lora_alpha": 3, "target_modules": attention_names(model), "use_rslora": True}


def one_name_in_some_layers(model):
    """The first layer may have another mixer instead of attention."""
    names = attention_names(model, "0.") or last_names([path for path in linear_paths(model) if ".0." in path])
    return {"r": 3, "lora_alpha": 4.5, "target_modules": names[-1:], "layers_to_transform": [0, 2]}


def expression(model):
    name = attention_names(model)[0]
    return {"r": 2, "lora_alpha": 4, "target_modules": rf".*\.[0-2]\..*(attn|attention|mixer)\.{name}"}


def patterns(model):
    paths = linear_paths(model)
    first, last = last_names(paths)[0], paths[-1]
    return {"r": 4, "lora_alpha": 8, "target_modules": last_names(paths),
            "rank_pattern": {f"^{last}": 2, first: 3}, "alpha_pattern": {first: 0.7, last: 11}}


# PEFT takes names of their dense layers for those of experts.
DENSE_NAMED_AS_EXPERTS = ("afmoe", "deepseek_v2", "deepseek_v3", "dots1", "ernie4_5_moe", "exaone_moe", "glm4_moe",
                          "glm4_moe_lite", "hunyuan_v1_moe", "hy_v3", "qwen3_next", "solar_open")


def magnitudes(model):
    """PEFT has none of experts."""
    in_attention = model.config.model_type in DENSE_NAMED_AS_EXPERTS
    names = {"target_modules": attention_names(model)} if in_attention else {}
    return {**all_linear(model), **names, "use_dora": True}


def magnitudes_in_some_layers(model):
    """Of some modules of a fused weight."""
    return {**one_name_in_some_layers(model), "use_dora": True, "use_rslora": True}


def modules_to_save(model):
    norm = [path for path, module in model.named_modules() if "Norm" in type(module).__name__][-1]
    return {"r": 4, "lora_alpha": 8, "target_modules": attention_names(model),
            "modules_to_save": [embedding_name(model), "lm_head", norm]}


def embedding_and_head(model):
    return {"r": 3, "lora_alpha": 5,
            "target_modules": [embedding_name(model), "lm_head", *attention_names(model)[:1]]}


def tied_embedding(model):
    return {"r": 4, "lora_alpha": 8, "target_modules": attention_names(model),
            "modules_to_save": [embedding_name(model)], "ensure_weight_tying": True}


ADAPTERS = {make.__name__: make for make in (
    all_linear, attention_alone, one_name_in_some_layers, expression, patterns, magnitudes,
    magnitudes_in_some_layers, modules_to_save, embedding_and_head)}

WITH_EXPERTS = ("afmoe", "deepseek_v3", "ernie4_5_moe", "glm4_moe", "gpt_oss", "granitemoe", "granitemoe_swa", "hy_v3",
                "lfm2_moe", "minimax_m2", "mixtral", "nemotron_h", "phimoe", "qwen2_moe", "qwen3_moe", "qwen3_next")
OF_EXPERTS = (experts, one_projection_of_experts, experts_in_some_layers)
EXPERT_ADAPTERS = [(family, make) for family in WITH_EXPERTS for make in OF_EXPERTS]
EXPERT_ADAPTERS += [(family, names_of_single_experts) for family in ("mixtral", "qwen3_moe")]


def with_adapter(model, options, generator):
    """PEFT's model with random A, B, magnitudes and saved modules."""
    adapted = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **options)).eval()
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if not parameter.requires_grad:
                continue
            noise = torch.randn(parameter.shape, generator=generator)
            if ".modules_to_save." in name:
                parameter.add_(0.1 * noise)
            elif ".lora_magnitude_vector." in name:
                parameter.mul_(1 + 0.2 * noise)
            else:
                parameter.copy_(noise / parameter.shape[-1] ** 0.5)
    return adapted


def make_adapted(case, make_options):
    """(the model alone, PEFT's model over a copy of it, sequences to run it on)"""
    for seed in range(100):
        model, sequences = oracle.random_model(case, oracle.LENGTHS, seed)
        adapted = with_adapter(copy.deepcopy(model), make_options(model), torch.Generator().manual_seed(seed))
        if (oracle.routing_margin(adapted, sequences) > oracle.ROUTING_MARGIN
                and oracle.clip_margin(adapted, sequences) > oracle.CLIP_MARGIN):
            return model, adapted, sequences
    raise AssertionError(f"{case}: in each of 100 random models two experts tie, or a value is at the clip")


def load_adapted(base_folder, adapter_folder):
    return PeftModel.from_pretrained(oracle.load_model(base_folder), adapter_folder).eval()
