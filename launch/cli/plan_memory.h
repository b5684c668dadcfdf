// The memory that `packtrain plan` shows, for assumed hosts, devices and micro-batches.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "framework/config/config.h"
#include "framework/data/token_store.h"
#include "launch/cli/plan_hosts.h"
#include "launch/cli/plan_report.h"
#include "training/plan/accumulation.h"
#include "training/plan/host_memory_plan.h"
#include "training/plan/memory_limit.h"
#include "training/plan/plan_summary.h"
#include "training/plan/token_budget.h"

namespace packtrain {

// Options of the command line about the machines.
struct DeviceArguments {
  HostArguments hosts;
  std::optional<double> gpu_gib;
  std::optional<double> host_gib;       // available memory of a host
  std::optional<double> host_copy_gbs;  // 10^9 bytes a second each way between host and GPU
};

// Ranks on their hosts, and their device.
struct Assumed {
  AssumedHosts hosts;
  AssumedDevice device;
  std::optional<double> host_copy_gbs = {};  // as given
};

Assumed assume(const Config& config, const DecoderConfig& decoder, const DeviceArguments& given);

// The configuration of a run on the assumed device.
struct FittedConfig {
  Config config;  // with what memory.fit chooses
  TokenBudget budget;
  std::string fit;       // what it chooses and the next, for people; empty: it chooses nothing
  std::string remedies;  // when it finds nothing that fits: what would
  std::optional<FittedMemory> fitted = {};
};
// `store`: the training data; may be nullptr.
FittedConfig fit_config(const Config& config, const DecoderConfig& decoder, const Assumed& assumed,
                        const TokenStore* store);

// parallel.accumulate of a run of these steps, in the place of `auto`. `given`: the configuration
// before fit_config().
void resolve_accumulation(const Config& given, const DecoderConfig& decoder, const Assumed& assumed,
                          const TokenStore* store, const std::function<MicroBatchCounts()>& count,
                          FittedConfig& fitted);

MemoryForecast memory_forecast(const FittedConfig& fitted, const DecoderConfig& decoder,
                               const Assumed& assumed, const MemoryLoad& load,
                               const HostMemoryLoad& host_load);

// Memory of micro-batches of the token budget with examples of data.max_length. Reads no examples
// but rollouts, whose shared prompts it compares (shared_keys.h).
MemoryForecast longest_memory_forecast(Config config, const DeviceArguments& given);

// Memory of the planned steps.
HostMemoryLoad planned_host_load(const TokenStore& store, const PlanSummary& survey);

}  // namespace packtrain
