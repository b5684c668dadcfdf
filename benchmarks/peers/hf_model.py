"""A transformers model for hf.py: attention over packed documents, Liger kernels, torch.compile."""

import torch
from torch.nn.attention.varlen import varlen_attn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AutoModelForCausalLM, LlamaConfig, Qwen2Config


class VarlenFlash(torch.autograd.Function):
    """FlashAttention-2 over cu_seqlens without the overhead of a registered operator."""

    @staticmethod
    def forward(context, query, key, value, bounds, longest, scale):
        out, *saved, _ = torch.ops.aten._flash_attention_forward(
            query, key, value, bounds, bounds, longest, longest, 0.0, True, False, scale=scale)
        context.save_for_backward(query, key, value, out, bounds, *saved)
        context.options = longest, scale
        return out

    @staticmethod
    def backward(context, gradient):
        query, key, value, out, bounds, lse, rng, unused = context.saved_tensors
        longest, scale = context.options
        gradients = torch.ops.aten._flash_attention_backward(
            gradient.contiguous(), query, key, value, out, lse, bounds, bounds, longest, longest,
            0.0, True, rng, unused, scale=scale)
        return *gradients, None, None, None


def flash_op(query, key, value, bounds, longest, scale):
    """The same as a registered operator: no graph break in a compiled layer."""
    return varlen_attn(query, key, value, bounds, bounds, longest, longest, scale=scale,
                       window_size=(-1, 0))


@torch.compiler.disable
def by_document(query, key, value, bounds, longest, scale):
    """One document after another, for the CPU."""
    pieces = []
    for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist()):
        heads = [x[begin:end].transpose(0, 1)[None] for x in (query, key, value)]
        piece = scaled_dot_product_attention(*heads, is_causal=True, scale=scale, enable_gqa=True)
        pieces.append(piece[0].transpose(0, 1))
    return torch.cat(pieces)


def full_rows(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **_):
    """Rows of one document each."""
    out = scaled_dot_product_attention(query, key, value, is_causal=True, scale=scaling,
                                       enable_gqa=True)
    return out.transpose(1, 2), None


def register_attention(device, compiled):
    """As "packed" over the bounds that come with a batch, and as "full_rows"."""
    attend = by_document if device == "cpu" else flash_op if compiled else VarlenFlash.apply

    def attention(module, query, key, value, attention_mask, scaling=None, dropout=0.0,
                  cu_seq_lens_q=None, max_length_q=None, **_):
        rows = [x.transpose(1, 2).reshape(-1, x.shape[1], x.shape[3]) for x in (query, key, value)]
        return attend(*rows, cu_seq_lens_q, max_length_q, scaling)[None], None

    AttentionInterface.register("packed", attention)
    AttentionInterface.register("full_rows", full_rows)


def apply_liger(family, parts):
    from liger_kernel import transformers as liger

    apply = {"llama": liger.apply_liger_kernel_to_llama,
             "qwen2": liger.apply_liger_kernel_to_qwen2}[family]
    every = parts == "all"
    apply(rope=every, rms_norm=every, swiglu=every, fused_linear_cross_entropy=True)


def make_config(shape):
    kind = {"llama": LlamaConfig, "qwen2": Qwen2Config}[shape.family]
    return kind(
        hidden_size=shape.hidden, intermediate_size=shape.inner, num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads, num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim, vocab_size=shape.vocab, tie_word_embeddings=shape.tied,
        rope_theta=shape.rope_theta, max_position_embeddings=131072, use_cache=False)


def use_cudnn_alone():
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_math_sdp(False)


def make_model(shape, device, dtype, options):
    """Random weights on `device`. `options`: hf.py's."""
    if options.liger != "none":
        apply_liger(shape.family, options.liger)
    register_attention(device, options.compile != "none")
    if options.attention == "cudnn" and device == "cuda":
        use_cudnn_alone()
    kind = "full_rows" if options.attention == "cudnn" else "packed"
    with torch.device(device):
        return AutoModelForCausalLM.from_config(
            make_config(shape), attn_implementation=kind, dtype=dtype)


def attend_with(model, kind):
    """Of the attentions registered with transformers; masks are made for its own alone."""
    model.config._attn_implementation = kind


def compile_model(model, compile_mode):
    """Before shard(), whose hooks stay outside of what is compiled."""
    if compile_mode == "layers":
        for layer in model.model.layers:
            layer.compile()
        model.loss_function = torch.compile(model.loss_function)
    elif compile_mode == "model":
        model.compile()
