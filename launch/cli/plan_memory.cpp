#include "launch/cli/plan_memory.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "framework/config/recompute.h"
#include "framework/data/store_parts.h"
#include "models/decoder/decoder.h"
#include "training/plan/gather_slots.h"
#include "training/plan/memory_fit.h"
#include "training/plan/memory_suggestions.h"
#include "training/plan/near_configurations.h"
#include "training/plan/shared_keys.h"
#include "training/setup/model_source.h"
#include "training/setup/training_store.h"

namespace packtrain {

namespace {

void set_fitted(const FittedMemory& chosen, FittedConfig& fitted) {
  fitted.fitted = chosen;
  fitted.config.memory.recompute = chosen.recompute;
  fitted.config.parallel.gather_slots = chosen.gather_slots;
  fitted.config.memory.offload = chosen.offload;
}

}  // namespace

Assumed assume(const Config& config, const DecoderConfig& decoder, const DeviceArguments& given) {
  AssumedHosts hosts = assumed_hosts(config, given.hosts, num_cuda_devices());
  AssumedDevice device = assume_device(config, decoder, hosts.hosts, given.gpu_gib, given.host_gib);
  return {std::move(hosts), std::move(device), given.host_copy_gbs};
}

FittedConfig fit_config(const Config& config, const DecoderConfig& decoder, const Assumed& assumed,
                        const TokenStore* store) {
  const AssumedDevice& device = assumed.device;
  FittedConfig fitted{config, {}, "", ""};
  if (chooses_memory(config.memory, device.ranks.device)) {
    const FitInput input{config, decoder, device.ranks, assumed_memory_limit(config.memory, device),
                         step_work(config, store, device.ranks.num_ranks)};
    if (const auto choice = fit_memory(input)) {
      const MemorySettings& settings = choice->chosen.settings;
      set_fitted({settings.recompute, settings.gather_slots, settings.offload}, fitted);
      fitted.budget.tokens = settings.max_tokens;
      if (config.batch.max_tokens_per_micro_batch) {
        fitted.config.batch.max_tokens_per_micro_batch = settings.max_tokens;
      } else {
        fitted.budget.limit = input.limit;
      }
      fitted.fit = choice_text(*choice, input.limit);
      return fitted;
    }
    fitted.fit = "memory.fit: nothing fits; train ends before step 1 with exit code 69";
    fitted.remedies = fmt::format("{}", fmt::join(near_configuration_lines(input), "; "));
  }
  fitted.budget = assumed_token_budget(config, decoder, device);
  fitted.config.parallel.gather_slots =
      assumed_gather_slots(config, decoder, fitted.budget.tokens, device);
  return fitted;
}

void resolve_accumulation(const Config& given, const DecoderConfig& decoder, const Assumed& assumed,
                          const TokenStore* store, const std::function<MicroBatchCounts()>& count,
                          FittedConfig& fitted) {
  const AccumulationChoice choice = assumed_accumulation(
      {given, decoder, fitted.budget.tokens,
       step_work(given, store, assumed.device.ranks.num_ranks), count, fitted.fitted},
      assumed.device);
  fitted.config.parallel.accumulate = choice.accumulate;
  if (choice.fit.empty()) return;
  set_fitted(*choice.fitted, fitted);
  fitted.fit = choice.fit;
}

MemoryForecast memory_forecast(const FittedConfig& fitted, const DecoderConfig& decoder,
                               const Assumed& assumed, const MemoryLoad& load,
                               const HostMemoryLoad& host_load) {
  const AssumedDevice& device = assumed.device;
  const Config& config = fitted.config;
  const MemoryPlanner planner(config, decoder, device.ranks);
  MemoryForecast outlook{
      .num_parameters = num_parameters(decoder),
      .num_trained = num_trained_parameters(decoder),
      .num_ranks = device.ranks.num_ranks,
      .hosts = device.hosts,
      .ranks = device.ranks,
      .hosts_basis = assumed.hosts.basis,
      .budget = fitted.budget,
      .plan = planner.plan(load),
      .gpu_bytes = device.gpu_bytes,
      .host = {},
      .checkpoints = {},
      .fit = fitted.fit,
      .recompute = recompute_text(config.memory.recompute.value_or(Recompute::kNone)),
      .gather_slots = *config.parallel.gather_slots,
      .accumulate = name_of(config.parallel.accumulate.value()),
      .remedies = fitted.remedies};
  HostMemoryLoad on_host = host_load;
  if (assumed.host_copy_gbs) on_host.host_copy_bytes = *assumed.host_copy_gbs * 1e9;
  on_host.available_bytes = device.host_bytes;
  outlook.host =
      plan_host_memory(config, device.ranks, device.hosts.ranks_per_host, outlook.plan, on_host);
  outlook.checkpoints = plan_checkpoints(config, device.ranks, outlook.plan);
  const bool has_limit = device.gpu_bytes > 0 || config.memory.limit_gib.has_value();
  if (has_limit && fitted.fit.empty()) {
    const MemoryLimit limit = assumed_memory_limit(config.memory, device);
    outlook.remedies = memory_suggestions(config, decoder, device.ranks, load, limit);
  }
  return outlook;
}

namespace {

// Returns nothing where a store is missing.
std::unique_ptr<TokenStore> find_training_store(const Config& config) {
  const DataSection& data = config.data;
  const auto is_here = [](const TrainStore& store) {
    return std::filesystem::exists(store.path + "/store.json");
  };
  if (data.train.empty() || !std::ranges::all_of(data.train, is_here)) return nullptr;
  return open_training_store(config);
}

// The memory of steps of examples of data.max_length.
HostMemoryLoad longest_host_load(const Config& config, const TokenStore* store, int num_ranks,
                                 std::int64_t num_rows) {
  const BatchSection& batch = config.batch;
  const std::int64_t length = config.data.max_length;
  const std::int64_t examples = batch.global_batch_size.value_or(
      std::max<std::int64_t>(1, batch.global_batch_tokens.value_or(0) / length));
  const std::int64_t a_rank = (examples + num_ranks - 1) / num_ranks;
  const std::int64_t fit = std::max<std::int64_t>(1, num_rows / length);
  std::optional<std::int64_t> num_examples;
  if (store != nullptr) num_examples = num_units_of(*store);
  return {num_examples, num_rows, (a_rank + fit - 1) / fit, examples};
}

}  // namespace

MemoryForecast longest_memory_forecast(Config config, const DeviceArguments& given) {
  const DecoderConfig decoder = find_model(config).decoder;
  const std::unique_ptr<TokenStore> store = find_training_store(config);
  if (store != nullptr) set_keys_of_row(*store, config);
  const Assumed assumed = assume(config, decoder, given);
  FittedConfig fitted = fit_config(config, decoder, assumed, store.get());
  const int num_ranks = assumed.device.ranks.num_ranks;
  const std::int64_t tokens = fitted.budget.tokens;
  const bool several = tokens < max_useful_tokens(config, num_ranks);
  const StepWork work = step_work(config, store.get(), num_ranks);
  const double mean = std::max(1.0, work.num_tokens / static_cast<double>(tokens));
  const auto count = [&] { return MicroBatchCounts{mean, several}; };
  resolve_accumulation(config, decoder, assumed, store.get(), count, fitted);
  return memory_forecast(fitted, decoder, assumed,
                         {.num_rows = tokens, .several_micro_batches = several},
                         longest_host_load(config, store.get(), num_ranks, tokens));
}

HostMemoryLoad planned_host_load(const TokenStore& store, const PlanSummary& survey) {
  const std::int64_t steps = std::max<std::int64_t>(1, survey.num_steps());
  return {num_units_of(store), survey.max_rows_in_micro_batch(),
          (survey.num_micro_batches() + steps - 1) / steps,
          (survey.num_examples() + steps - 1) / steps};
}

}  // namespace packtrain
