// The strategies of batch.strategy, and the answers to what callers ask about one. Code outside
// samplers/ names no strategy: it asks a trait. samplers/strategies implements them.
#pragma once

#include <array>
#include <cstddef>

namespace packtrain {

enum class Strategy { kPadding, kPaddingFree, kFixedLength, kMultipack, kBalanced, kFile };

// The default of batch.strategy, and what `plan` advises instead of another one.
inline constexpr Strategy kDefaultStrategy = Strategy::kBalanced;

struct StrategyTraits {
  Strategy strategy;
  const char* name;  // in the configuration
  // True when the examples of a micro-batch are padded to its longest one. The token budget then
  // counts the padding.
  bool pads_to_longest = false;
  // False when steps are the next examples of the order, the same for all such strategies. True
  // when steps are counted in tokens, or read from a file.
  bool makes_own_steps = false;
  // True when examples are cut into rows of data.max_length tokens.
  bool has_rows = false;
  // True when steps consist of packs. Packs depend on the token budget and on batch.packing_window.
  bool has_packs = false;
  // True when micro-batches have batch.micro_batch_size examples. Otherwise they have as many as
  // the token budget holds.
  bool has_micro_batch_size = false;
  // True when batch.plan_file has the steps. The order and the sizes of batches have no effect.
  bool has_plan_file = false;

  // True when steps hold a number of tokens: batch.global_batch_size then counts rows.
  constexpr bool counts_tokens() const { return makes_own_steps && !has_plan_file; }
};

// In the order of the enumeration. The configuration accepts these names.
inline constexpr std::array kStrategyTraits = {
    StrategyTraits{.strategy = Strategy::kPadding,
                   .name = "padding",
                   .pads_to_longest = true,
                   .has_micro_batch_size = true},
    StrategyTraits{
        .strategy = Strategy::kPaddingFree, .name = "padding_free", .has_micro_batch_size = true},
    StrategyTraits{.strategy = Strategy::kFixedLength,
                   .name = "fixed_length",
                   .makes_own_steps = true,
                   .has_rows = true},
    StrategyTraits{.strategy = Strategy::kMultipack,
                   .name = "multipack",
                   .makes_own_steps = true,
                   .has_packs = true},
    StrategyTraits{.strategy = Strategy::kBalanced, .name = "balanced"},
    StrategyTraits{.strategy = Strategy::kFile,
                   .name = "file",
                   .makes_own_steps = true,
                   .has_plan_file = true},
};

constexpr const StrategyTraits& traits_of(Strategy strategy) {
  return kStrategyTraits.at(static_cast<std::size_t>(strategy));
}

}  // namespace packtrain
