#include "parallel/sharding/owned_layout.h"

#include <algorithm>
#include <map>
#include <utility>

namespace packtrain {
namespace {

using BufferKey = std::pair<bool, ParameterEncoding>;  // frozen, encoding

BufferKey key_of(const UnitPart& part) {
  return {!part.trainable, part.layout.encoding};
}

}  // namespace

OwnedLayout make_owned_layout(const UnitTable& table) {
  OwnedLayout owned;
  std::map<BufferKey, std::size_t> buffer_of;
  for (const Unit& unit : table.units) {
    for (const UnitPart& part : unit.parts) buffer_of[key_of(part)] = 0;
  }
  for (auto& [key, buffer] : buffer_of) {
    buffer = owned.buffers.size();
    owned.buffers.push_back({!key.first, key.second, 0});
  }
  for (const Unit& unit : table.units) {
    auto& places = owned.parts.emplace_back();
    for (const UnitPart& part : unit.parts) {
      const std::size_t index = buffer_of.at(key_of(part));
      WeightBuffer& buffer = owned.buffers[index];
      const std::int64_t begin = buffer.is_master() ? owned.trainable_numel : buffer.numel;
      places.push_back({index, begin, owned.trainable_numel});
      buffer.numel += part.layout.shard_numel;
      if (part.trainable) owned.trainable_numel += part.layout.shard_numel;
    }
  }
  for (WeightBuffer& buffer : owned.buffers) {
    if (buffer.is_master()) buffer.numel = owned.trainable_numel;
  }
  return owned;
}

}  // namespace packtrain
