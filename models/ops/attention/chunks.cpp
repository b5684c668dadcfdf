#include "models/ops/attention/chunks.h"

#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sub.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace packtrain {
namespace {

// The rows of a prefix from position `first` on.
std::vector<RowRange> rows_from(std::span<const RowRange> prefix, std::int64_t first) {
  std::vector<RowRange> rows;
  std::int64_t position = 0;
  for (const RowRange& range : prefix) {
    const std::int64_t skipped = std::clamp<std::int64_t>(first - position, 0, range.size());
    if (skipped < range.size()) rows.push_back({range.begin + skipped, range.end});
    position += range.size();
  }
  return rows;
}

// Appends the chunks of one segment.
void divide(const AttentionSegment& segment, std::int64_t chunk, DividedSegments& divided) {
  std::int64_t position = segment.num_prefix();
  std::int64_t begin = segment.rows.begin;
  do {
    const std::int64_t first = position / chunk * chunk;
    const std::int64_t size = std::min(first + chunk - position, segment.rows.end - begin);
    const std::int64_t num_before = std::min(position, segment.num_prefix()) - first;
    if (num_before > 0 && size > 0) {
      divided.prefixes.push_back(
          {std::ssize(divided.boundaries) - 1, rows_from(segment.prefix, first)});
    }
    begin += size;
    position += size;
    divided.boundaries.push_back(static_cast<std::int32_t>(begin));
    divided.longest = std::max(
        divided.longest, static_cast<std::int32_t>(std::max<std::int64_t>(num_before, 0) + size));
  } while (begin < segment.rows.end);
}

at::Tensor upload_boundaries(const std::vector<std::int32_t>& boundaries, at::Device device) {
  // libtorch's allocator does not reuse pinned memory before the copy is complete.
  const at::Tensor host = at::empty({std::ssize(boundaries)},
                                    at::TensorOptions(at::kInt).pinned_memory(device.is_cuda()));
  std::ranges::copy(boundaries, host.data_ptr<std::int32_t>());
  return host.to(device, /*non_blocking=*/true);
}

std::shared_ptr<DeviceBatch> make_chunks(const DeviceBatch& batch, std::int64_t chunk) {
  auto chunks = std::make_shared<DeviceBatch>();
  if (batch.cu_seqlens_host.empty()) {  // a graph computes it with the boundaries of each replay
    chunks->cu_seqlens = divided_boundaries(batch.cu_seqlens, batch.num_rows(), chunk);
    chunks->max_seqlen = static_cast<std::int32_t>(chunk);
    return chunks;
  }
  DividedSegments divided = divide_segments(batch.segments(), chunk);
  chunks->cu_seqlens = upload_boundaries(divided.boundaries, batch.cu_seqlens.device());
  chunks->cu_seqlens_host = std::move(divided.boundaries);
  chunks->prefixes = std::move(divided.prefixes);
  chunks->max_seqlen = divided.longest;
  return chunks;
}

}  // namespace

DividedSegments divide_segments(const AttentionSegments& segments, std::int64_t chunk) {
  DividedSegments divided;
  divided.boundaries.push_back(static_cast<std::int32_t>(segments[0].rows.begin));
  for (std::int64_t i = 0; i < segments.size(); ++i) divide(segments[i], chunk, divided);
  return divided;
}

at::Tensor divided_boundaries(const at::Tensor& cu_seqlens, std::int64_t num_rows,
                              std::int64_t chunk) {
  const std::int64_t num_sequences = cu_seqlens.size(0) - 1;
  const at::Tensor begins = cu_seqlens.narrow(0, 0, num_sequences);
  const at::Tensor lengths = at::sub(cu_seqlens.narrow(0, 1, num_sequences), begins);
  const at::Tensor counts = at::add(lengths, chunk - 1).floor_divide(chunk);
  const at::Tensor ends = at::cumsum(counts, 0, at::kInt);
  const at::Tensor index = at::arange(num_sequences + num_rows / chunk + 1, cu_seqlens.options());
  const at::Tensor sequence = at::searchsorted(ends, index, /*out_int32=*/false, /*right=*/true)
                                  .clamp_max(num_sequences - 1);
  const at::Tensor in_sequence =
      at::sub(index, at::sub(ends, counts).index_select(0, sequence));  // number of the chunk
  return at::minimum(begins.index_select(0, sequence).add_(in_sequence, chunk),
                     cu_seqlens.narrow(0, num_sequences, 1));
}

DeviceBatch& chunks_of(DeviceBatch& batch, std::int64_t chunk) {
  if (batch.max_seqlen <= chunk) return batch;
  std::shared_ptr<DeviceBatch>& chunks = batch.state.chunks[chunk];
  if (chunks == nullptr) chunks = make_chunks(batch, chunk);
  return *chunks;
}

AttentionShape without_chunks(AttentionShape shape) {
  shape.pattern.chunk = 0;
  return shape;
}

}  // namespace packtrain
