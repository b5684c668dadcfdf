#include "training/steps/static_batch.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <bit>
#include <span>

#include "framework/device/tensor_device.h"
#include "models/layers/routing_statistics.h"
#include "models/ops/attention/cudnn/buckets.h"
#include "models/ops/matmul/token_bucket.h"

namespace packtrain {
namespace {

constexpr std::int64_t kAlignment = 64;  // elements: parts begin at multiples of 256 bytes

template <typename Value>
void copy_and_fill(std::span<const Value> values, at::Tensor target, Value rest) {
  Value* out = target.data_ptr<Value>();
  std::fill(std::ranges::copy(values, out).out, out + target.numel(), rest);
}

// Writes the supervised rows and enough other rows to fill the targets, in the order of rows.
void fill_supervised(const PackedBatch& batch, const at::Tensor& index, const at::Tensor& labels,
                     const at::Tensor& weights) {
  std::int64_t num_others = index.numel() - std::ssize(batch.loss_index);
  auto* row_out = index.data_ptr<std::int32_t>();
  auto* label_out = labels.data_ptr<std::int32_t>();
  auto* weight_out = weights.data_ptr<float>();
  std::size_t next = 0;
  for (std::size_t row = 0; row < batch.labels.size(); ++row) {
    const bool supervised = batch.labels[row] != kNoLabel;
    if (!supervised && num_others-- <= 0) continue;
    *row_out++ = static_cast<std::int32_t>(row);
    *label_out++ = supervised ? batch.labels[row] : 0;
    *weight_out++ = supervised ? batch.loss_weight[next++] : 0.0F;
  }
}

// Where the rows of each adapter begin in `index`, which also has rows without a label.
void fill_loss_rows(const PackedBatch& batch, const at::Tensor& index, const at::Tensor& begins) {
  const std::span rows(index.const_data_ptr<std::int32_t>(),
                       static_cast<std::size_t>(index.numel()));
  std::ranges::transform(
      batch.adapter_rows, begins.data_ptr<std::int32_t>(), [&](std::int32_t row) {
        return static_cast<std::int32_t>(std::ranges::lower_bound(rows, row) - rows.begin());
      });
}

}  // namespace

BatchSize padded_size(const PackedBatch& batch) {
  const std::int64_t num_rows = std::ssize(batch.input_ids);
  const AttentionBucket attention =
      attention_bucket(std::ssize(batch.cu_seqlens) - 1, batch.max_seqlen, num_rows);
  const std::int64_t num_sequences = attention.num_sequences;
  const auto num_examples = static_cast<std::int64_t>(std::bit_ceil(batch.examples.size() / 2));
  return {num_rows,
          std::min(num_rows, token_bucket(std::ssize(batch.loss_index))),
          num_sequences,
          attention.max_length,
          std::ssize(batch.examples) / 2 <= num_sequences ? num_sequences : num_examples,
          !batch.row_seeds.empty(),
          batch.adapter_rows.empty() ? 0 : std::ssize(batch.adapter_rows) - 1};
}

StaticBatch::StaticBatch(const BatchSize& size, const Device& device)
    : size_(size), on_gpu_(device.kind() == DeviceKind::kCuda) {
  const std::int64_t num_begins = size.num_adapters > 0 ? size.num_adapters + 1 : 0;
  numel_ = {size.num_rows,
            size.num_rows,
            size.num_sequences + 1,
            size.num_supervised,
            size.num_supervised,
            size.num_supervised,
            2 * size.num_examples,
            size.has_row_seeds ? size.num_rows : 0,
            num_begins,
            num_begins};
  for (int i = 0; i < kNumParts; ++i) {
    begin_[i + 1] = begin_[i] + (numel_[i] + kAlignment - 1) / kAlignment * kAlignment;
  }
  memory_ = at::empty({begin_.back()}, at::TensorOptions(at::kInt).device(tensor_device(device)));
  batch_.input_ids = part(memory_, kIds);
  batch_.position_ids = part(memory_, kPositions);
  batch_.cu_seqlens = part(memory_, kBoundaries);
  batch_.loss_index = part(memory_, kLossIndex);
  batch_.loss_labels = part(memory_, kLabels);
  batch_.loss_weight = part(memory_, kWeights);
  batch_.examples = part(memory_, kExamples).view({2, size.num_examples});
  if (size.has_row_seeds) batch_.row_seeds = part(memory_, kRowSeeds);
  if (size.num_adapters > 0) {
    batch_.adapter_rows.begins = part(memory_, kAdapterRows);
    batch_.adapter_loss_rows.begins = part(memory_, kAdapterLossRows);
  }
  batch_.max_seqlen = static_cast<std::int32_t>(size.max_length);
}

at::Tensor StaticBatch::part(const at::Tensor& all, Part which) const {
  const at::Tensor ints = all.narrow(0, begin_[which], numel_[which]);
  return which == kWeights ? ints.view(at::kFloat) : ints;
}

void StaticBatch::load(const PackedBatch& batch) {
  // libtorch's allocator does not reuse pinned memory before the copy is complete.
  const at::Tensor host =
      at::empty({begin_.back()}, at::TensorOptions(at::kInt).pinned_memory(on_gpu_));
  copy_and_fill<std::int32_t>(batch.input_ids, part(host, kIds), 0);
  copy_and_fill<std::int32_t>(batch.position_ids, part(host, kPositions), 0);
  copy_and_fill<std::int32_t>(batch.cu_seqlens, part(host, kBoundaries), batch.cu_seqlens.back());
  const std::size_t num_pieces = batch.examples.size() / 2;
  const at::Tensor examples = part(host, kExamples).view({2, size_.num_examples});
  copy_and_fill<std::int32_t>(batch.examples.first(num_pieces), examples.select(0, 0),
                              batch.cu_seqlens.back());
  copy_and_fill<std::int32_t>(batch.examples.last(num_pieces), examples.select(0, 1),
                              batch.cu_seqlens.back());
  if (size_.has_row_seeds) copy_and_fill<std::int32_t>(batch.row_seeds, part(host, kRowSeeds), 0);
  fill_supervised(batch, part(host, kLossIndex), part(host, kLabels), part(host, kWeights));
  if (size_.num_adapters > 0) {
    copy_and_fill<std::int32_t>(batch.adapter_rows, part(host, kAdapterRows), 0);
    fill_loss_rows(batch, part(host, kLossIndex), part(host, kAdapterLossRows));
  }
  memory_.copy_(host, /*non_blocking=*/true);
  if (!on_gpu_) {
    // On a GPU kernels must not read them: a graph would keep those of its capture.
    const auto* boundaries = part(host, kBoundaries).const_data_ptr<std::int32_t>();
    batch_.cu_seqlens_host.assign(boundaries, boundaries + numel_[kBoundaries]);
  }
  batch_.state.forget_boundaries();
  load_real_rows(batch);
}

// A graph reads these rows at the address of its capture, so they are written there.
void StaticBatch::load_real_rows(const PackedBatch& batch) {
  if (batch_.state.routing == nullptr || !batch_.state.routing->real_rows.defined()) return;
  const at::Tensor host =
      at::zeros({size_.num_rows, 1}, at::TensorOptions(at::kFloat).pinned_memory(on_gpu_));
  const std::size_t num_pieces = batch.examples.size() / 2;
  for (std::size_t piece = 0; piece < num_pieces; ++piece) {
    const std::int32_t begin = batch.examples[piece];
    const std::int32_t end = batch.examples[num_pieces + piece];
    std::fill_n(host.data_ptr<float>() + begin, end - begin, 1.0F);
  }
  batch_.state.routing->real_rows.copy_(host, /*non_blocking=*/true);
}

}  // namespace packtrain
