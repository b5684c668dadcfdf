#include "samplers/strategies/strategy.h"

#include <array>

#include "framework/core/error.h"
#include "samplers/batches/file_steps.h"
#include "samplers/batches/packs.h"
#include "samplers/batches/rows.h"
#include "samplers/batches/whole_examples.h"
#include "samplers/strategies/balanced.h"
#include "samplers/strategies/file.h"
#include "samplers/strategies/fixed_length.h"
#include "samplers/strategies/multipack.h"
#include "samplers/strategies/padding.h"
#include "samplers/strategies/padding_free.h"

namespace packtrain {
namespace {

constexpr std::array kStrategies = {
    StrategyEntry{Strategy::kPadding, check_padding, make_whole_example_batches,
                  whole_example_steps, assign_padding},
    StrategyEntry{Strategy::kPaddingFree, check_padding_free, make_whole_example_batches,
                  whole_example_steps, assign_padding_free},
    StrategyEntry{Strategy::kFixedLength, check_fixed_length, make_rows, row_steps,
                  assign_balanced},
    StrategyEntry{Strategy::kMultipack, check_multipack, make_packs, pack_steps, assign_multipack},
    StrategyEntry{Strategy::kBalanced, check_balanced, make_whole_example_batches,
                  whole_example_steps, assign_balanced},
    StrategyEntry{Strategy::kFile, check_file, make_file_steps, file_steps, assign_file},
};

}  // namespace

const StrategyEntry& find_strategy(Strategy strategy) {
  for (const StrategyEntry& entry : kStrategies) {
    if (entry.strategy == strategy) return entry;
  }
  throw Error(ErrorCategory::kInternal,
              "this strategy is missing from the table in samplers/strategies");
}

Assignment empty_assignment(int num_ranks, std::int64_t num_micro_batches) {
  return Assignment(static_cast<std::size_t>(num_ranks),
                    std::vector<MicroBatch>(static_cast<std::size_t>(num_micro_batches)));
}

}  // namespace packtrain
