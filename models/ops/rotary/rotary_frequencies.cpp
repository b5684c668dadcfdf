#include "models/ops/rotary/rotary_frequencies.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/bucketize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numbers>
#include <utility>

namespace packtrain {
namespace {

using Kind = RotaryScaling::Kind;

double plain_frequency(double base, std::int64_t i, std::int64_t dim) {
  return std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
}

double llama3_frequency(double frequency, const RotaryScaling& scaling) {
  const double slowed = frequency / scaling.factor;
  const double wavelength = 2.0 * std::numbers::pi / frequency;
  const double num_waves = static_cast<double>(scaling.original_max_positions) / wavelength;
  if (num_waves < scaling.low_frequency_factor) return slowed;
  if (num_waves >= scaling.high_frequency_factor) return frequency;  // Llama 4 has equal factors
  const double blend = (num_waves - scaling.low_frequency_factor) /
                       (scaling.high_frequency_factor - scaling.low_frequency_factor);
  return (1.0 - blend) * slowed + blend * frequency;
}

// Fractional index of the frequency that rotates `num_turns` times within the original length.
double index_turning(double num_turns, const RotaryConfig& config, std::int64_t dim) {
  const double wave =
      static_cast<double>(config.scaling.original_max_positions) / (2.0 * std::numbers::pi);
  return static_cast<double>(dim) * std::log(wave / num_turns) / (2.0 * std::log(config.base));
}

double yarn_frequency(double frequency, std::int64_t i, const RotaryConfig& config,
                      std::int64_t dim) {
  double first = index_turning(config.scaling.beta_fast, config, dim);
  double last = index_turning(config.scaling.beta_slow, config, dim);
  if (config.scaling.truncate) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, static_cast<double>(dim - 1));
  if (first == last) last += 0.001;
  const double slowed = std::clamp((static_cast<double>(i) - first) / (last - first), 0.0, 1.0);
  return frequency * (slowed / config.scaling.factor + (1.0 - slowed));
}

// Exponent of s (see the header) in the factor of frequency i.
double stretch_exponent(std::int64_t i, std::int64_t dim) {
  return -2.0 * static_cast<double>(i) / static_cast<double>(dim - 2);
}

double dynamic_frequency(double frequency, std::int64_t i, const RotaryScaling& scaling,
                         std::int64_t dim, std::int64_t length) {
  const double times =
      static_cast<double>(length) / static_cast<double>(scaling.original_max_positions);
  const double stretch = scaling.factor * std::max(times, 1.0) - (scaling.factor - 1.0);
  return frequency * std::pow(stretch, stretch_exponent(i, dim));
}

double frequency_of(const RotaryConfig& config, std::int64_t i, std::int64_t dim,
                    std::int64_t length) {
  if (!config.rotates) return 0;
  const RotaryScaling& scaling = config.scaling;
  const double plain = plain_frequency(config.base, i, dim);
  switch (scaling.kind) {
    case Kind::kLinear:
      return plain / scaling.factor;
    case Kind::kLlama3:
      return llama3_frequency(plain, scaling);
    case Kind::kDynamic:
      return dynamic_frequency(plain, i, scaling, dim, length);
    case Kind::kYarn:
      return yarn_frequency(plain, i, config, dim);
    case Kind::kLongRope: {
      const bool is_long = length > scaling.original_max_positions;
      const auto& factors = is_long ? scaling.long_factors : scaling.short_factors;
      return plain / factors.at(static_cast<std::size_t>(i));
    }
    case Kind::kProportional: {
      const double num_turning = std::floor(scaling.proportion * static_cast<double>(dim) / 2);
      return static_cast<double>(i) < num_turning ? plain / scaling.factor : 0;
    }
    case Kind::kNone:
      break;
  }
  return plain;
}

std::int64_t next_id() {
  static std::atomic<std::int64_t> last = 0;
  return ++last;
}

template <typename T>
at::Tensor copy_to(std::vector<T>& values, at::IntArrayRef sizes, at::ScalarType type,
                   const at::Device& device) {
  return at::from_blob(values.data(), sizes, at::TensorOptions(type))
      .to(device, type, /*non_blocking=*/false, /*copy=*/true);
}

}  // namespace

std::vector<float> rotary_frequencies(const RotaryConfig& config, std::int64_t dim,
                                      std::int64_t length) {
  std::vector<float> frequencies;
  for (std::int64_t i = 0; i < dim / 2; ++i) {
    frequencies.push_back(static_cast<float>(frequency_of(config, i, dim, length)));
  }
  return frequencies;
}

RotaryFrequencies::RotaryFrequencies(RotaryConfig config, std::int64_t dim)
    : id_(next_id()), config_(std::move(config)), dim_(dim) {}

// float32 [P]. longrope has [2, P], for short and long sequences. dynamic has float64 [2, P],
// unscaled frequencies and exponents of s.
at::Tensor RotaryFrequencies::constants(const at::Device& device) const {
  const std::lock_guard lock(mutex_);
  if (constants_.defined() && constants_.device() == device) return constants_;
  const std::int64_t num_pairs = dim_ / 2;
  const std::int64_t original = config_.scaling.original_max_positions;
  if (config_.scaling.kind == Kind::kDynamic) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < num_pairs; ++i) {
      values.push_back(plain_frequency(config_.base, i, dim_));
    }
    for (std::int64_t i = 0; i < num_pairs; ++i) values.push_back(stretch_exponent(i, dim_));
    constants_ = copy_to(values, {2, num_pairs}, at::kDouble, device);
    return constants_;
  }
  std::vector<float> values = rotary_frequencies(config_, dim_, original);
  if (config_.scaling.kind != Kind::kLongRope) {
    constants_ = copy_to(values, {num_pairs}, at::kFloat, device);
    return constants_;
  }
  const std::vector<float> of_long = rotary_frequencies(config_, dim_, original + 1);
  values.insert(values.end(), of_long.begin(), of_long.end());
  constants_ = copy_to(values, {2, num_pairs}, at::kFloat, device);
  return constants_;
}

// Returns float32 [S, P] for sequences of `lengths` [S].
at::Tensor RotaryFrequencies::by_sequence(const at::Tensor& lengths) const {
  const at::Tensor constants = this->constants(lengths.device());
  const RotaryScaling& scaling = config_.scaling;
  const at::Tensor column = lengths.unsqueeze(1);
  if (scaling.kind == Kind::kLongRope) {
    return at::where(column.gt(scaling.original_max_positions), constants.select(0, 1),
                     constants.select(0, 0));
  }
  const at::Tensor stretch = column.to(at::kDouble)
                                 .div_(static_cast<double>(scaling.original_max_positions))
                                 .clamp_min_(1.0)
                                 .mul_(scaling.factor)
                                 .sub_(scaling.factor - 1.0);
  return at::mul(at::pow(stretch, constants.select(0, 1)), constants.select(0, 0)).to(at::kFloat);
}

at::Tensor RotaryFrequencies::by_token(const DeviceBatch& batch) const {
  batch.segments().require_sequences("rotary positions that depend on the length of the sequence");
  const at::TensorOptions options = batch.position_ids.options();
  const std::int64_t num_tokens = batch.position_ids.size(0);
  if (num_tokens == 0) return at::empty({0, dim_ / 2}, options.dtype(at::kFloat));
  const std::int64_t num_sequences = batch.cu_seqlens.size(0) - 1;
  const at::Tensor ends = batch.cu_seqlens.narrow(0, 1, num_sequences);
  const at::Tensor lengths = at::sub(ends, batch.cu_seqlens.narrow(0, 0, num_sequences));
  const at::Tensor sequences =
      at::bucketize(at::arange(num_tokens, options), ends, /*out_int32=*/true, /*right=*/true);
  return at::index_select(by_sequence(lengths), 0, sequences);
}

at::Tensor RotaryFrequencies::of(DeviceBatch& batch) const {
  if (!config_.scaling.depends_on_length()) return constants(batch.position_ids.device());
  at::Tensor& made = batch.state.token_frequencies[id_];
  if (!made.defined()) made = by_token(batch);
  return made;
}

}  // namespace packtrain
