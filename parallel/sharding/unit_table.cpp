#include "parallel/sharding/unit_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "framework/core/error.h"
#include "models/block/encoded_layout.h"

namespace packtrain {
namespace {

using Blocks = std::span<const std::unique_ptr<Block>>;

// The parameters of a part have one key. Parts of a unit are in the order of their keys.
struct PartKey {
  bool frozen = false;
  ParameterEncoding encoding;
  DataType gathered_type = DataType::kFloat32;

  auto operator<=>(const PartKey&) const = default;
};

PartKey key_of(const ParameterSpec& spec) {
  return {!spec.trainable, spec.encoding, gathered_type(spec)};
}

// The unit number of each block. Blocks that share a parameter name share a unit.
std::vector<int> group_blocks(Blocks blocks) {
  std::vector<int> unit(blocks.size());
  std::map<std::string, int> unit_of_parameter;
  int num_units = 0;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    int found = -1;
    for (const ParameterSpec& spec : blocks[b]->parameters()) {
      const auto it = unit_of_parameter.find(spec.name);
      if (it != unit_of_parameter.end()) found = it->second;
    }
    unit[b] = found >= 0 ? found : num_units++;
    for (const ParameterSpec& spec : blocks[b]->parameters())
      unit_of_parameter[spec.name] = unit[b];
  }
  return unit;
}

// The distinct parameters of a unit's blocks.
std::vector<ParameterSpec> distinct_parameters(Blocks blocks, const std::vector<int>& members) {
  std::vector<ParameterSpec> result;
  for (const int b : members) {
    for (const ParameterSpec& spec : blocks[b]->parameters()) {
      const auto same = [&](const ParameterSpec& other) { return other.name == spec.name; };
      const auto it = std::find_if(result.begin(), result.end(), same);
      if (it == result.end()) {
        result.push_back(spec);
      } else if (it->shape != spec.shape || it->trainable != spec.trainable ||
                 it->encoding != spec.encoding || it->in_fp8 != spec.in_fp8) {
        throw Error(ErrorCategory::kInternal,
                    fmt::format("parameter '{}' is declared twice, differently", spec.name));
      }
    }
  }
  return result;
}

Unit make_unit(Blocks blocks, std::vector<int> members, int num_ranks) {
  Unit unit;
  unit.name = blocks[members.front()]->name();
  std::map<PartKey, std::vector<ParameterSpec>> parts;
  for (ParameterSpec& spec : distinct_parameters(blocks, members)) {
    const PartKey key = key_of(spec);
    parts[key].push_back(std::move(spec));
  }
  for (const auto& [key, parameters] : parts) {
    unit.parts.push_back({!key.frozen, make_flat_layout(parameters, num_ranks)});
  }
  const int last = static_cast<int>(blocks.size()) - 1;
  unit.resident = members.size() > 1 || members.front() == 0 || members.back() == last;
  unit.blocks = std::move(members);
  return unit;
}

void number_scales(UnitTable& table) {
  for (const bool trainable : {true, false}) {
    for (Unit& unit : table.units) {
      for (UnitPart& part : unit.parts) {
        if (part.trainable != trainable) continue;
        for (Segment& segment : part.layout.segments) {
          if (has_fp8_scale(segment.spec)) segment.scale = table.num_scales++;
        }
      }
    }
    if (trainable) table.num_trained_scales = table.num_scales;
  }
}

bool has_parameter(const Block& block, const std::string& name) {
  return std::ranges::find(block.parameters(), name, &ParameterSpec::name) !=
         block.parameters().end();
}

std::vector<ParameterPlace> find_places(Blocks blocks, int block, const Unit& unit) {
  std::vector<ParameterPlace> places;
  for (const ParameterSpec& spec : blocks[block]->parameters()) {
    const bool in_later_block = std::ranges::any_of(unit.blocks, [&](int other) {
      return other > block && has_parameter(*blocks[other], spec.name);
    });
    const auto part = std::ranges::find_if(unit.parts, [&](const UnitPart& p) {
      return key_of(p.layout.segments.front().spec) == key_of(spec);
    });
    const auto& segments = part->layout.segments;
    const auto segment =
        std::ranges::find_if(segments, [&](const Segment& s) { return s.spec.name == spec.name; });
    places.push_back({static_cast<std::size_t>(part - unit.parts.begin()),
                      static_cast<std::size_t>(segment - segments.begin()), in_later_block});
  }
  return places;
}

}  // namespace

std::span<const UnitPart> Unit::trainable_parts() const {
  const auto end = std::ranges::find(parts, false, &UnitPart::trainable);
  return {parts.begin(), end};
}

std::int64_t Unit::trainable_numel() const {
  std::int64_t numel = 0;
  for (const UnitPart& part : trainable_parts()) numel += part.layout.numel;
  return numel;
}

std::int64_t Unit::trainable_shard_numel() const {
  std::int64_t numel = 0;
  for (const UnitPart& part : trainable_parts()) numel += part.layout.shard_numel;
  return numel;
}

std::int64_t Unit::gathered_bytes() const {
  std::int64_t bytes = 0;
  for (const UnitPart& part : parts) bytes += part.layout.gathered_bytes();
  return bytes;
}

bool Unit::gathers_codes() const {
  return std::ranges::any_of(parts,
                             [](const UnitPart& part) { return part.layout.gathers_codes(); });
}

UnitTable make_unit_table(Blocks blocks, int num_ranks) {
  UnitTable table;
  table.unit_of_block = group_blocks(blocks);
  const int num_blocks = static_cast<int>(blocks.size());
  std::vector<std::vector<int>> members(
      1 + *std::max_element(table.unit_of_block.begin(), table.unit_of_block.end()));
  for (int b = 0; b < num_blocks; ++b) members[table.unit_of_block[b]].push_back(b);
  for (auto& blocks_of_unit : members) {
    table.units.push_back(make_unit(blocks, std::move(blocks_of_unit), num_ranks));
  }
  number_scales(table);
  table.first_trainable_block = num_blocks;
  for (int b = num_blocks - 1; b >= 0; --b) {
    const auto& parameters = blocks[b]->parameters();
    if (std::any_of(parameters.begin(), parameters.end(),
                    [](const ParameterSpec& spec) { return spec.trainable; })) {
      table.first_trainable_block = b;
    }
  }
  for (int b = 0; b < num_blocks; ++b) {
    table.places.push_back(find_places(blocks, b, table.units[table.unit_of_block[b]]));
  }
  return table;
}

std::int64_t largest_encoded_numel(const UnitTable& table) {
  std::int64_t largest = 0;
  for (const auto& [name, spec] : parameters_by_name(table)) {
    if (spec->encoding.is_plain()) continue;
    largest = std::max(largest, spec->numel());
  }
  return largest;
}

std::map<std::string, const ParameterSpec*> parameters_by_name(const UnitTable& table) {
  std::map<std::string, const ParameterSpec*> parameters;
  for (const Unit& unit : table.units) {
    for (const UnitPart& part : unit.parts) {
      for (const Segment& segment : part.layout.segments) {
        parameters[segment.spec.name] = &segment.spec;
      }
    }
  }
  return parameters;
}

}  // namespace packtrain
