#include "training/checkpoint/hf_new_rows.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <algorithm>

#include "framework/core/error.h"
#include "training/checkpoint/tensor_bytes.h"

namespace packtrain {
namespace {

constexpr std::int64_t kRowsAtOnce = 256;

// The mean of the first `rows` rows of the tensor [.., columns].
std::vector<float> mean_of_rows(const TensorView& tensor, std::int64_t rows, std::int64_t columns) {
  std::vector<double> sums(static_cast<std::size_t>(columns));
  const at::Tensor chunk = at::empty({kRowsAtOnce * columns}, at::kFloat);
  const auto* values = chunk.const_data_ptr<float>();
  for (std::int64_t row = 0; row < rows; row += kRowsAtOnce) {
    const std::int64_t count = std::min(kRowsAtOnce, rows - row);
    copy_grid(tensor.data, tensor.dtype, {row * columns, 1, count * columns},
              chunk.narrow(0, 0, count * columns));
    for (std::int64_t i = 0; i < count * columns; ++i) {
      sums[static_cast<std::size_t>(i % columns)] += values[i];
    }
  }
  std::vector<float> mean;
  mean.reserve(sums.size());
  for (const double sum : sums) mean.push_back(static_cast<float>(sum / static_cast<double>(rows)));
  return mean;
}

}  // namespace

void fill_new_rows(const TensorView& tensor, const WeightPiece& piece, const ShardView& shard) {
  const std::int64_t stored = piece.numel();
  const std::int64_t columns = stored / piece.hf_shape.at(0);
  if (!piece.is_contiguous() || piece.hf_numel() != stored || shard.shape.size() > 2 ||
      (shard.shape.size() == 2 && shard.shape[1] != columns)) {
    throw Error(ErrorCategory::kInternal, fmt::format("'{}' cannot have more rows than '{}'",
                                                      shard.parameter, piece.hf_name));
  }
  const std::int64_t begin = std::max(shard.begin, stored);
  const std::int64_t end = shard.begin + shard.numel;
  if (begin >= end) return;
  const std::vector<float> mean = mean_of_rows(tensor, piece.hf_shape[0], columns);
  std::vector<float> rows;
  rows.reserve(static_cast<std::size_t>(end - begin));
  for (std::int64_t i = begin; i < end; ++i)
    rows.push_back(mean[static_cast<std::size_t>(i % columns)]);
  shard.weight.narrow(0, begin - shard.begin, end - begin)
      .copy_(at::from_blob(rows.data(), {end - begin}, at::kFloat));
}

}  // namespace packtrain
