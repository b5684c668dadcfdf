// The memory that `packtrain plan` shows, for assumed hosts, devices and micro-batches.
#pragma once

#include <optional>

#include "framework/config/config.h"
#include "framework/data/token_store.h"
#include "launch/cli/plan_hosts.h"
#include "launch/cli/plan_report.h"
#include "training/plan/host_memory_plan.h"
#include "training/plan/memory_limit.h"
#include "training/plan/plan_summary.h"
#include "training/plan/token_budget.h"

namespace packtrain {

// Options of the command line about the machines.
struct DeviceArguments {
  HostArguments hosts;
  std::optional<double> gpu_gib;
};

// Ranks on their hosts, and their device.
struct Assumed {
  AssumedHosts hosts;
  AssumedDevice device;
};

Assumed assume(const Config& config, const DecoderConfig& decoder, const DeviceArguments& given);

MemoryForecast memory_forecast(const Config& config, const DecoderConfig& decoder,
                               const Assumed& assumed, const TokenBudget& budget,
                               const MemoryLoad& load, const HostMemoryLoad& host_load);

// Memory of micro-batches of the token budget with examples of data.max_length. Reads no examples.
MemoryForecast longest_memory_forecast(const Config& config, const DeviceArguments& given);

// Memory of the planned steps.
HostMemoryLoad planned_host_load(const TokenStore& store, const PlanSummary& survey);

}  // namespace packtrain
