#include "training/plan/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "framework/config/load.h"
#include "framework/config/objective_settings.h"
#include "framework/config/offload.h"
#include "framework/core/units.h"
#include "models/decoder/decoder.h"
#include "models/ops/matmul/matmul.h"
#include "parallel/sharding/input_offload.h"
#include "parallel/sharding/owned_layout.h"
#include "parallel/sharding/schedule.h"
#include "parallel/sharding/slot_sizes.h"
#include "parallel/sharding/unit_table.h"
#include "training/optimizers/parameter_groups.h"
#include "training/plan/shared_keys.h"
#include "training/setup/adaptive_recompute.h"
#include "training/setup/model_source.h"
#include "training/setup/reference_model.h"
#include "training/setup/run_device.h"

namespace packtrain {
namespace {

static_assert(kInputsOnDevice == kMaxInputsInFlight + 1,
              "the plan counts the inputs in flight and that of the layer that runs");

constexpr std::int64_t kFloatBytes = 4;
constexpr std::int64_t kMebibyteBytes = std::int64_t{1} << 20;
// Memory that is missing from cudaMemGetInfo's free memory. Measured on H200s (driver 580, CUDA
// 13.0, NCCL 2.28.9, cuDNN 9.19):
// The context needs kContextBytes. Kernels, cuBLASLt and cuDNN need kLibraryBytes once all were
// used. Two NCCL communicators with registered memory need kNcclBytesAlone on one rank and
// kNcclBytes on several. Two and four ranks need the same; 80 MiB less if both communicators use
// rings. A third one, between shard groups, needs kThirdCommunicatorBytes.
constexpr std::int64_t kContextBytes = 528 * kMebibyteBytes;
constexpr std::int64_t kLibraryBytes = 20 * kMebibyteBytes;
constexpr std::int64_t kNcclBytesAlone = 1040 * kMebibyteBytes;
constexpr std::int64_t kNcclBytes = 1500 * kMebibyteBytes;
constexpr std::int64_t kThirdCommunicatorBytes = 580 * kMebibyteBytes;
// A row's token, position, label, weight and indices, 4 bytes each.
constexpr std::int64_t kBatchBytesOfRow = 28;

std::int64_t bytes_of(Precision precision) {
  return precision == Precision::kFloat32 ? kFloatBytes : 2;
}

const char* name_of(Precision precision) {
  return precision == Precision::kFloat32 ? "float32" : "bfloat16";
}

std::string number_word(std::size_t number) {
  constexpr std::array kWords = {"none", "one", "two"};
  return number < kWords.size() ? kWords[number] : std::to_string(number);
}

std::int64_t sum(const std::vector<std::int64_t>& values) {
  std::int64_t total = 0;
  for (const std::int64_t value : values) total += value;
  return total;
}

void add(std::vector<MemoryEntry>& entries, std::string name, std::int64_t bytes,
         std::string what) {
  if (bytes > 0) entries.push_back({std::move(name), bytes, std::move(what)});
}

}  // namespace

std::int64_t sum_bytes(const std::vector<MemoryEntry>& entries) {
  std::int64_t total = 0;
  for (const MemoryEntry& entry : entries) total += entry.bytes;
  return total;
}

std::int64_t MemoryPlan::allocated_bytes() const {
  return sum_bytes(allocated);
}

std::int64_t MemoryPlan::outside_bytes() const {
  return sum_bytes(outside);
}

MemoryRanks memory_ranks(const Device& device, int num_ranks, int shard_size) {
  MemoryRanks ranks{device.kind(), num_ranks, shard_size};
  if (device.kind() == DeviceKind::kCuda) {
    ranks.taken_bytes = static_cast<std::int64_t>(device.total_memory_bytes()) -
                        static_cast<std::int64_t>(device.available_memory_bytes());
  }
  return ranks;
}

MemoryPlanner::MemoryPlanner(const Config& config, const DecoderConfig& decoder,
                             const MemoryRanks& ranks)
    : config_(config),
      decoder_(decoder),
      ranks_(ranks),
      policies_(policies_by_rows(config, decoder, ranks.device)) {
  if (ranks_.shard_size == 0) ranks_.shard_size = ranks_.num_ranks;
  find_sizes();
  find_reference();
}

// Its weights and its slots. Its forward passes need less than a step of the trained model.
void MemoryPlanner::find_reference() {
  if (reference_source(config_) != ReferenceSource::kModel) return;
  const Config own = reference_config(config_);
  const MemoryPlanner reference(own, reference_decoder(config_), ranks_);
  MemoryPlan plan;
  reference.add_state(/*several_micro_batches=*/false, plan);
  if (reference.is_sharded()) reference.add_slots(plan);
  reference_bytes_ = plan.allocated_bytes();
}

// The sizes that were found do not depend on these.
void MemoryPlanner::change(const RecomputeByLayer& recompute,
                           std::optional<std::int64_t> max_tokens) {
  config_.memory.recompute = recompute;
  config_.batch.max_tokens_per_micro_batch = max_tokens;
  policies_ = policies_by_rows(config_, decoder_, ranks_.device);
}

void MemoryPlanner::find_sizes() {
  const auto blocks = make_decoder(decoder_, decoder_options(config_, decoder_));
  ParameterGroups(config_.optimizer).check(blocks);
  const UnitTable table = make_unit_table(blocks, ranks_.shard_size);
  const SlotTable slots =
      make_slot_table(table, {config_.parallel.zero_stage, sharding_options(config_).gather_slots,
                              config_.parallel.resident_embeddings, ranks_.shard_size});
  const OwnedLayout owned = make_owned_layout(table, offloads_optimizer(config_.memory.offload));
  sizes_.trainable = owned.trainable_numel;
  sizes_.master_bytes = owned.master_bytes();
  sizes_.weight_bytes = owned.trainable_copy_bytes();
  state_specs_ = sharding_options(config_).optimizer_state;
  sizes_.state_bytes = most_state_bytes(table, state_specs_, ranks_.shard_size);
  sizes_.matrices =
      matrix_memory(table, config_.optimizer, ranks_.shard_size, ranks_.num_ranks, ranks_.device);
  for (const WeightBuffer& buffer : owned.buffers) {
    if (buffer.trainable) continue;
    const bool is_encoded = !buffer.encoding.is_plain();
    (is_encoded ? sizes_.encoded_bytes : sizes_.frozen_bytes) += buffer.size_bytes();
  }
  if (offloads_optimizer(config_.memory.offload)) find_offloaded_sizes(table, owned);
  for (const Unit& unit : table.units) sizes_.local_sums += unit.trainable_numel();
  sizes_.decoded_weight = largest_encoded_numel(table);
  const SlotSizes of_slots = slot_sizes(table, slots);
  num_weight_slots_ = slots.num_weight_slots;
  num_grad_slots_ = slots.num_grad_slots;
  sizes_.weight_slot_bytes = sum(of_slots.weight_bytes);
  sizes_.sent_codes = of_slots.largest_codes;
  sizes_.grad_slots = sum(of_slots.gradients);
  sizes_.reduce_output = of_slots.largest_shard;
}

MemoryPlan MemoryPlanner::plan(const MemoryLoad& load) const {
  MemoryPlan plan;
  add_state(load.several_micro_batches, plan);
  add(plan.allocated, "reference model", reference_bytes_, "frozen weights and their slots");
  plan.shared_bytes = plan.allocated_bytes();
  const std::string base = config_value(config_, "model.base");
  add(plan.allocated, "decoded weight", sizes_.decoded_weight * bytes_of(config_.precision.compute),
      fmt::format("{}, the largest of {}", name_of(config_.precision.compute), base));
  if (is_sharded()) add_slots(plan);
  add_step(load, plan);
  if (ranks_.device == DeviceKind::kCuda) add_outside(plan);
  return plan;
}

void MemoryPlanner::add_state(bool several_micro_batches, MemoryPlan& plan) const {
  const Precision compute = config_.precision.compute;
  auto& entries = plan.allocated;
  add_masters(plan);
  add(entries, "weights", sizes_.weight_bytes, fmt::format("{}, owned", name_of(compute)));
  add(entries, "frozen weights", sizes_.frozen_bytes, fmt::format("{}, owned", name_of(compute)));
  const bool is_nf4 = config_.model.base == BaseStorage::kNf4;
  add(entries, is_nf4 ? "frozen weights, nf4" : "frozen weights, fp8", sizes_.encoded_bytes,
      is_nf4 ? "4 bits and scales, owned" : "8 bits and a scale, owned");
  add_moments(plan);
  add(entries, "matrices", sizes_.matrices.buffers, sizes_.matrices.buffers_text);
  // Sharded gradients have memory for a float32 sum from the start, unless they are reduced once.
  const bool wide = is_sharded() ? !sums_locally() : several_micro_batches;
  const Precision gradient = wide ? Precision::kFloat32 : config_.precision.reduce;
  add(entries, "gradient", sizes_.trainable * bytes_of(gradient),
      fmt::format("{}, owned", name_of(gradient)));
}

std::string MemoryPlanner::moments_text() const {
  const bool all_have_all =
      std::ranges::all_of(state_specs_, [](const auto& spec) { return spec.optimizers.empty(); });
  return fmt::format("{}{}, {}", all_have_all ? "" : "up to ", number_word(state_specs_.size()),
                     config_value(config_, "optimizer.moments"));
}

void MemoryPlanner::add_slots(MemoryPlan& plan) const {
  const Precision compute = config_.precision.compute;
  const Precision reduce = config_.precision.reduce;
  auto& entries = plan.allocated;
  add(entries, "gather slots", sizes_.weight_slot_bytes,
      fmt::format("{} of {}{}{}", num_weight_slots_, name_of(compute),
                  sizes_.encoded_bytes > 0 ? " and " + config_value(config_, "model.base") : "",
                  sizes_.sent_codes > 0 ? " and e4m3" : ""));
  add(entries, "codes sent", sizes_.sent_codes, "e4m3, the largest unit's shard");
  add(entries, "gradient slots", sizes_.grad_slots * bytes_of(reduce),
      fmt::format("{} of {}", num_grad_slots_, name_of(reduce)));
  add(entries, "local gradient sums", sums_locally() ? sizes_.local_sums * kFloatBytes : 0,
      "float32, of all parameters, reduced once a step");
  add(entries, "reduce output", sizes_.reduce_output * bytes_of(reduce),
      fmt::format("{}, the largest unit's shard", name_of(reduce)));
  const bool copies = ranks_.device == DeviceKind::kCuda &&
                      reduce_options(config_).path == CollectivePath::kCopyEngine;
  add(entries, "reduce scratch",
      copies ? ranks_.shard_size * sizes_.reduce_output * bytes_of(reduce) : 0,
      fmt::format("{}, the largest unit", name_of(reduce)));
}

void MemoryPlanner::add_step(const MemoryLoad& load, MemoryPlan& plan) const {
  const bool on_gpu = ranks_.device == DeviceKind::kCuda;
  const bool sums_micro_batches = !is_sharded() || sums_locally();
  const bool wide_gradient = sums_micro_batches && load.several_micro_batches;
  MicroBatchShape size = assumed_shape(config_, ranks_.device, load.num_rows);
  if (load.num_supervised_rows) size.num_supervised_rows = *load.num_supervised_rows;
  if (load.num_sequences > 0) size.num_sequences = load.num_sequences;
  size.max_rows = std::max(load.num_rows, load.largest_num_rows);
  const KeyBound keys = key_bound(config_, load.num_rows);
  size.num_keys = load.num_keys.value_or(keys.num_keys);
  plan.num_keys = size.num_keys;
  plan.keys_basis = load.num_keys ? "of the planned micro-batches" : keys.basis;
  size.max_keys = std::max(size.num_keys, load.largest_num_keys);
  if (wide_gradient) size.narrow_head_gradient = false;
  const LayerPolicies policies = policies_.of_rows(load.num_rows);
  const std::vector<MemoryPeak> moments = memory_peaks(decoder_, policies, size);
  const MemoryPeak& most = *std::ranges::max_element(moments, {}, &MemoryPeak::bytes);
  plan.moment = most.name;
  if (policies.inputs_on_host) {
    plan.offloaded_bytes = (decoder_.num_layers - 1) * load.num_rows * decoder_.stream_width() *
                           bytes_of(config_.precision.compute);
  }
  plan.layer_values = layer_saved_activations(decoder_, policies, size);
  auto& entries = plan.allocated;
  std::vector<MemoryEntry> activations;
  add(activations, "activations", most.kept,
      fmt::format("{} layers, {} rows", decoder_.num_layers, load.num_rows));
  for (const SavedActivation& value : most.in_use) {
    add(activations, value.name, value.bytes, "in the " + most.name);
  }
  entries.insert(entries.end(), activations.begin(), activations.end());
  add(entries, "orthogonalisation", sizes_.matrices.workspace - sum_bytes(activations),
      sizes_.matrices.workspace_text);
  add(entries, "micro-batch", load.num_rows * kBatchBytesOfRow, "tokens, labels, boundaries");
  if (on_gpu) add(entries, "matmul workspace", kMatmulWorkspaceBytes, "cuBLASLt");
}

void MemoryPlanner::add_outside(MemoryPlan& plan) const {
  const bool has_replicas = ranks_.shard_size < ranks_.num_ranks;
  const std::int64_t nccl = ranks_.num_ranks == 1 ? kNcclBytesAlone : kNcclBytes;
  add(plan.outside, "context", ranks_.taken_bytes.value_or(kContextBytes),
      ranks_.taken_bytes ? "in use before the run allocates" : "CUDA's, assumed");
  add(plan.outside, "libraries", kLibraryBytes, "kernels, cuBLASLt, cuDNN");
  // A second model has communicators of its own.
  const int num_of_model = has_replicas ? 3 : 2;
  const int num_others = num_of_model - 2 + (reference_bytes_ > 0 ? num_of_model : 0);
  constexpr std::array kNumbers = {"two", "three", "four", "five", "six"};
  add(plan.outside, "NCCL", nccl + num_others * kThirdCommunicatorBytes,
      fmt::format("its kernels and {} communicators", kNumbers.at(num_others)));
}

std::string sharing_advice(const MemoryPlan& plan, const MemoryRanks& ranks,
                           std::int64_t limit_bytes) {
  if (plan.total() - plan.shared_bytes >= limit_bytes) return {};
  const bool has_replicas = ranks.shard_size > 0 && ranks.shard_size < ranks.num_ranks;
  if (!has_replicas) return "use more ranks";
  return fmt::format("raise parallel.shard_size ({} of {} ranks share one copy of the state)",
                     ranks.shard_size, ranks.num_ranks);
}

std::string memory_shortage(const MemoryPlan& plan, const MemoryRanks& ranks,
                            std::int64_t device_bytes, const std::string& remedies) {
  if (device_bytes == 0 || plan.total() <= device_bytes) return {};
  const std::string sharing = sharing_advice(plan, ranks, device_bytes);
  return fmt::format(
      "memory: planned {:.2f} GiB, the device has {:.2f}; steps whose memory ends are made again "
      "in more micro-batches, and freeing memory on the way costs time\n"
      "  Set batch.max_tokens_per_micro_batch: auto or lower, memory.recompute: selective or "
      "full{}{}.{}{}",
      static_cast<double>(plan.total()) / kGibibyte, static_cast<double>(device_bytes) / kGibibyte,
      sharing.empty() ? "" : ", or ", sharing, remedies.empty() ? "" : "\n  What fits: ", remedies);
}

}  // namespace packtrain
