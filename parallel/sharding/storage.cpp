#include "parallel/sharding/storage.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <limits>
#include <utility>

#include "framework/device/tensor_device.h"
#include "framework/device/tensor_type.h"
#include "models/block/encoded_layout.h"
#include "models/block/fp8_bytes.h"
#include "models/ops/fp8/fp8_weight.h"
#include "parallel/sharding/arena.h"
#include "parallel/sharding/slot_sizes.h"

namespace packtrain {
namespace {

// 8-bit products read stored codes and their scale where they are.
void set_stored_codes(Parameter& parameter, const ParameterSpec& spec) {
  if (spec.encoding.format != ParameterEncoding::Format::kFp8 || spec.shape.size() != 2) return;
  const at::Tensor& bytes = parameter.encoded->bytes;
  const at::Tensor scale = bytes.narrow(0, spec.numel(), kFp8ScaleBytes).view(at::kFloat);
  parameter.fp8_codes = bytes.narrow(0, 0, spec.numel()).view(at::kFloat8_e4m3fn).view(spec.shape);
  parameter.fp8_scale = scale.narrow(0, 0, 2);
}

}  // namespace

ShardedStorage::ShardedStorage(const UnitTable& table, const SlotTable& slots, Device& device,
                               Communicator& gather, Communicator& reduce,
                               const ShardingOptions& options)
    : table_(table),
      slots_(slots),
      owned_(table, device, gather, options),
      scales_(table, tensor_device(device)),
      weight_slots_(allocate_weight_slots(slot_sizes(table, slots), tensor_device(device), gather)),
      gradients_(table, slots, slot_sizes(table, slots), owned_, tensor_device(device), reduce,
                 options.reduce) {
  for (int u = 0; u < slots_.num_units; ++u) gathered_.push_back(gathered_parts(u));
  allocate_decoded_weight(tensor_device(device));
}

void ShardedStorage::allocate_decoded_weight(at::Device device) {
  for (const Unit& unit : table_.units) {
    for (const UnitPart& part : unit.parts) {
      if (part.layout.encoding.is_plain()) continue;
      decoded_weight_ =
          at::empty({largest_encoded_numel(table_)},
                    at::TensorOptions(scalar_type(part.layout.encoding.type)).device(device));
      return;
    }
  }
}

std::vector<at::Tensor> ShardedStorage::allocate_weight_slots(const SlotSizes& sizes,
                                                              at::Device device,
                                                              Communicator& gather) {
  if (!slots_.gathers()) return std::vector<at::Tensor>(sizes.weight_bytes.size());
  std::vector<ArenaPart> parts;
  for (const std::int64_t num_bytes : sizes.weight_bytes) parts.push_back({num_bytes, at::kByte});
  parts.push_back({sizes.largest_codes, at::kByte});
  Arena arena = allocate_arena(gather, device, parts);
  weight_slot_bytes_ = arena.num_bytes;
  sent_codes_ = std::move(arena.tensors.back());
  arena.tensors.pop_back();
  return std::move(arena.tensors);
}

void ShardedStorage::begin_step(bool several_micro_batches) {
  const at::ScalarType type = gradients_.sum_type(several_micro_batches);
  if (gradients_.sum().defined() && gradients_.sum().scalar_type() == type) return;
  if (slots_.grads_in_place) views_.clear();  // they are of the sum and keep its memory alive
  gradients_.set_sum_type(type);
}

std::vector<at::Tensor> ShardedStorage::gathered_parts(int unit) const {
  std::vector<at::Tensor> parts;
  std::int64_t begin = 0;  // of the part in the slot, in bytes
  for (std::size_t p = 0; p < table_.units[unit].parts.size(); ++p) {
    if (!slots_.gathers()) {
      parts.push_back(owned_.weights(unit, p));
      continue;
    }
    const FlatLayout& layout = table_.units[unit].parts[p].layout;
    const at::Tensor& slot = weight_slots_[slots_.weight_slot_of_unit[unit]];
    parts.push_back(
        slot.narrow(0, begin, layout.gathered_bytes()).view(scalar_type(layout.gathered_type)));
    begin += layout.gathered_bytes();
  }
  return parts;
}

at::Tensor ShardedStorage::sent_weights(int unit, std::size_t part) const {
  if (!gathers_codes(unit, part)) return owned_.weights(unit, part);
  return sent_codes_.narrow(0, 0, table_.units[unit].parts[part].layout.shard_numel);
}

void ShardedStorage::encode_sent(int unit, std::size_t part) const {
  if (!gathers_codes(unit, part)) return;
  const at::Tensor sent = sent_weights(unit, part);
  std::int64_t end = 0;  // of what is written
  for (const Segment& segment : table_.units[unit].parts[part].layout.segments) {
    const OwnedRange range = owned_.range(unit, part, segment);
    if (range.numel == 0) continue;
    fp8_encode(owned_.weights(unit, part, segment), scales_.scale(segment.scale),
               sent.narrow(0, range.shard_begin, range.numel));
    end = range.shard_begin + range.numel;
  }
  if (end < sent.numel()) sent.slice(0, end).zero_();  // another part's codes
}

std::int64_t ShardedStorage::communication_bytes() const {
  return owned_.communication_bytes() + weight_slot_bytes_ + gradients_.communication_bytes();
}

const std::vector<Parameter>& ShardedStorage::parameters(int block, int grad_slot,
                                                         GradientWrite write) {
  const auto [it, inserted] = views_.try_emplace({block, grad_slot, write});
  if (inserted) it->second = make_views(block, grad_slot, write);
  return it->second;
}

// Its value has shape and dtype alone. Whoever reads it by mistake gets NaN.
void ShardedStorage::set_codes(Parameter& parameter, const at::Tensor& codes,
                               const Segment& segment) const {
  parameter.fp8_codes = codes.view(at::kFloat8_e4m3fn);
  parameter.value = at::full({}, std::numeric_limits<double>::quiet_NaN(),
                             codes.options().dtype(scalar_type(segment.spec.encoding.type)))
                        .expand(segment.spec.shape);
}

std::vector<Parameter> ShardedStorage::make_views(int block, int grad_slot,
                                                  GradientWrite write) const {
  const int u = table_.unit_of_block[block];
  const Unit& unit = table_.units[u];
  std::vector<Parameter> views;
  for (const ParameterPlace& place : table_.places[block]) {
    const auto& [trainable, layout] = unit.parts[place.part];
    const Segment& segment = layout.segments[place.segment];
    const auto view = [&](const at::Tensor& flat, std::int64_t begin) {
      return flat.narrow(0, begin + segment.offset, segment.numel).view(stored_shape(segment.spec));
    };
    Parameter parameter;
    parameter.value = view(gathered_weights(u, place.part), 0);
    if (gathers_codes(u, place.part)) set_codes(parameter, parameter.value, segment);
    if (segment.scale >= 0) parameter.fp8_scale = scales_.scale(segment.scale);
    if (!layout.encoding.is_plain()) {
      parameter.encoded = std::make_shared<EncodedParameter>(EncodedParameter{
          std::move(parameter.value), encoded_ranges(segment.spec), layout.encoding.format});
      set_stored_codes(parameter, segment.spec);
      parameter.value = decoded_weight_.narrow(0, 0, segment.spec.numel()).view(segment.spec.shape);
    }
    if (trainable && grad_slot >= 0) {
      const std::int64_t in_shard = owned_.part_begin(u, place.part) - owned_.trainable_begin(u);
      const std::int64_t num_ranks = layout.numel / layout.shard_numel;
      parameter.grad = view(gradients_.whole(u, grad_slot), in_shard * num_ranks);
    }
    parameter.accumulate = write == GradientWrite::kAdd ||
                           (write == GradientWrite::kAddShared && place.in_later_block);
    views.push_back(std::move(parameter));
  }
  return views;
}

}  // namespace packtrain
