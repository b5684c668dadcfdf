// Where each parameter lies in a flat buffer, and which part of the buffer each rank owns.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "models/block.h"

namespace packtrain {

// One parameter's place in a flat buffer; offsets and sizes in elements.
struct Segment {
  ParameterSpec spec;
  std::int64_t offset = 0;
  std::int64_t numel = 0;
};

// Parameters laid end to end, each starting at a multiple of 128 elements, those with weight decay
// first. Rank r owns the contiguous elements [r * shard_numel, (r + 1) * shard_numel), whatever
// parameters they belong to: an all-gather then writes straight into the memory whose views are the
// weights. Gaps hold zeros for ever.
struct FlatLayout {
  std::vector<Segment> segments;
  std::int64_t shard_numel = 0;  // a multiple of 2048
  std::int64_t numel = 0;        // shard_numel * number of ranks

  bool empty() const { return segments.empty(); }
};

// The same at any number of ranks: where another layout's elements can be numbered on.
std::int64_t numel_without_padding(const FlatLayout& layout);

FlatLayout make_flat_layout(std::span<const ParameterSpec> parameters, int num_ranks);

// A range of a rank's shard whose elements share one weight-decay flag (gaps go with the range).
// It begins at a multiple of 128.
struct DecayRange {
  std::int64_t begin = 0;  // in the shard
  std::int64_t numel = 0;
  bool decay = true;
};

std::vector<DecayRange> decay_ranges(const FlatLayout& layout, int rank);

// The part of `segment` that `rank` owns; numel 0 when it owns none.
struct OwnedRange {
  std::int64_t parameter_begin = 0;  // first owned element of the flattened parameter
  std::int64_t shard_begin = 0;      // where it lies in the rank's shard
  std::int64_t numel = 0;
};

OwnedRange owned_range(const FlatLayout& layout, const Segment& segment, int rank);

}  // namespace packtrain
