// The position of each parameter in a flat buffer, and the part of the buffer that each rank owns.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "models/block/block.h"

namespace packtrain {

// One parameter in a flat buffer; offsets and sizes in stored elements.
struct Segment {
  ParameterSpec spec;
  std::int64_t offset = 0;
  std::int64_t numel = 0;
  int scale =
      -1;  // number of its scale among those of all weights (weight_scales.h), if it has one
};

// Parameters of one encoding one after another, in the order of their optimizer groups, adapters
// and optimizers. They are aligned as the encoding needs: at 128 elements of
// float32 or bfloat16, at a group of NF4. Weights in 8-bit products or with state for blocks are
// aligned at 256. Stored 8-bit floats have
// 256 bytes. Elements are those of encoding.stored_type(): bytes if encoded. Several ranks gather
// elements of gathered_type (encoded_layout.h). Rank r owns the contiguous elements [r *
// shard_numel, (r + 1) * shard_numel), which may cut parameters, and with NF4 has whole groups. An
// all-gather then writes directly into the memory whose views are the weights. Gaps always hold
// zeros.
struct FlatLayout {
  ParameterEncoding encoding;
  DataType gathered_type = DataType::kFloat32;
  std::vector<Segment> segments;
  std::int64_t shard_numel = 0;  // at least a multiple of 2048 elements and of 4096 bytes gathered
  std::int64_t numel = 0;        // shard_numel * number of ranks

  std::int64_t size_bytes() const { return encoding.size_bytes(numel); }
  std::int64_t gathered_bytes() const {
    return numel * static_cast<std::int64_t>(size_of(gathered_type));
  }
  // Ranks gather codes of the weights (ops/fp8), which each makes of what it owns.
  bool gathers_codes() const { return gathered_type != encoding.stored_type(); }
};

// The number of elements up to the last parameter's end. It does not depend on the number of ranks.
std::int64_t numel_without_padding(const FlatLayout& layout);

// All parameters have the encoding and the gathered type of the first one.
FlatLayout make_flat_layout(std::span<const ParameterSpec> parameters, int num_ranks);

// A range of a rank's shard of one optimizer group, adapter and optimizer; gaps belong to the
// range. A weight with a scale has a range of its own. It begins at the alignment of parameters.
struct GroupRange {
  std::int64_t begin = 0;  // in the shard
  std::int64_t numel = 0;
  OptimizerGroup group = OptimizerGroup::kDecay;
  int adapter = 0;    // ParameterSpec::adapter
  int scale = -1;     // Segment::scale
  int optimizer = 0;  // ParameterSpec::optimizer
};

std::vector<GroupRange> group_ranges(const FlatLayout& layout, int rank);

// The part of `segment` that `rank` owns; numel is 0 when it owns none.
struct OwnedRange {
  std::int64_t parameter_begin = 0;  // first owned element of the flattened parameter
  std::int64_t shard_begin = 0;      // in the rank's shard
  std::int64_t numel = 0;
};

OwnedRange owned_range(const FlatLayout& layout, const Segment& segment, int rank);

}  // namespace packtrain
