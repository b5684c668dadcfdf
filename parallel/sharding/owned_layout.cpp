#include "parallel/sharding/owned_layout.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "parallel/sharding/state_layout.h"

namespace packtrain {
namespace {

using BufferKey = std::tuple<bool, ParameterEncoding, bool>;  // frozen, encoding, own master

BufferKey key_of(const UnitPart& part) {
  return {!part.trainable, part.layout.encoding, part.layout.segments.front().spec.own_master};
}

// Of all trainable elements of a rank.
std::vector<StateRange> state_ranges(const UnitTable& table, int rank) {
  std::vector<StateRange> ranges;
  for (const Unit& unit : table.units) {
    for (const UnitPart& part : unit.trainable_parts()) {
      for (const GroupRange& range : group_ranges(part.layout, rank)) {
        ranges.push_back({range.numel, range.optimizer});
      }
    }
  }
  return ranges;
}

}  // namespace

OwnedLayout make_owned_layout(const UnitTable& table, bool offloads_state) {
  OwnedLayout owned;
  std::map<BufferKey, std::size_t> buffer_of;
  for (const Unit& unit : table.units) {
    for (const UnitPart& part : unit.parts) buffer_of[key_of(part)] = 0;
  }
  for (auto& [key, buffer] : buffer_of) {
    buffer = owned.buffers.size();
    const auto& [is_frozen, encoding, own_master] = key;
    owned.buffers.push_back({!is_frozen, encoding, own_master});
  }
  for (const Unit& unit : table.units) {
    auto& places = owned.parts.emplace_back();
    for (const UnitPart& part : unit.parts) {
      const std::size_t index = buffer_of.at(key_of(part));
      WeightBuffer& buffer = owned.buffers[index];
      const bool has_all = buffer.is_master_of_all() && !offloads_state;
      const std::int64_t begin = has_all ? owned.trainable_numel : buffer.numel;
      places.push_back({index, begin, owned.trainable_numel});
      buffer.numel += part.layout.shard_numel;
      if (part.trainable) owned.trainable_numel += part.layout.shard_numel;
    }
  }
  for (WeightBuffer& buffer : owned.buffers) {
    if (buffer.is_master_of_all() && !offloads_state) buffer.numel = owned.trainable_numel;
  }
  return owned;
}

std::int64_t offloaded_master_bytes(const OwnedLayout& layout) {
  const bool is_needed = std::ranges::any_of(layout.buffers, [](const WeightBuffer& buffer) {
    return buffer.trainable && !buffer.is_master() && buffer.numel > 0;
  });
  return is_needed ? layout.trainable_numel * static_cast<std::int64_t>(sizeof(float)) : 0;
}

bool OwnedLayout::has_own_masters() const {
  return std::ranges::any_of(buffers, &WeightBuffer::own_master);
}

std::int64_t OwnedLayout::master_bytes() const {
  if (!has_own_masters()) {
    return trainable_numel * static_cast<std::int64_t>(size_of(DataType::kFloat32));
  }
  std::int64_t bytes = 0;
  for (const WeightBuffer& buffer : buffers) bytes += buffer.is_master() ? buffer.size_bytes() : 0;
  return bytes;
}

std::int64_t OwnedLayout::trainable_copy_bytes() const {
  std::int64_t bytes = 0;
  for (const WeightBuffer& buffer : buffers) {
    if (buffer.trainable && !buffer.is_master()) bytes += buffer.size_bytes();
  }
  return bytes;
}

std::int64_t most_state_bytes(const UnitTable& table, const std::vector<OptimizerStateSpec>& state,
                              int num_ranks) {
  std::int64_t most = 0;
  for (int rank = 0; rank < num_ranks; ++rank) {
    most = std::max(most, StateLayout(state, state_ranges(table, rank)).num_bytes());
    const bool all_have_all = std::ranges::all_of(
        state, [](const OptimizerStateSpec& spec) { return spec.optimizers.empty(); });
    if (all_have_all) break;  // then all ranks have as much
  }
  return most;
}

}  // namespace packtrain
