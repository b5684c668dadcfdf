#include "parallel/sharding/arena.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace packtrain {
namespace {

constexpr std::int64_t kAlignment = 4096;

std::int64_t aligned_bytes(const ArenaPart& part) {
  const std::int64_t num_bytes =
      part.numel * static_cast<std::int64_t>(c10::elementSize(part.type));
  return (num_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

DataType communicator_type(at::ScalarType type) {
  return type == at::kFloat ? DataType::kFloat32 : DataType::kBFloat16;
}

Arena allocate_arena(Communicator& communicator, at::Device device,
                     std::span<const ArenaPart> parts) {
  Arena arena;
  for (const ArenaPart& part : parts) arena.num_bytes += aligned_bytes(part);
  const CommunicatorMemory memory = communicator.allocate(arena.num_bytes);
  std::byte* next = static_cast<std::byte*>(memory.data);
  for (const ArenaPart& part : parts) {
    const auto options = at::TensorOptions().dtype(part.type).device(device);
    if (part.numel == 0) {
      arena.tensors.push_back(at::empty({0}, options));
      continue;
    }
    arena.tensors.push_back(
        at::from_blob(next, {part.numel}, [owner = memory.owner](void*) {}, options).zero_());
    next += aligned_bytes(part);
  }
  const c10::impl::VirtualGuardImpl device_functions(device.type());
  // The zeros must be written before peers write.
  device_functions.synchronizeStream(device_functions.getStream(device));
  return arena;
}

}  // namespace packtrain
