// Keys of the section adapter.
#include "framework/config/schema_sections.h"

namespace packtrain {

std::vector<Field> fields_of(AdapterSection& s) {
  return {
      choice("adapter.kind", s.kind, {{"none", AdapterKind::kNone}, {"lora", AdapterKind::kLora}})
          .means("`lora`: the model is frozen, and low-rank matrices A and B next to its linear "
                 "layers are trained: y = x W^T + scale (x A^T) B^T."),
      text("adapter.name", s.name)
          .means("Name of the adapter. Initial values depend on run.seed and this name. So an "
                 "adapter of `adapters` and one that is trained alone begin with the same values."),
      text("adapter.path", s.path)
          .means("A PEFT folder (adapter_config.json, adapter_model.safetensors) whose adapter is "
                 "trained further. Its own rank, alpha and targets are used."),
      integer("adapter.rank", s.rank, 1).means("Rank of A and B."),
      real("adapter.alpha", s.alpha, {.low = 0, .above = true})
          .means("The update's scale is alpha / rank."),
      flag("adapter.use_rslora", s.use_rslora).means("The scale is alpha / sqrt(rank)."),
      flag("adapter.use_dora", s.use_dora)
          .means("DoRA. Each row of W + scale B A has a length m that is trained too. Then "
                 "y = m / norm * (x W^T + scale (x A^T) B^T)."),
      text_list("adapter.targets", s.targets)
          .means("Modules with an adapter. `all-linear`: every linear layer of attention and MLP. "
                 "A name matches the end of a Hugging Face module's path (`q_proj`, "
                 "`mlp.down_proj`) or of a parameter of `packtrain verify` (`attention.qkv`). A "
                 "name with `*`, which matches any text, matches the whole path. Experts are "
                 "`experts.gate_up_proj` and `experts.down_proj`."),
      text_list("adapter.exclude", s.exclude)
          .means("Modules without an adapter although adapter.targets has them."),
      integer_list("adapter.layers_to_transform", s.layers_to_transform, 0)
          .means("Numbers of the layers with adapters, from 0. Empty: all layers."),
      number_map("adapter.rank_pattern", s.rank_pattern, {.low = 0, .above = true})
          .means("Ranks of some modules, by name as in adapter.targets. The first match counts."),
      number_map("adapter.alpha_pattern", s.alpha_pattern, {.low = 0, .above = true})
          .means("Alphas of some modules, by name. The first match counts."),
      real("adapter.dropout", s.dropout, {.low = 0, .high = 1, .below = true})
          .means("Probability that an element of A's input is dropped in training. The mask of an "
                 "example does not depend on how it is packed."),
      lora_init("adapter.init", s.init)
          .means("Initial values. `default`: A uniform within 1 / sqrt(inputs), B zero. "
                 "`gaussian`: A normal with deviation 1 / rank, B zero. `pissa`: scale B A is the "
                 "part of each weight with the largest singular values, and is subtracted from "
                 "the frozen weight. `pissa_niter_N`: the same by a randomized decomposition with "
                 "N iterations, which is faster. `loftq`: scale B A is the nearest to the error of "
                 "a weight in NF4 (model.base: nf4)."),
      text_list("adapter.save", s.save)
          .means(
              "Modules that are trained whole together with the adapter and saved with it (PEFT's "
              "modules_to_save), such as [lm_head, embed_tokens]."),
  };
}

}  // namespace packtrain
