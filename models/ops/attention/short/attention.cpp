#include "models/ops/attention/short/attention.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>

#include "models/ops/attention/expanded_keys.h"
#include "models/ops/attention/short/division.h"

namespace packtrain {
namespace {

constexpr std::int64_t kUnitInts = sizeof(AttentionUnit) / sizeof(std::int32_t);

// Calls work(first_queries, first_keys), the boundaries of the sequences.
template <typename Work>
auto with_boundaries(DeviceBatch& batch, const Work& work) {
  if (batch.segments().are_sequences()) return work(batch.cu_seqlens_host, batch.cu_seqlens_host);
  const ExpandedKeys& keys = expanded_keys(batch);
  return work(keys.first_queries, keys.first_keys);
}

ShortDivisions& divisions_of(DeviceBatch& batch) {
  std::shared_ptr<ShortDivisions>& divisions = batch.state.short_divisions;
  if (divisions == nullptr) divisions = std::make_shared<ShortDivisions>();
  return *divisions;
}

ShortUnits make_units(DeviceBatch& batch, std::int64_t max_keys) {
  const AttentionUnits made = with_boundaries(batch, [&](const auto& queries, const auto& keys) {
    return attention_units(queries, keys, max_keys);
  });
  ShortUnits units;
  units.max_keys = max_keys;
  units.num_units = std::ssize(made.units);
  units.num_tiles = made.num_tiles;
  const std::int64_t num_ints = units.num_units * kUnitInts;
  const auto num_long = std::ssize(made.long_sequences);
  const at::Device device = batch.cu_seqlens.device();
  // libtorch's allocator does not reuse pinned memory before the copy is complete.
  const at::Tensor host =
      at::empty({num_ints + num_long}, at::TensorOptions(at::kInt).pinned_memory(device.is_cuda()));
  std::memcpy(host.data_ptr(), made.units.data(), made.units.size() * sizeof(AttentionUnit));
  std::ranges::copy(made.long_sequences, host.data_ptr<std::int32_t>() + num_ints);
  const at::Tensor on_device = host.to(device, /*non_blocking=*/true);
  units.units = on_device.narrow(0, 0, num_ints);
  if (num_long > 0) units.long_sequences = on_device.narrow(0, num_ints, num_long);
  return units;
}

}  // namespace

ShortUnits& short_units(DeviceBatch& batch, std::int64_t max_keys) {
  std::map<std::int64_t, ShortUnits>& units = divisions_of(batch).units;
  const auto found = units.find(max_keys);
  if (found != units.end()) return found->second;
  return units.try_emplace(max_keys, make_units(batch, max_keys)).first->second;
}

std::int64_t short_limit(DeviceBatch& batch, const AttentionShape& shape) {
  // A CUDA graph has boundaries on the device alone, and they change under it.
  if (batch.cu_seqlens_host.empty() || !short_attention_serves(shape)) return 0;
  const ShortKernels kernels = short_kernels();
  if (!kernels.fit) return 0;
  auto& limits = divisions_of(batch).limits;
  for (const auto& [known, limit] : limits) {
    if (known == shape) return limit;
  }
  const std::int64_t limit = with_boundaries(batch, [&](const auto& queries, const auto& keys) {
    return choose_short_limit(queries, keys, shape, kernels.num_multiprocessors,
                              kernels.has_hopper);
  });
  limits.emplace_back(shape, limit);
  return limit;
}

bool short_attention_serves(const AttentionShape& shape) {
  return shape.soft_cap == 0 &&
         (shape.head_dim == 64 || shape.head_dim == 96 || shape.head_dim == 128);
}

bool hopper_kernel_serves(std::int64_t head_dim) {
  return head_dim % 64 == 0;
}

}  // namespace packtrain
