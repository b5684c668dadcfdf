#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <span>
#include <string_view>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/safetensors.h"
#include "training/checkpoint/encode_shard.h"
#include "training/checkpoint/hf_new_rows.h"
#include "training/checkpoint/hf_weights.h"
#include "training/checkpoint/mxfp4.h"
#include "training/checkpoint/owned_groups.h"
#include "training/checkpoint/tensor_bytes.h"

namespace packtrain {
namespace {

// Copies elements [first, last) of the piece to `destination`. The range can begin and end within a
// row.
void copy_range(const TensorView& tensor, const WeightPiece& piece, std::int64_t first,
                std::int64_t last, const at::Tensor& destination) {
  if (piece.is_contiguous()) {
    copy_grid(tensor.data, tensor.dtype, {piece.hf_begin + first, 1, last - first}, destination);
    return;
  }
  for (std::int64_t next = first; next < last;) {
    const std::int64_t row = next / piece.columns;
    const std::int64_t column = next % piece.columns;
    ElementGrid grid{piece.hf_begin + row * piece.hf_row_stride + column * piece.hf_column_stride,
                     1, std::min(piece.columns - column, last - next), piece.hf_row_stride,
                     piece.hf_column_stride};
    if (column == 0 && last - next >= piece.columns) grid.rows = (last - next) / piece.columns;
    const std::int64_t numel = grid.rows * grid.columns;
    copy_grid(tensor.data, tensor.dtype, grid, destination.narrow(0, next - first, numel));
    next += numel;
  }
}

// Decodes elements of a flattened tensor from `first` on.
using DecodeRun = std::function<void(std::int64_t first, std::span<float> values)>;

// The same for an encoded tensor, decoded in chunks.
void decode_range(const DecodeRun& decode_run, const WeightPiece& piece, std::int64_t first,
                  std::int64_t last, const at::Tensor& destination) {
  constexpr std::int64_t kAtOnce = 1 << 20;
  std::vector<float> values(static_cast<std::size_t>(std::min(kAtOnce, last - first)));
  for (std::int64_t next = first; next < last;) {
    const std::int64_t count = std::min(kAtOnce, last - next);
    for (std::int64_t done = 0; done < count;) {
      const std::int64_t column = (next + done) % piece.columns;
      const bool is_run = piece.hf_column_stride == 1;
      const std::int64_t run = is_run ? std::min(piece.columns - column, count - done) : 1;
      const std::int64_t row = (next + done) / piece.columns;
      decode_run(
          piece.hf_begin + row * piece.hf_row_stride + column * piece.hf_column_stride,
          std::span(values).subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(run)));
      done += run;
    }
    destination.narrow(0, next - first, count)
        .copy_(at::from_blob(values.data(), {count}, at::kFloat));
    next += count;
  }
}

// Finds weights that were not finite before training. Works in chunks, because the check makes
// copies.
void check_finite(const at::Tensor& values, const std::string& name, const std::string& file) {
  constexpr std::int64_t kAtATime = 1 << 20;
  for (std::int64_t begin = 0; begin < values.numel(); begin += kAtATime) {
    const auto part = values.narrow(0, begin, std::min(kAtATime, values.numel() - begin));
    if (part.isfinite().all().item<bool>()) continue;
    throw Error(ErrorCategory::kCheckpoint,
                fmt::format("{}: tensor '{}' has a weight that is not finite (NaN or infinity)",
                            file, name),
                "The model was broken before this run: download it, or export it, again.");
  }
}

// Copies the part of `piece` that `shard` owns from the mapped file.
void import_piece(const HfWeights& weights, const WeightPiece& piece, const ShardView& shard) {
  const auto& tensors = weights.tensors;
  const std::int64_t begin = std::max(shard.begin, piece.begin);
  const std::int64_t end = std::min(shard.begin + shard.numel, piece.begin + piece.numel());
  if (begin >= end) return;
  const std::int64_t first = begin - piece.begin;
  const std::int64_t last = end - piece.begin;
  const at::Tensor destination = shard.weight.narrow(0, begin - shard.begin, end - begin);
  const std::vector<StoredTensor> stored = stored_tensors(piece);
  const TensorView& tensor = *tensors.at(stored[0].name).view;
  if (const auto found = weights.encoded.find(piece.hf_name); found != weights.encoded.end()) {
    const at::Tensor values = decode(found->second);
    copy_range({DataType::kFloat32, tensor.shape, bytes_of(values)}, piece, first, last,
               destination);
  } else if (const auto blocks = weights.in_blocks.find(piece.hf_name);
             blocks != weights.in_blocks.end()) {
    const auto decode_run = [&](std::int64_t at, std::span<float> values) {
      decode_block_fp8(blocks->second, at, values);
    };
    decode_range(decode_run, piece, first, last, destination);
  } else if (piece.coding == WeightCoding::kMxfp4) {
    const TensorView& scales = *tensors.at(stored[1].name).view;
    const auto decode_run = [&](std::int64_t at, std::span<float> values) {
      decode_mxfp4(tensor.data, scales.data, at, values);
    };
    decode_range(decode_run, piece, first, last, destination);
  } else {
    copy_range(tensor, piece, first, last, destination);
  }
  check_finite(destination, stored[0].name, tensors.at(stored[0].name).file->path());
}

using PiecesOfParameter = std::multimap<std::string_view, const WeightPiece*>;

// The tensor of bitsandbytes that has the elements of `range` in their order, or null.
const BitsandbytesTensor* find_same_blocks(const HfWeights& weights,
                                           const PiecesOfParameter& of_parameter,
                                           const std::string& parameter,
                                           const ElementRange& range) {
  const auto [begin, end] = of_parameter.equal_range(parameter);
  for (auto piece = begin; piece != end; ++piece) {
    const auto found = weights.encoded.find(piece->second->hf_name);
    if (found != weights.encoded.end() && piece->second->is_contiguous() &&
        piece->second->begin == range.begin && piece->second->numel() == range.numel &&
        found->second.numel() == range.numel) {
      return &found->second;
    }
  }
  return nullptr;
}

// Copies the groups that the shard owns. False, and some of them, if the files do not have them
// all.
bool copy_groups(const HfWeights& weights, const PiecesOfParameter& of_parameter,
                 const ShardView& shard) {
  if (shard.format != ParameterEncoding::Format::kNf4 || weights.encoded.empty()) return false;
  for (const OwnedGroups& owned : owned_groups(shard)) {
    const auto* same = find_same_blocks(weights, of_parameter, shard.parameter, owned.range);
    if (same == nullptr) return false;
    read_groups(*same, owned.first_group, owned.groups);
  }
  return true;
}

// Encodes what the shard owns, or copies it. Reads values in parts.
void import_encoded(const HfWeights& weights, const PiecesOfParameter& of_parameter,
                    const ShardView& shard) {
  if (copy_groups(weights, of_parameter, shard)) return;
  const auto [begin, end] = of_parameter.equal_range(shard.parameter);
  encode_shard(shard, [&, first = begin, last = end](std::int64_t at, std::int64_t numel) {
    const at::Tensor values = at::empty({numel}, shard.weight.options().dtype(at::kFloat));
    const ShardView part{shard.parameter, shard.decoded_shape, at, numel, false, values};
    for (auto piece = first; piece != last; ++piece) import_piece(weights, *piece->second, part);
    return values;
  });
}

}  // namespace

void read_hf_weights(const HfWeights& weights, const std::vector<WeightPiece>& pieces,
                     std::span<const ShardView> shards) {
  PiecesOfParameter of_parameter;
  for (const WeightPiece& piece : pieces) of_parameter.emplace(piece.parameter, &piece);
  for (const ShardView& shard : shards) {
    const auto [begin, end] = of_parameter.equal_range(shard.parameter);
    if (begin == end) {
      throw Error(ErrorCategory::kInternal,
                  fmt::format("no tensor is mapped to parameter '{}'", shard.parameter));
    }
    if (!shard.encoded_ranges.empty()) {
      import_encoded(weights, of_parameter, shard);
      continue;
    }
    std::int64_t mapped = 0;
    for (auto piece = begin; piece != end; ++piece) {
      import_piece(weights, *piece->second, shard);
      mapped += piece->second->numel();
    }
    const std::int64_t numel = std::accumulate(shard.shape.begin(), shard.shape.end(),
                                               std::int64_t{1}, std::multiplies<>());
    if (numel != mapped) {
      fill_new_rows(*weights.tensors.at(begin->second->hf_name).view, *begin->second, shard);
    }
  }
}

}  // namespace packtrain
