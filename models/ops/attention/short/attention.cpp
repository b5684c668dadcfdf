#include "models/ops/attention/short/attention.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>

#include "models/ops/attention/expanded_keys.h"
#include "models/ops/attention/short/division.h"

namespace packtrain {
namespace {

constexpr std::int64_t kUnitInts = sizeof(AttentionUnit) / sizeof(std::int32_t);

std::shared_ptr<const ShortUnits> make_units(DeviceBatch& batch, std::int64_t max_keys) {
  AttentionUnits made;
  if (batch.segments().are_sequences()) {
    made = attention_units(batch.cu_seqlens_host, batch.cu_seqlens_host, max_keys);
  } else {
    const ExpandedKeys& keys = expanded_keys(batch);
    made = attention_units(keys.first_queries, keys.first_keys, max_keys);
  }
  auto units = std::make_shared<ShortUnits>();
  units->max_keys = max_keys;
  units->num_units = std::ssize(made.units);
  units->num_tiles = made.num_tiles;
  const std::int64_t num_ints = units->num_units * kUnitInts;
  const auto num_long = std::ssize(made.long_sequences);
  const at::Device device = batch.cu_seqlens.device();
  // libtorch's allocator does not reuse pinned memory before the copy is complete.
  const at::Tensor host =
      at::empty({num_ints + num_long}, at::TensorOptions(at::kInt).pinned_memory(device.is_cuda()));
  std::memcpy(host.data_ptr(), made.units.data(), made.units.size() * sizeof(AttentionUnit));
  std::ranges::copy(made.long_sequences, host.data_ptr<std::int32_t>() + num_ints);
  const at::Tensor on_device = host.to(device, /*non_blocking=*/true);
  units->units = on_device.narrow(0, 0, num_ints);
  if (num_long > 0) units->long_sequences = on_device.narrow(0, num_ints, num_long);
  return units;
}

}  // namespace

const ShortUnits& short_units(DeviceBatch& batch, std::int64_t max_keys) {
  std::shared_ptr<const ShortUnits>& units = batch.state.short_units[max_keys];
  if (units == nullptr) units = make_units(batch, max_keys);
  return *units;
}

std::int64_t short_limit(DeviceBatch& batch, const AttentionShape& shape) {
  // A CUDA graph has boundaries on the device alone, and they change under it.
  if (batch.cu_seqlens_host.empty() || !short_attention_serves(shape)) return 0;
  const ShortKernels kernels = short_kernels();
  if (!kernels.fit) return 0;
  const auto choose = [&](const auto& first_queries, const auto& first_keys) {
    return choose_short_limit(first_queries, first_keys, shape, kernels.num_multiprocessors,
                              kernels.has_hopper);
  };
  if (batch.segments().are_sequences()) {
    return choose(batch.cu_seqlens_host, batch.cu_seqlens_host);
  }
  const ExpandedKeys& keys = expanded_keys(batch);
  return choose(keys.first_queries, keys.first_keys);
}

bool short_attention_serves(const AttentionShape& shape) {
  return shape.soft_cap == 0 &&
         (shape.head_dim == 64 || shape.head_dim == 96 || shape.head_dim == 128);
}

}  // namespace packtrain
