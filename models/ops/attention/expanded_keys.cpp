#include "models/ops/attention/expanded_keys.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <span>

namespace packtrain {
namespace {

using Indices = std::vector<std::int32_t>;

// The sequences of a batch, and the row of each of their keys.
class KeyRows {
 public:
  KeyRows(const AttentionSegments& segments, std::int32_t num_rows) {
    AttentionSegment previous;
    for (std::int64_t i = 0; i < segments.size(); ++i) {
      const AttentionSegment segment = segments[i];
      if (segment.rows.size() == 0) continue;
      if (!continues(previous, segment)) begin_sequence(segment);
      add(segment.rows);
      previous = segment;
    }
    first_queries.push_back(num_rows);
    first_keys.push_back(static_cast<std::int32_t>(rows.size()));
  }

  Indices first_queries;
  Indices first_keys;
  Indices rows;

 private:
  void begin_sequence(const AttentionSegment& segment) {
    first_queries.push_back(static_cast<std::int32_t>(segment.rows.begin));
    first_keys.push_back(static_cast<std::int32_t>(rows.size()));
    for (const RowRange& range : segment.prefix) add(range);
  }
  void add(const RowRange& range) {
    const auto begin = rows.size();
    rows.resize(begin + static_cast<std::size_t>(range.size()));
    std::iota(rows.begin() + static_cast<std::ptrdiff_t>(begin), rows.end(),
              static_cast<std::int32_t>(range.begin));
  }
};

std::int32_t longest(const Indices& begins) {
  std::int32_t most = 0;
  for (std::size_t i = 1; i < begins.size(); ++i) most = std::max(most, begins[i] - begins[i - 1]);
  return most;
}

// Sorts keys by their row: counts, then places. `first_copy` [rows + 1], `copies` as many as keys.
void sort_copies(const Indices& rows, std::span<std::int32_t> first_copy,
                 std::span<std::int32_t> copies) {
  std::ranges::fill(first_copy, 0);
  for (const std::int32_t row : rows) ++first_copy[static_cast<std::size_t>(row) + 1];
  std::partial_sum(first_copy.begin(), first_copy.end(), first_copy.begin());
  Indices next(first_copy.begin(), first_copy.end() - 1);
  for (std::size_t key = 0; key < rows.size(); ++key) {
    const auto row = static_cast<std::size_t>(rows[key]);
    copies[static_cast<std::size_t>(next[row]++)] = static_cast<std::int32_t>(key);
  }
}

// Arrays of a batch in one buffer, so that one copy moves them. Each begins at a multiple of 16
// bytes.
class IndexBuffer {
 public:
  enum Part : std::size_t { kQueries, kKeys, kRows, kFirstCopy, kCopies, kNumParts };

  IndexBuffer(std::array<std::int64_t, kNumParts> sizes, const at::Device& device)
      : sizes_(sizes), device_(device) {
    constexpr std::int64_t kAlignment = 4;
    std::int64_t end = 0;
    for (std::size_t i = 0; i < kNumParts; ++i) {
      begins_[i] = end;
      end += (sizes[i] + kAlignment - 1) / kAlignment * kAlignment;
    }
    // libtorch's allocator does not reuse pinned memory before the copy is complete.
    host_ = at::empty({end}, at::TensorOptions(at::kInt).pinned_memory(device.is_cuda()));
  }

  std::span<std::int32_t> host(Part part) const {
    return {host_.data_ptr<std::int32_t>() + begins_[part], static_cast<std::size_t>(sizes_[part])};
  }
  void upload() { on_device_ = host_.to(device_, /*non_blocking=*/true); }
  at::Tensor on_device(Part part) const {
    return on_device_.narrow(0, begins_[part], sizes_[part]);
  }

 private:
  std::array<std::int64_t, kNumParts> sizes_;
  std::array<std::int64_t, kNumParts> begins_ = {};
  at::Device device_;
  at::Tensor host_;
  at::Tensor on_device_;
};

std::shared_ptr<const ExpandedKeys> make_expanded_keys(const DeviceBatch& batch) {
  KeyRows made(batch.segments(), batch.cu_seqlens_host.back());
  const auto num_keys = std::ssize(made.rows);
  const std::int64_t num_rows = made.first_queries.back();
  IndexBuffer buffer({std::ssize(made.first_queries), std::ssize(made.first_keys), num_keys,
                      num_rows + 1, num_keys},
                     batch.cu_seqlens.device());
  std::ranges::copy(made.first_queries, buffer.host(IndexBuffer::kQueries).begin());
  std::ranges::copy(made.first_keys, buffer.host(IndexBuffer::kKeys).begin());
  std::ranges::copy(made.rows, buffer.host(IndexBuffer::kRows).begin());
  sort_copies(made.rows, buffer.host(IndexBuffer::kFirstCopy), buffer.host(IndexBuffer::kCopies));
  buffer.upload();
  auto keys = std::make_shared<ExpandedKeys>();
  keys->max_queries = longest(made.first_queries);
  keys->max_keys = longest(made.first_keys);
  keys->first_queries = std::move(made.first_queries);
  keys->first_keys = std::move(made.first_keys);
  keys->cu_queries = buffer.on_device(IndexBuffer::kQueries);
  keys->cu_keys = buffer.on_device(IndexBuffer::kKeys);
  keys->rows = buffer.on_device(IndexBuffer::kRows);
  keys->first_copy = buffer.on_device(IndexBuffer::kFirstCopy);
  keys->copies = buffer.on_device(IndexBuffer::kCopies);
  return keys;
}

template <typename Element>
void sum_copies_of_rows(const at::Tensor& copies, const ExpandedKeys& keys, const at::Tensor& out) {
  const std::int64_t width = out.size(1) * out.size(2);
  const auto* from = copies.const_data_ptr<Element>();
  const auto* first_copy = keys.first_copy.const_data_ptr<std::int32_t>();
  const auto* places = keys.copies.const_data_ptr<std::int32_t>();
  constexpr std::int64_t kGrain = 64;
  at::parallel_for(0, out.size(0), kGrain, [&](std::int64_t first, std::int64_t last) {
    std::vector<float> sums(static_cast<std::size_t>(width));
    for (std::int64_t row = first; row < last; ++row) {
      std::ranges::fill(sums, 0.0F);
      for (std::int32_t i = first_copy[row]; i < first_copy[row + 1]; ++i) {
        const Element* copy = from + places[i] * width;
        for (std::int64_t c = 0; c < width; ++c) sums[c] += static_cast<float>(copy[c]);
      }
      std::ranges::copy(sums, out.data_ptr<Element>() + row * out.stride(0));
    }
  });
}

}  // namespace

const ExpandedKeys& expanded_keys(DeviceBatch& batch) {
  if (batch.state.expanded_keys == nullptr) batch.state.expanded_keys = make_expanded_keys(batch);
  return *batch.state.expanded_keys;
}

at::Tensor expand_rows(const at::Tensor& heads, const ExpandedKeys& keys) {
  if (heads.is_cuda()) return expand_rows_cuda(heads, keys);
  return at::index_select(heads, 0, keys.rows);
}

void sum_copies(const at::Tensor& copies, const ExpandedKeys& keys, const at::Tensor& out) {
  if (out.is_cuda()) return sum_copies_cuda(copies, keys, out);
  AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, out.scalar_type(), "sum_copies",
                                 [&] { sum_copies_of_rows<scalar_t>(copies, keys, out); });
}

}  // namespace packtrain
