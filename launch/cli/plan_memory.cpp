#include "launch/cli/plan_memory.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "models/decoder/decoder.h"
#include "training/plan/gather_slots.h"
#include "training/plan/memory_suggestions.h"
#include "training/setup/model_source.h"
#include "training/setup/training_store.h"

namespace packtrain {

Assumed assume(const Config& config, const DecoderConfig& decoder, const DeviceArguments& given) {
  AssumedHosts hosts = assumed_hosts(config, given.hosts, num_cuda_devices());
  AssumedDevice device = assume_device(config, decoder, hosts.hosts, given.gpu_gib);
  return {std::move(hosts), std::move(device)};
}

MemoryForecast memory_forecast(const Config& config, const DecoderConfig& decoder,
                               const Assumed& assumed, const TokenBudget& budget,
                               const MemoryLoad& load, const HostMemoryLoad& host_load) {
  const AssumedDevice& device = assumed.device;
  Config found = config;
  found.parallel.gather_slots = assumed_gather_slots(config, decoder, budget.tokens, device);
  const MemoryPlanner planner(found, decoder, device.ranks);
  MemoryForecast outlook{.num_parameters = num_parameters(decoder),
                         .num_trained = num_trained_parameters(decoder),
                         .num_ranks = device.ranks.num_ranks,
                         .hosts = device.hosts,
                         .ranks = device.ranks,
                         .hosts_basis = assumed.hosts.basis,
                         .budget = budget,
                         .plan = planner.plan(load),
                         .gpu_bytes = device.gpu_bytes,
                         .host = {},
                         .checkpoints = {},
                         .remedies = {}};
  outlook.host =
      plan_host_memory(config, device.ranks, device.hosts.ranks_per_host, outlook.plan, host_load);
  outlook.checkpoints = plan_checkpoints(config, device.ranks, outlook.plan);
  if (device.gpu_bytes > 0 || config.memory.limit_gib) {
    const MemoryLimit limit = assumed_memory_limit(config.memory, device);
    outlook.remedies = memory_suggestions(found, decoder, device.ranks, load, limit);
  }
  return outlook;
}

namespace {

// Returns nothing where a store is missing.
std::optional<std::int64_t> num_training_examples(const DataSection& data) {
  const auto is_here = [](const TrainStore& store) {
    return std::filesystem::exists(store.path + "/store.json");
  };
  if (data.train.empty() || !std::ranges::all_of(data.train, is_here)) return std::nullopt;
  return static_cast<std::int64_t>(open_training_store(data)->lengths().size());
}

// The memory of steps of examples of data.max_length.
HostMemoryLoad longest_host_load(const Config& config, int num_ranks, std::int64_t num_rows) {
  const BatchSection& batch = config.batch;
  const std::int64_t length = config.data.max_length;
  const std::int64_t examples = batch.global_batch_size.value_or(
      std::max<std::int64_t>(1, batch.global_batch_tokens.value_or(0) / length));
  const std::int64_t a_rank = (examples + num_ranks - 1) / num_ranks;
  const std::int64_t fit = std::max<std::int64_t>(1, num_rows / length);
  return {num_training_examples(config.data), num_rows, (a_rank + fit - 1) / fit, examples};
}

}  // namespace

MemoryForecast longest_memory_forecast(const Config& config, const DeviceArguments& given) {
  const DecoderConfig decoder = find_model(config).decoder;
  const Assumed assumed = assume(config, decoder, given);
  const TokenBudget budget = assumed_token_budget(config, decoder, assumed.device);
  const std::int64_t most = max_useful_tokens(config, assumed.device.ranks.num_ranks);
  return memory_forecast(config, decoder, assumed, budget,
                         {.num_rows = budget.tokens, .several_micro_batches = budget.tokens < most},
                         longest_host_load(config, assumed.device.ranks.num_ranks, budget.tokens));
}

HostMemoryLoad planned_host_load(const TokenStore& store, const PlanSummary& survey) {
  const std::int64_t steps = std::max<std::int64_t>(1, survey.num_steps());
  return {static_cast<std::int64_t>(store.lengths().size()), survey.max_rows_in_micro_batch(),
          (survey.num_micro_batches() + steps - 1) / steps,
          (survey.num_examples() + steps - 1) / steps};
}

}  // namespace packtrain
