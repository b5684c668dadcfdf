#include "training/plan/step_time_model.h"

#include <algorithm>
#include <cmath>

#include "framework/config/offload.h"
#include "models/block/encoded_layout.h"
#include "models/decoder/decoder.h"
#include "models/decoder/head_block.h"
#include "models/estimates/layer_tapes.h"
#include "models/estimates/saved_activations.h"
#include "training/optimizers/parameter_groups.h"
#include "training/setup/model_source.h"
#include "training/setup/run_device.h"

namespace packtrain {
namespace {

struct DeviceRates {
  double narrow_flops;         // a second, of bfloat16 products
  double wide_flops;           // a second, of float32 products
  double memory_bytes;         // a second
  double communication_bytes;  // a second, to and from a rank
  double host_copy_bytes;      // a second in each direction
};

constexpr DeviceRates kGpu = {6.0e14, 5.0e13, 2.5e12, 1.5e11, kHostCopyBytesPerSecond};
constexpr DeviceRates kCpu = {1.0e11, 1.0e11, 2.0e10, 2.0e9, 1.0e10};
// Products of 8-bit floats with their casts are 1.53 to 1.77 times as fast. That is for layers of
// 8B parameters and 16,384 tokens on an H100 (docs/performance.md). CPUs compute in float32.
constexpr double kFp8Speedup = 1.6;
// Small products lose as much time as this number of tokens takes. With it a model of 8B parameters
// reaches 3 % fewer tokens a second in micro-batches of 2,048 tokens than in those of 16,384.
constexpr double kTokensLost = 80;
// Kernels of a reduction use SMs and memory. Products that run with the ring's take 1.21 times
// as long on H200s, and the reduction 1.32 times.
constexpr double kLostToReductions = 0.28;
// A backward has two products for each one of forward. Frozen weights have no gradient.
constexpr double kProducts = 3;
constexpr double kFrozenProducts = 2;

struct TokenFlops {
  double of_forward = 0;
  double of_step = 0;
};

// The operations of bfloat16 products that take as long.
TokenFlops token_flops(const ShapeTape& tape, double mean_length, bool on_gpu) {
  TokenFlops flops;
  const double saved = on_gpu ? 1 - 1 / kFp8Speedup : 0;
  const auto add = [&](double multiply_adds, double products) {
    flops.of_forward += 2 * multiply_adds;
    flops.of_step += 2 * products * multiply_adds;
  };
  for (const Operator& step : tape.operators()) {
    add(static_cast<double>(step.multiply_adds.of_rows), kProducts);
    add(static_cast<double>(step.multiply_adds.of_frozen_rows), kFrozenProducts);
    add(static_cast<double>(step.multiply_adds.of_squares) * mean_length, kProducts);
    add(-saved * static_cast<double>(step.multiply_adds.of_fp8_rows),
        step.multiply_adds.num_fp8_products);
  }
  return flops;
}

double saved_bytes(const ShapeTape& tape, const RecomputePolicy& policy) {
  return static_cast<double>(total_bytes(saved_activations(tape, policy)));
}

}  // namespace

StepWork step_work(const Config& config, const TokenStore* store, int num_ranks) {
  const auto longest = static_cast<double>(config.data.max_length);
  StepWork work{0, longest};
  if (store != nullptr && !store->lengths().empty()) {
    double total = 0;
    for (const std::int32_t length : store->lengths()) {
      total += std::min(longest, static_cast<double>(length));
    }
    work.mean_length = total / static_cast<double>(store->lengths().size());
  }
  const BatchSection& batch = config.batch;
  const double row = traits_of(batch.strategy).makes_own_steps ? longest : work.mean_length;
  const double tokens = batch.global_batch_tokens
                            ? static_cast<double>(*batch.global_batch_tokens)
                            : static_cast<double>(batch.global_batch_size.value_or(1)) * row;
  work.num_tokens = std::max(1.0, tokens / num_ranks);
  return work;
}

StepTimeModel::StepTimeModel(const Config& config, const DecoderConfig& decoder,
                             const MemoryRanks& ranks, const StepWork& work)
    : work_(work),
      on_gpu_(ranks.device == DeviceKind::kCuda),
      is_narrow_(config.precision.compute == Precision::kBFloat16),
      reduces_once_(config.parallel.accumulate == Accumulate::kLocal) {
  MicroBatchShape one_row;
  one_row.num_rows = one_row.num_supervised_rows = one_row.max_rows = 1;
  one_row.on_gpu = on_gpu_;
  one_row.compute = scalar_type(config.precision.compute);
  const LayerTapes tapes(decoder, one_row);
  for (std::int64_t i = 0; i < tapes.num_layers(); ++i) {
    const ShapeTape& tape = tapes.layer(i);
    const TokenFlops flops = token_flops(tape, work.mean_length, on_gpu_);
    layers_.push_back({flops.of_forward, flops.of_step,
                       saved_bytes(tape, RecomputePolicy::none()) -
                           saved_bytes(tape, RecomputePolicy::selective())});
  }
  head_flops_ = token_flops(head_shapes(decoder, one_row), 0, on_gpu_).of_step;
  const int shard_size = ranks.shard_size > 0 ? ranks.shard_size : ranks.num_ranks;
  if (shard_size > 1) add_communication(config, decoder, shard_size);
  const auto state = ParameterGroups(config.optimizer).state();
  const double of_block = static_cast<double>(state_bytes(state, kStateBlock));
  const double master = is_narrow_ ? sizeof(float) : 0;
  state_bytes_ = static_cast<double>(num_trained_parameters(decoder)) / shard_size *
                 (master + of_block / kStateBlock);
}

void StepTimeModel::add_communication(const Config& config, const DecoderConfig& decoder,
                                      int shard_size) {
  const double from_others = 1.0 - 1.0 / shard_size;
  const bool gathers = config.parallel.zero_stage == 3;
  const double reduced = config.precision.reduce == Precision::kFloat32 ? 4 : 2;
  for (const auto& block : make_decoder(decoder, decoder_options(config, decoder))) {
    for (const ParameterSpec& parameter : block->parameters()) {
      const auto numel = static_cast<double>(parameter.numel());
      if (gathers) {
        gather_bytes_ += from_others * static_cast<double>(stored_numel(parameter)) *
                         static_cast<double>(size_of(gathered_type(parameter)));
      }
      if (parameter.trainable) reduce_bytes_ += from_others * reduced * numel;
    }
  }
}

double StepTimeModel::compute_seconds(const RecomputeByLayer& recompute, double num_tokens) const {
  const DeviceRates& rates = on_gpu_ ? kGpu : kCpu;
  double flops = head_flops_;  // of a token
  double bytes = 0;            // of a token
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const bool is_first = static_cast<std::int64_t>(i) < recompute.num_first;
    const Recompute policy = is_first ? recompute.first : recompute.rest;
    flops += layers_[i].step_flops + (policy == Recompute::kFull ? layers_[i].forward_flops : 0);
    // A value is computed again from one of its size. Its first time is not counted.
    if (policy != Recompute::kNone) bytes += 2 * layers_[i].selective_bytes;
  }
  const double flop_rate = is_narrow_ ? rates.narrow_flops : rates.wide_flops;
  return (num_tokens + kTokensLost) * flops / flop_rate + num_tokens * bytes / rates.memory_bytes;
}

double StepTimeModel::communication_seconds(int gather_slots, bool reduces) const {
  const DeviceRates& rates = on_gpu_ ? kGpu : kCpu;
  const auto num_layers = static_cast<double>(std::max<std::size_t>(1, layers_.size()));
  const double gathered = std::max(0.0, 1 - gather_slots / num_layers);
  const double reduced = reduces ? reduce_bytes_ : 0;
  return (2 * gathered * gather_bytes_ + reduced) / rates.communication_bytes;
}

double StepTimeModel::seconds(const MemorySettings& settings) const {
  const double count = num_micro_batches(settings);
  const double compute = compute_seconds(settings.recompute, work_.num_tokens / count);
  const double last = std::max(compute, communication_seconds(settings.gather_slots, true));
  const double other =
      std::max(compute, communication_seconds(settings.gather_slots, !reduces_once_));
  return last + (count - 1) * other + state_copy_seconds(settings);
}

double StepTimeModel::state_copy_seconds(const MemorySettings& settings) const {
  if (!offloads_optimizer(settings.offload)) return 0;
  return state_bytes_ / (on_gpu_ ? kGpu : kCpu).host_copy_bytes;
}

double StepTimeModel::num_micro_batches(const MemorySettings& settings) const {
  if (work_.num_micro_batches) return std::max(1.0, *work_.num_micro_batches);
  const double max_tokens = static_cast<double>(std::max<std::int64_t>(1, settings.max_tokens));
  return std::max(1.0, std::ceil(work_.num_tokens / max_tokens));
}

double StepTimeModel::reduction_seconds(const MemorySettings& settings) const {
  const double count = reduces_once_ ? 1 : num_micro_batches(settings);
  const DeviceRates& rates = on_gpu_ ? kGpu : kCpu;
  return kLostToReductions * count * reduce_bytes_ / rates.communication_bytes;
}

double StepTimeModel::busy_seconds(const MemorySettings& settings) const {
  const double count = num_micro_batches(settings);
  return count * compute_seconds(settings.recompute, work_.num_tokens / count) +
         reduction_seconds(settings) + state_copy_seconds(settings);
}

}  // namespace packtrain
