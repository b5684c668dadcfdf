#include "parallel/sharding/gradient_storage.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <array>
#include <cstddef>

#include "parallel/sharding/arena.h"

namespace packtrain {

GradientStorage::GradientStorage(const UnitTable& table, const SlotTable& slots,
                                 const SlotSizes& sizes, const OwnedState& owned, at::Device device,
                                 Communicator& reduce, at::ScalarType dtype)
    : table_(table),
      slots_(slots),
      owned_(owned),
      device_(device),
      dtype_(dtype),
      slot_mixed_(sizes.is_mixed) {
  if (!slots_.grads_in_place) allocate(sizes, reduce);
}

void GradientStorage::allocate(const SlotSizes& sizes, Communicator& reduce) {
  std::vector<ArenaPart> parts;
  for (const std::int64_t numel : sizes.gradients) parts.push_back({numel, dtype_});
  const Arena slots = allocate_arena(reduce, device_, parts);
  const at::ScalarType widest = sum_type(/*several_micro_batches=*/true);
  const std::array<ArenaPart, 2> of_sums = {
      {{sizes.largest_shard, dtype_}, {owned_.trainable_numel(), widest}}};
  const Arena sums = allocate_arena(reduce, device_, of_sums);
  const std::int64_t largest = sizes.largest_shard * reduce.size();
  const std::size_t scratch = reduce.allocate_scratch(largest * elementSize(dtype_));
  communication_bytes_ = slots.num_bytes + sums.num_bytes + static_cast<std::int64_t>(scratch);
  slot_memory_ = slots.tensors;
  reduce_output_ = sums.tensors[0];
  sum_memory_ = sums.tensors[1].view(at::kByte);
  if (slots_.sums_locally) allocate_local_sums(reduce);
}

// Zeros, because blocks write all but the gaps. Ranks send float32 sums from here.
void GradientStorage::allocate_local_sums(Communicator& reduce) {
  std::int64_t numel = 0;
  for (const Unit& unit : table_.units) {
    local_sum_begin_.push_back(numel);
    numel += unit.trainable_numel();
  }
  if (dtype_ == at::kFloat) {
    const std::array<ArenaPart, 1> part = {{{numel, at::kFloat}}};
    const Arena arena = allocate_arena(reduce, device_, part);
    communication_bytes_ += arena.num_bytes;
    local_sums_ = arena.tensors[0];
  } else {
    local_sums_ = at::zeros({numel}, at::TensorOptions().dtype(at::kFloat).device(device_));
  }
}

std::int64_t GradientStorage::local_sum_bytes() const {
  const bool counts = local_sums_.defined() && dtype_ != at::kFloat;
  return counts ? static_cast<std::int64_t>(local_sums_.nbytes()) : 0;
}

at::ScalarType GradientStorage::sum_type(bool several_micro_batches) const {
  return several_micro_batches && !slots_.sums_locally ? at::kFloat : dtype_;
}

void GradientStorage::set_sum_type(at::ScalarType type) {
  const std::int64_t num_bytes =
      owned_.trainable_numel() * static_cast<std::int64_t>(elementSize(type));
  if (!sum_memory_.defined() || sum_memory_.numel() < num_bytes) {
    sum_ = sum_memory_ = at::Tensor();
    sum_memory_ = at::empty({num_bytes}, at::TensorOptions().dtype(at::kByte).device(device_));
  }
  sum_ = sum_memory_.narrow(0, 0, num_bytes).view(type);
  if (slots_.grads_in_place) zero_padding();
}

// Blocks write all but the gaps, which may hold numbers of the other dtype.
void GradientStorage::zero_padding() {
  for (int u = 0; u < static_cast<int>(table_.units.size()); ++u) {
    for (std::size_t p = 0; p < table_.units[u].trainable_parts().size(); ++p) {
      const FlatLayout& layout = table_.units[u].parts[p].layout;
      const std::int64_t part_begin = owned_.part_begin(u, p);
      std::int64_t end = 0;
      const auto clear_up_to = [&](std::int64_t begin) {
        if (begin > end) sum_.narrow(0, part_begin + end, begin - end).zero_();
      };
      for (const Segment& segment : layout.segments) {
        clear_up_to(segment.offset);
        end = segment.offset + segment.numel;
      }
      clear_up_to(layout.numel);
    }
  }
}

at::Tensor GradientStorage::shard(int unit) const {
  return sum_.narrow(0, owned_.trainable_begin(unit), table_.units[unit].trainable_shard_numel());
}

at::Tensor GradientStorage::whole(int unit, int grad_slot) const {
  if (slots_.grads_in_place) return shard(unit);
  const std::int64_t numel = table_.units[unit].trainable_numel();
  if (slots_.is_local_sum(grad_slot)) return local_sums_.narrow(0, local_sum_begin_[unit], numel);
  return slot_memory_[grad_slot].narrow(0, 0, numel);
}

at::Tensor GradientStorage::sendable(int unit, int grad_slot) const {
  const at::Tensor written = whole(unit, grad_slot);
  if (written.scalar_type() == dtype_) return written;
  const at::Tensor rounded = whole(unit, slots_.send_slot(unit));
  return rounded.copy_(written);
}

at::Tensor GradientStorage::reduce_output(int unit) const {
  return reduce_output_.narrow(0, 0, table_.units[unit].trainable_shard_numel());
}

}  // namespace packtrain
