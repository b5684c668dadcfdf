#include "training/plan/host_memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "framework/config/adapters.h"
#include "framework/core/units.h"
#include "samplers/order.h"
#include "samplers/plan.h"
#include "training/plan/memory_limit.h"
#include "training/plan/step_time_model.h"

namespace packtrain {
namespace {

// Steps whose batches and plans exist at the same time. Three are prepared ahead, one is being
// made, one is in flight, and the outcome of one is read (steps/batch_source.cpp,
// loop/trainer.cpp).
constexpr std::int64_t kStepsHeld = 6;
// Bytes of a batch's row: id, position, label; a supervised row also has an index and a weight.
constexpr std::int64_t kBytesOfRow = 20;
constexpr std::int64_t kMoreRoom = 4;  // buffers are a quarter larger than requested
// Epochs whose order is kept: the current and the next one.
constexpr std::int64_t kEpochsHeld = 2;
constexpr std::int64_t kOrderBytes = 4;    // of an example
constexpr std::int64_t kPackBytes = 4;     // of an example; its pack needs at most as much
constexpr std::int64_t kStoredBytes = 12;  // of an example in a shard: its begin and label count

void add(std::vector<MemoryEntry>& entries, const char* name, std::int64_t bytes,
         std::string what) {
  if (bytes > 0) entries.push_back({name, bytes, std::move(what)});
}

std::int64_t bytes_named(const std::vector<MemoryEntry>& entries, std::string_view name) {
  const auto found = std::ranges::find(entries, name, &MemoryEntry::name);
  return found == entries.end() ? 0 : found->bytes;
}

std::int64_t bytes_named(const MemoryPlan& plan, std::string_view name) {
  return bytes_named(plan.allocated, name);
}

// Of the part that a rank owns, on the device.
std::int64_t saved_device_bytes(const Config& config, const MemoryPlan& device) {
  // The model under an adapter is not saved.
  const std::int64_t frozen = trains_adapter(config)
                                  ? 0
                                  : bytes_named(device, "frozen weights") +
                                        bytes_named(device, "frozen weights, nf4") +
                                        bytes_named(device, "frozen weights, fp8");
  const std::int64_t weights = bytes_named(device, "master weights") + frozen;
  return config.checkpoint.weights_only ? weights : weights + bytes_named(device, "moments");
}

std::int64_t saved_bytes(const Config& config, const MemoryPlan& device) {
  const std::vector<MemoryEntry>& host = device.offloaded_state;
  const std::int64_t moments = config.checkpoint.weights_only ? 0 : bytes_named(host, "moments");
  return saved_device_bytes(config, device) + bytes_named(host, "master weights") + moments;
}

// Initial values of an adapter of PiSSA, by which every checkpoint is larger.
std::int64_t initial_value_bytes(const Config& config, const MemoryPlan& device) {
  if (!config.adapter.init.is_pissa()) return 0;
  return bytes_named(device, "master weights") +
         bytes_named(device.offloaded_state, "master weights");
}

// Source of an asynchronous checkpoint (saving/state_snapshot.h). State in host memory is not
// copied.
std::int64_t snapshot_bytes(const Config& config, const MemoryPlan& device) {
  if (!config.checkpoint.asynchronous || config.checkpoint.save_steps.is_never()) return 0;
  return saved_device_bytes(config, device);
}

std::int64_t order_bytes(const Config& config, std::int64_t num_examples) {
  const bool computed =
      num_examples > kMaxShuffled && config.batch.order != OrderKind::kGroupByLength;
  const std::int64_t tables = computed ? 0 : kOrderBytes;
  const bool packs = traits_of(config.batch.strategy).has_packs;
  return kEpochsHeld * num_examples * (packs ? kOrderBytes + kPackBytes : tables);
}

}  // namespace

std::int64_t HostMemoryPlan::rank_bytes() const {
  return sum_bytes(of_rank);
}

std::int64_t HostMemoryPlan::host_bytes() const {
  return ranks_per_host * rank_bytes() + sum_bytes(of_host);
}

HostMemoryPlan plan_host_memory(const Config& config, const MemoryRanks& ranks, int ranks_per_host,
                                const MemoryPlan& device, const HostMemoryLoad& load) {
  HostMemoryPlan plan;
  plan.ranks_per_host = ranks_per_host;
  plan.counts_examples = load.num_examples.has_value();
  plan.available_bytes = load.available_bytes;
  const bool on_cpu = ranks.device == DeviceKind::kCpu;
  auto& entries = plan.of_rank;
  add(entries, "training", on_cpu ? device.total() : 0, "the rank's memory above");
  add(entries, "activations", device.offloaded_bytes,
      "inputs of layers, until their backward, pinned");
  if (!on_cpu) {
    plan.is_copy_measured = load.host_copy_bytes.has_value();
    plan.host_copy_bytes = load.host_copy_bytes.value_or(kHostCopyBytesPerSecond);
    plan.state_copy_s =
        static_cast<double>(sum_bytes(device.offloaded_state)) / plan.host_copy_bytes;
  }
  for (const MemoryEntry& entry : device.offloaded_state) {
    add(entries, entry.name.c_str(), entry.bytes, entry.what + ", pinned");
  }
  add(entries, "snapshot of the state", snapshot_bytes(config, device),
      "copied to be saved beside the steps");
  add(entries, "initial values of the adapter", initial_value_bytes(config, device),
      "subtracted from the weights, and saved");
  const std::int64_t batch = load.num_rows * kBytesOfRow;
  add(entries, "batches ahead", kStepsHeld * load.num_micro_batches * (batch + batch / kMoreRoom),
      on_cpu ? "of six steps" : "of six steps, pinned");
  add(entries, "step plans",
      kStepsHeld * load.examples_per_step * static_cast<std::int64_t>(sizeof(Piece)),
      "of six steps, of all ranks");
  const std::int64_t num_examples = load.num_examples.value_or(0);
  add(entries, "orders", order_bytes(config, num_examples), "of this epoch and the next");
  add(plan.of_host, "counts of examples", num_examples * kStoredBytes, "mapped, shared by ranks");
  return plan;
}

CheckpointPlan plan_checkpoints(const Config& config, const MemoryRanks& ranks,
                                const MemoryPlan& device) {
  const int num_owners = ranks.shard_size == 0 ? ranks.num_ranks : ranks.shard_size;
  const CheckpointSection& options = config.checkpoint;
  const std::int64_t bytes = saved_bytes(config, device) + initial_value_bytes(config, device);
  return {num_owners * bytes, options.keep + options.keep_best + 1};
}

std::string checkpoint_line(const CheckpointPlan& plan) {
  const auto bytes = static_cast<std::uint64_t>(plan.bytes);
  const auto most = static_cast<std::uint64_t>(plan.max_at_once);
  return fmt::format(
      "a checkpoint: {}; at most {} on disk ({}): checkpoint.keep, keep_best and the one that is "
      "written",
      format_bytes(bytes), most, format_bytes(bytes * most));
}

HostShortage find_host_shortage(const HostMemoryPlan& plan) {
  const auto available = static_cast<double>(plan.available_bytes);
  if (available == 0 || static_cast<double>(plan.host_bytes()) <= kUsableHostShare * available) {
    return {};
  }
  std::string advice = "Take fewer ranks a host, or more hosts";
  const auto add_if = [&](std::string_view entry, const char* setting) {
    if (bytes_named(plan.of_rank, entry) > 0) advice += fmt::format(", or {}", setting);
  };
  add_if("moments", "optimizer.moments: bf16 or int8");
  add_if("activations", "memory.recompute: full without memory.offload: activations");
  add_if("snapshot of the state", "checkpoint.asynchronous: false");
  return {
      fmt::format("a host is to take {:.2f} GiB, and has {:.2f} GiB available, of which a run may "
                  "take {:.0f} %",
                  to_gibibytes(plan.host_bytes()), to_gibibytes(plan.available_bytes),
                  100 * kUsableHostShare),
      advice + "."};
}

std::string host_memory_table(const HostMemoryPlan& plan) {
  const bool is_small = plan.host_bytes() < std::int64_t{1} << 30;
  std::string table;
  const auto line = [&](const std::string& name, std::int64_t bytes, const std::string& what) {
    const auto size = static_cast<double>(bytes) / kMebibyte;
    const std::string amount =
        is_small ? fmt::format("{:.1f} MiB", size) : fmt::format("{:.3f} GiB", size / 1024.0);
    table += fmt::format("  {:<52}{:>13}  {}\n", name, amount, what);
  };
  for (const MemoryEntry& entry : plan.of_rank) line(entry.name, entry.bytes, entry.what);
  line("a rank", plan.rank_bytes(), "");
  for (const MemoryEntry& entry : plan.of_host) line(entry.name, entry.bytes, entry.what);
  if (plan.state_copy_s > 0) {
    table += fmt::format(
        "  {:<52}{:>13}  {}\n", "copies of the optimizer's state",
        fmt::format("{:.3f} s", plan.state_copy_s),
        fmt::format("more for each step, at {:.3g} GB/s each way ({})", plan.host_copy_bytes / 1e9,
                    plan.is_copy_measured ? "given" : "assumed; `packtrain doctor` measures it"));
  }
  line("a host", plan.host_bytes(),
       fmt::format("{} rank{}{}", plan.ranks_per_host, plan.ranks_per_host == 1 ? "" : "s",
                   plan.counts_examples ? "" : "; examples not counted: the stores are not here"));
  if (plan.available_bytes > 0) {
    line("available on a host", plan.available_bytes,
         fmt::format("of which a run may take {:.0f} %", 100 * kUsableHostShare));
  }
  table.pop_back();
  return table;
}

}  // namespace packtrain
