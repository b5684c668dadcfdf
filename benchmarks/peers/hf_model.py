"""A transformers model for hf.py: attention over packed documents, Liger kernels, torch.compile."""

import torch
from shapes import ConfiguredShape
from torch.nn.attention.varlen import varlen_attn
from torch.nn.functional import scaled_dot_product_attention
from transformers import (CONFIG_MAPPING, MODEL_FOR_CAUSAL_LM_MAPPING, AttentionInterface,
                          AutoModelForCausalLM)
from transformers.integrations import hub_kernels


CAUSAL = 1  # the mask type of _efficient_attention_forward
WIDEST_OF_FLASH = 256


class VarlenFlash(torch.autograd.Function):
    """FlashAttention-2 over cu_seqlens without the overhead of a registered operator."""

    @staticmethod
    def forward(context, query, key, value, bounds, longest, scale, window):
        sides = dict(window_size_left=window - 1, window_size_right=0) if window else {}
        out, *saved, _ = torch.ops.aten._flash_attention_forward(
            query, key, value, bounds, bounds, longest, longest, 0.0, True, False, scale=scale,
            **sides)
        context.save_for_backward(query, key, value, out, bounds, *saved)
        context.options = longest, dict(scale=scale, **sides)
        return out

    @staticmethod
    def backward(context, gradient):
        query, key, value, out, bounds, lse, rng, unused = context.saved_tensors
        longest, options = context.options
        gradients = torch.ops.aten._flash_attention_backward(
            gradient.contiguous(), query, key, value, out, lse, bounds, bounds, longest, longest,
            0.0, True, rng, unused, **options)
        return *gradients, None, None, None, None


def flash_op(query, key, value, bounds, longest, scale, window):
    """VarlenFlash as a registered operator: no graph break in a compiled layer."""
    return varlen_attn(query, key, value, bounds, bounds, longest, longest, scale=scale,
                       window_size=(window - 1 if window else -1, 0))


@torch.compiler.disable
def efficient_op(query, key, value, bounds, longest, scale):
    """Memory-efficient attention, for heads that FlashAttention does not support."""
    groups = query.shape[1] // key.shape[1]
    key, value = (x.repeat_interleave(groups, 1)[None] for x in (key, value))
    return torch.ops.aten._efficient_attention_forward(
        query[None], key, value, None, bounds, bounds, longest, longest, 0.0, CAUSAL, True,
        scale=scale)[0][0]


@torch.compiler.disable
def by_document(query, key, value, bounds, longest, scale, window):
    """Attention of one document after another, for the CPU."""
    pieces = []
    for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist()):
        heads = [x[begin:end].transpose(0, 1)[None] for x in (query, key, value)]
        seen = torch.ones(end - begin, end - begin, dtype=torch.bool).tril()
        seen = seen.triu(1 - window) if window else seen
        piece = scaled_dot_product_attention(*heads, attn_mask=seen, scale=scale, enable_gqa=True)
        pieces.append(piece[0].transpose(0, 1))
    return torch.cat(pieces)


def full_rows(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **_):
    """Rows of one document each."""
    out = scaled_dot_product_attention(query, key, value, is_causal=True, scale=scaling,
                                       enable_gqa=True)
    return out.transpose(1, 2), None


def register_attention(device, compiled):
    """Registers "packed", over the bounds of a batch, and "full_rows"."""
    attend = by_document if device == "cpu" else flash_op if compiled else VarlenFlash.apply

    def attention(module, query, key, value, attention_mask, scaling=None, dropout=0.0,
                  cu_seq_lens_q=None, max_length_q=None, sliding_window=None, **_):
        rows = [x.transpose(1, 2).reshape(-1, x.shape[1], x.shape[3]) for x in (query, key, value)]
        width = rows[2].shape[-1]
        if width < rows[0].shape[-1]:  # latent attention: kernels have one width
            rows[2] = torch.nn.functional.pad(rows[2], (0, rows[0].shape[-1] - width))
        if device != "cpu" and rows[0].shape[-1] > WIDEST_OF_FLASH and not sliding_window:
            out = efficient_op(*rows, cu_seq_lens_q, max_length_q, scaling)
        else:
            out = attend(*rows, cu_seq_lens_q, max_length_q, scaling, sliding_window)
        return out[None, ..., :width], None

    AttentionInterface.register("packed", attention)
    AttentionInterface.register("full_rows", full_rows)


def apply_liger(family, parts):
    from liger_kernel import transformers as liger

    apply = {"llama": liger.apply_liger_kernel_to_llama,
             "qwen2": liger.apply_liger_kernel_to_qwen2}[family]
    every = parts == "all"
    apply(rope=every, rms_norm=every, swiglu=every, fused_linear_cross_entropy=True)


def make_config(shape):
    if isinstance(shape, ConfiguredShape):
        kind = CONFIG_MAPPING[shape.config["model_type"]]
        return kind.from_dict(shape.config | {"use_cache": False})
    return CONFIG_MAPPING[shape.family](
        hidden_size=shape.hidden, intermediate_size=shape.inner, num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads, num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim, vocab_size=shape.vocab, tie_word_embeddings=shape.tied,
        rope_theta=shape.rope_theta, max_position_embeddings=131072, use_cache=False)


def use_cudnn_alone():
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_math_sdp(False)


def attention_kinds(config, wanted):
    """The attention kernels of packed and of padded batches: the fastest that the model accepts and that
    supports all settings of its config. "sdpa", "eager" and "flex_attention" are those of transformers,
    which hide other documents by masks from position_ids. `wanted`: hf.py's --attention."""
    if getattr(config, "attn_logit_softcapping", None) or config.model_type == "gpt_oss":
        kind = "eager" if wanted == "eager" else "flex_attention"
        return {"packed": kind, "padded": kind}
    model = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    takes_ours = model._supports_attention_backend or model._supports_flash_attn
    return {"packed": "packed" if takes_ours else "sdpa", "padded": "sdpa"}


def has_grouped_experts(config):
    """True for experts whose products can be grouped. It is requested by name, so that experts are never a
    loop."""
    return (hasattr(config, "num_local_experts") or hasattr(config, "num_experts")
            ) and MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]._can_set_experts_implementation()


def make_model(shape, device, dtype, options):
    """Random weights on `device`. `options`: hf.py's."""
    config = make_config(shape)
    if options.liger != "none":
        apply_liger(shape.family, options.liger)
    register_attention(device, options.compile != "none")
    if options.attention == "cudnn" and device == "cuda":
        use_cudnn_alone()
    cudnn = options.attention == "cudnn"
    kind = "full_rows" if cudnn else attention_kinds(config, options.attention)["packed"]
    experts = {"experts_implementation": "grouped_mm"} if has_grouped_experts(config) else {}
    with torch.device(device):
        return AutoModelForCausalLM.from_config(config, attn_implementation=kind, dtype=dtype,
                                                **experts)


def attend_to(model, batches, wanted):
    """`batches`: "packed" or "padded"; `wanted`: hf.py's --attention."""
    model.config._attn_implementation = attention_kinds(model.config, wanted)[batches]


def decoder_layers(model):
    return next(module for module in model.modules() if isinstance(module, torch.nn.ModuleList)
                and len(module) == model.config.num_hidden_layers)


def keep_kernels_when_compiled():
    """torch.compiler.is_exporting() is true in what torch 2.11 compiles. transformers 5.17 then takes its plain
    formulas of convolutions and recurrences, not the kernels of packages. They compile for minutes and are slow."""
    hub_kernels.is_torchdynamo_exporting = lambda: False


def has_delta_rules(model):
    return any(hasattr(module, "A_log") and not hasattr(module, "D") for module in model.modules())


def compile_model(model, compile_mode, dynamic=None):
    """Call it before shard(), so that its hooks are not compiled. `dynamic`: torch.compile's. Mixers of Mamba-2 stay
    eager: one call of mamba_ssm is most of such a mixer."""
    keep_kernels_when_compiled()
    if compile_mode == "layers":
        for module in model.modules():
            if hasattr(module, "A_log") and hasattr(module, "D"):
                module.forward = torch.compiler.disable(module.forward)
        for layer in decoder_layers(model):
            layer.compile(dynamic=dynamic)
        model.loss_function = torch.compile(model.loss_function, dynamic=dynamic)
    elif compile_mode == "model":
        model.compile(dynamic=dynamic)
