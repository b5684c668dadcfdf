#include "training/steps/upload.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <iterator>
#include <span>

#include "framework/device/tensor_device.h"

namespace packtrain {
namespace {

class Views {
 public:
  Views(const PackedBatch& batch, const Device& device) : begin_(batch.bytes.data()) {
    const auto size = static_cast<std::int64_t>(batch.bytes.size());
    bytes_ = at::from_blob(batch.bytes.data(), {size}, at::kByte);
    if (device.kind() == DeviceKind::kCpu) return;
    at::Tensor copy =
        at::empty({size}, at::TensorOptions().dtype(at::kByte).device(tensor_device(device)));
    bytes_ = copy.copy_(bytes_, /*non_blocking=*/true);
  }

  template <class T>
  at::Tensor of(std::span<T> part, at::ScalarType type) const {
    const auto* data = reinterpret_cast<const std::byte*>(part.data());
    const auto size = static_cast<std::int64_t>(part.size_bytes());
    if (size == 0) return bytes_.narrow(0, 0, 0).view(type);
    return bytes_.narrow(0, data - begin_, size).view(type);
  }

 private:
  const std::byte* begin_;
  at::Tensor bytes_;
};

AdapterRows adapter_rows(std::span<std::int32_t> begins, const Views& views) {
  if (begins.empty()) return {};
  return {views.of(begins, at::kInt), {begins.begin(), begins.end()}};
}

// A micro-batch without examples has empty tensors, so that all ranks compute the same loss.
GroupRows group_rows(const PackedBatch& batch, const Views& views) {
  GroupRows rows;
  if (!batch.has_groups) return rows;
  const bool is_empty = batch.group_num_rows.empty();
  rows.num_rows = views.of(batch.group_num_rows, at::kLong);
  rows.roles = views.of(batch.group_roles, at::kInt);
  rows.group_weights = views.of(batch.group_weights, at::kFloat);
  if (is_empty || !batch.group_margins.empty()) {
    rows.margins = views.of(batch.group_margins, at::kFloat);
  }
  if (is_empty || !batch.reference.empty()) {
    rows.reference = views.of(batch.reference, at::kFloat);
  }
  const std::size_t num_rows = batch.loss_index.size();
  for (std::size_t column = 0; column < batch.column_names.size(); ++column) {
    rows.columns[batch.column_names[column]] =
        views.of(batch.token_columns.subspan(column * num_rows, num_rows), at::kFloat);
  }
  return rows;
}

}  // namespace

DeviceBatch upload(const PackedBatch& batch, const Device& device) {
  const Views views(batch, device);
  DeviceBatch result;
  result.input_ids = views.of(batch.input_ids, at::kInt);
  result.position_ids = views.of(batch.position_ids, at::kInt);
  result.cu_seqlens = views.of(batch.cu_seqlens, at::kInt);
  result.cu_seqlens_host.assign(batch.cu_seqlens.begin(), batch.cu_seqlens.end());
  result.prefixes = batch.prefixes;
  result.max_seqlen = batch.max_seqlen;
  result.loss_index = views.of(batch.loss_index, at::kInt);
  result.loss_labels = views.of(batch.labels, at::kInt).index_select(0, result.loss_index);
  result.loss_weight = views.of(batch.loss_weight, at::kFloat);
  result.examples = views.of(batch.examples, at::kInt).view({2, std::ssize(batch.examples) / 2});
  result.adapter_rows = adapter_rows(batch.adapter_rows, views);
  result.adapter_loss_rows = adapter_rows(batch.adapter_loss_rows, views);
  result.groups = group_rows(batch, views);
  if (!batch.token_weight.empty()) result.token_weight = views.of(batch.token_weight, at::kFloat);
  if (!batch.row_seeds.empty()) result.row_seeds = views.of(batch.row_seeds, at::kInt);
  if (!batch.sample_seeds.empty()) result.sample_seeds = views.of(batch.sample_seeds, at::kLong);
  if (!batch.loss_source.empty()) result.loss_source = views.of(batch.loss_source, at::kInt);
  return result;
}

}  // namespace packtrain
