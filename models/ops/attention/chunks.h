// Attention in chunks (Llama 4's "chunked_attention"). A query sees the keys of its own chunk of
// its sequence. A chunk begins at each multiple of the chunk's size, counted from the sequence's
// beginning, keys of a prefix included. So the chunks are the sequences of another batch, which has
// more boundaries: kernels and libraries are the same. Rotary positions do not restart.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/data/attention_segment.h"
#include "models/block/batch.h"
#include "models/ops/attention/attention.h"

namespace packtrain {

// Segments that are chunks of others, in the same rows.
struct DividedSegments {
  std::vector<std::int32_t> boundaries;
  std::vector<SegmentPrefix> prefixes;
  std::int32_t longest = 0;  // keys of a segment
};

// Segments without rows are kept. `chunk` is above 0.
DividedSegments divide_segments(const AttentionSegments& segments, std::int64_t chunk);

// int32 [S + T / chunk + 1] for boundaries cu_seqlens [S + 1] of T rows, on their device. Sequences
// at the end are empty. The number depends on shapes alone, so that a graph can compute it.
at::Tensor divided_boundaries(const at::Tensor& cu_seqlens, std::int64_t num_rows,
                              std::int64_t chunk);

// The batch itself where no segment is longer than a chunk. Otherwise a batch with boundaries,
// prefixes and a state alone, which `batch` keeps for the next layers. Nothing waits for the
// device.
DeviceBatch& chunks_of(DeviceBatch& batch, std::int64_t chunk);

// The attention of one chunk.
AttentionShape without_chunks(AttentionShape shape);

}  // namespace packtrain
