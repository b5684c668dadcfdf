// The plans of several adapters that are trained together, joined to one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "framework/config/config.h"
#include "framework/data/token_store.h"
#include "models/layers/decoder_config.h"
#include "samplers/options.h"
#include "samplers/planner.h"
#include "samplers/selection.h"

namespace packtrain {

// Several adapters: the configuration of each one's own run, and its store. The joined store has
// these one after another. Both are empty for one adapter or none.
struct AdapterStores {
  std::span<const Config> configs;
  std::span<const std::unique_ptr<TokenStore>> stores;
};

struct AdapterPlans {
  std::unique_ptr<Planner> planner;     // its step k has step k of each
  std::vector<std::int64_t> num_steps;  // of each adapter's own run
  SelectionCounts losses;               // of an epoch of each
};

// The number of steps of an adapter's own run.
using CountSteps = std::function<std::int64_t(const Planner& planner, const RunSection& run)>;

// Each adapter has the batches and the number of steps of its own run. Ranks, budget and version of
// the order are those of `options`. The stores must outlive the result.
AdapterPlans join_adapter_plans(const PlanOptions& options, const DecoderConfig& decoder,
                                const AdapterStores& adapters, const CountSteps& count_steps);

}  // namespace packtrain
