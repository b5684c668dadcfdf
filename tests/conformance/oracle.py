"""transformers as the oracle: random models, and what they compute one example at a time."""

import copy
import zlib

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

LENGTHS = [7, 1, 160, 4, 12, 5]  # one 13 to 160 times as long as the others
ROUTING_MARGIN = 1e-5  # far above float32's rounding: no rounding changes which experts are chosen
CLIP_MARGIN = 5e-6  # nor which queries, keys and values are clipped, and so have no gradient
ROUNDING = 2.0**-24  # of float32, relative


def from_config(config):
    """Computes experts one by one, because grouped products take no odd sizes."""
    config._experts_implementation = "eager"
    return AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()


def load_model(folder):
    return AutoModelForCausalLM.from_pretrained(
        folder, attn_implementation="eager", experts_implementation="eager", dtype=torch.float32).eval()


def in_float64(model, seed=None):
    """With a seed, each weight is moved by about a rounding of float32."""
    model = model.double()
    if seed is not None:
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in model.parameters():
                noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
                parameter.mul_(1 + ROUNDING * noise)
    return model


def randomize(model, generator):
    """All parameters: norms and biases, too, are not left at their start values. Most heads of a delta rule forget
    all at those, so that their decays are made slow."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if name.endswith(".A_log"):
                parameter.copy_(noise - 2)
            elif name.endswith(".router.proj.weight"):  # Gemma 4 divides the rows that it reads by their norm
                parameter.copy_(noise)
            elif parameter.ndim < 2:
                parameter.add_(0.2 * noise)
            else:
                parameter.copy_(noise / parameter.shape[-1] ** 0.5)
        for name in sorted(constant_names(model)):
            noise = 0.2 * torch.randn(model.get_buffer(name).shape, generator=generator)
            if name.endswith("act_fn.eps"):  # xIELU's slope has a step there
                continue
            # A factor of the residual stream near 0 would enlarge the rounding of all layers before it.
            model.get_buffer(name).copy_(1 + noise if name.endswith("layer_scalar") else noise)


def constant_names(model):
    """The buffers that are saved with a model, such as the bias of a choice of experts."""
    saved = model.state_dict().keys()
    return {name for name, _ in model.named_buffers() if name in saved}


def untrained_names(model):
    """The constants. Some are parameters without a gradient in transformers."""
    return constant_names(model) | {name for name, parameter in model.named_parameters() if not parameter.requires_grad}


def constants_of(model):
    return [model.get_buffer(name) for name in sorted(constant_names(model))]


def rotary_modules(model):
    return [module for module in model.modules() if "Rotary" in type(module).__name__]


def each_example(model, sequences):
    """Each with tables as in a new model: transformers' dynamic scaling remembers the longest."""
    modules = rotary_modules(model)
    states = [copy.deepcopy(module.__dict__) for module in modules]
    for ids in sequences:
        for module, state in zip(modules, states):
            module.__dict__ = copy.deepcopy(state)
        yield ids.unsqueeze(0)


def router_scores(outputs):
    """Picks the experts' scores from the outputs of a router: the last one of the widest tensors. That of Llama 4 has
    scores of the chosen experts before those of all."""
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    return max((x for x in reversed(outputs) if x.is_floating_point()), key=lambda x: x.shape[-1])


def routers_of(model):
    return [module for module in model.modules() if "Router" in type(module).__name__]


def has_choices(case):
    """True where a token takes some of the experts."""
    with torch.device("meta"):
        return case.name != "all_experts" and bool(routers_of(from_config(case.config())))


def smallest_difference(scores):
    """Between two scores of a row."""
    if scores.shape[-1] < 2:
        return float("inf")
    return scores.sort(dim=-1).values.diff(dim=-1).min().item()


def margins_of_groups(router, logits):
    """Returns the smallest differences of experts and of groups for a router of sigmoids."""
    scores = logits.sigmoid() + router.e_score_correction_bias
    groups = scores.unflatten(-1, (router.num_group, -1)).topk(2).values.sum(dim=-1)
    return [smallest_difference(scores), smallest_difference(groups)]


def margins_of_competition(router, logits):
    """Returns how near an expert comes to the distance at which it competes no more (a sparse mixer)."""
    margins, left = [smallest_difference(logits)], logits
    for _ in range(2):
        largest, chosen = left.max(dim=-1, keepdim=True)
        distance = (largest - logits) / torch.maximum(logits.abs(), largest)
        margins.append((distance - 2 * router.router_jitter_noise).abs().min().item())
        left = left.scatter(-1, chosen, float("-inf"))
    return margins


def routing_margin(model, sequences):
    """The smallest difference between two experts' scores for a token."""
    margin = float("inf")

    def look(module, inputs, outputs):
        nonlocal margin
        scores = router_scores(outputs)
        if getattr(module, "use_expert_bias", False):  # LFM2-MoE's, which is an argument
            scores = scores.sigmoid() + inputs[1]
        if hasattr(module, "e_score_correction_bias"):
            margins = margins_of_groups(module, scores)
        elif hasattr(module, "input_jitter_noise"):
            margins = margins_of_competition(module, outputs[0])  # weights are as wide where two experts are all
        else:
            logits = scores.log() if hasattr(module, "per_expert_scale") else scores  # Gemma 4's are probabilities
            margins = [smallest_difference(logits)]
        margin = min(margin, *margins)

    handles = [router.register_forward_hook(look) for router in routers_of(model)]
    if not handles:
        return margin
    with torch.no_grad():
        for ids in each_example(model, sequences):
            model(ids, output_router_logits=False, use_cache=False)
    for handle in handles:
        handle.remove()
    return margin


def clip_of(config):
    """Returns the bound that queries, keys and values are clipped at, or None."""
    attention = getattr(config, "attn_config", config)
    return attention.get("clip_qkv") if isinstance(attention, dict) else getattr(attention, "clip_qkv", None)


def clip_margin(model, sequences):
    """Returns how near a query, key or value comes to the bound that clips it."""
    clip, margin = clip_of(model.config), float("inf")
    if clip is None:
        return margin

    def look(module, inputs, outputs):
        nonlocal margin
        margin = min(margin, (outputs.abs() - clip).abs().min().item())

    names = ("q_proj", "k_proj", "v_proj", "Wqkv")
    handles = [module.register_forward_hook(look) for name, module in model.named_modules()
               if name.rsplit(".", 1)[-1] in names]
    assert handles
    with torch.no_grad():
        for ids in each_example(model, sequences):
            model(ids, use_cache=False)
    for handle in handles:
        handle.remove()
    return margin


def random_model(case, lengths, seed=0):
    """(the case's model with random weights, sequences of these lengths)"""
    config = case.config()
    generator = torch.Generator().manual_seed(zlib.crc32(str(case).encode()) + seed)
    model = from_config(config)
    randomize(model, generator)
    return model, [torch.randint(0, config.vocab_size, (length,), generator=generator)
                   for length in lengths]


def make_model(case):
    """(the case's model with random weights, sequences to run it on)"""
    for seed in range(100):
        model, sequences = random_model(case, LENGTHS, seed)
        if routing_margin(model, sequences) > ROUTING_MARGIN and clip_margin(model, sequences) > CLIP_MARGIN:
            return model, sequences
    raise AssertionError(f"{case}: in each of 100 random models two experts tie, or a value is at the clip")


def round_to_bfloat16(model):
    """Parameters alone: tables of rotary positions stay as they are."""
    for parameter in model.parameters():
        parameter.data = parameter.data.bfloat16().float()


def save_batch(sequences, path):
    """Writes the batch as conformance_tool reads it."""
    lengths = torch.tensor([len(ids) for ids in sequences], dtype=torch.int32)
    save_file({"input_ids": torch.cat(sequences).int(), "lengths": lengths}, path)


def logits_and_loss(model, sequences):
    """Returns the logits of all sequences, [T, V], and the summed loss. The load-balancing loss of transformers is a
    mean over tokens like the rest of its loss. Gradients are left in the model."""
    logits, loss = [], torch.zeros((), device=model.device)
    for ids in each_example(model, sequences):
        num_labels = ids.shape[1] - 1
        out = model(ids, labels=ids if num_labels else None, use_cache=False)
        logits.append(out.logits[0].detach())
        if num_labels:
            loss = loss + out.loss * num_labels
    loss.backward()
    return torch.cat(logits), loss.detach()


def save_gradients(model, folder):
    """As files of weights, so that names and layouts are those of files. The model is used up."""
    for parameter in model.parameters():
        gradient = parameter.grad
        parameter.data = torch.zeros_like(parameter) if gradient is None else gradient
    for constant in constants_of(model):
        constant.zero_()
    model.save_pretrained(folder)
