#include "training/checkpoint/hf_weights.h"

#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/safetensors.h"
#include "training/checkpoint/encoded_weights.h"
#include "training/checkpoint/shard_reader.h"
#include "training/checkpoint/tensor_bytes.h"

namespace packtrain {
namespace {

// A tensor to be written: its pieces, or a tensor of another file.
struct OutgoingTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t numel = 0;
  std::vector<WeightPiece> pieces;
  DataType type = DataType::kFloat32;
  HfTensor copied = {};

  std::int64_t num_bytes() const { return numel * static_cast<std::int64_t>(size_of(type)); }
};

// Tensors of the same parameter are next to each other, so that it is read once. Otherwise the
// order is the family's.
std::vector<OutgoingTensor> outgoing_tensors(const std::vector<WeightPiece>& pieces,
                                             const HfTypes& types) {
  std::vector<OutgoingTensor> tensors;
  std::map<std::string, std::size_t> index;
  std::map<std::string, std::size_t> place;  // index by parameter
  for (const WeightPiece& piece : pieces) {
    place.try_emplace(piece.parameter, place.size());
    const auto [found, is_new] = index.try_emplace(piece.hf_name, tensors.size());
    const auto own = types.of_tensor.find(piece.hf_name);
    if (is_new) {
      tensors.push_back({piece.hf_name,
                         piece.hf_shape,
                         piece.hf_numel(),
                         {},
                         own == types.of_tensor.end() ? types.of_others : own->second});
    }
    if (piece.keep_float32 && own == types.of_tensor.end()) {
      tensors[found->second].type = DataType::kFloat32;
    }
    tensors[found->second].pieces.push_back(piece);
  }
  std::stable_sort(tensors.begin(), tensors.end(), [&](const auto& a, const auto& b) {
    return place.at(a.pieces.front().parameter) < place.at(b.pieces.front().parameter);
  });
  return tensors;
}

using Shard = std::vector<OutgoingTensor>;

// Consecutive tensors in files of at most `max_bytes`. A larger tensor has its own file. In a file,
// wide types come first, so that each tensor is aligned.
std::vector<Shard> split_into_shards(std::vector<OutgoingTensor> tensors, std::int64_t max_bytes) {
  std::vector<Shard> shards;
  std::int64_t bytes = 0;
  for (OutgoingTensor& tensor : tensors) {
    const std::int64_t tensor_bytes = tensor.num_bytes();
    if (shards.empty() || bytes + tensor_bytes > max_bytes) {
      shards.emplace_back();
      bytes = 0;
    }
    shards.back().push_back(std::move(tensor));
    bytes += tensor_bytes;
  }
  for (Shard& shard : shards) {
    std::ranges::stable_sort(shard, [](const OutgoingTensor& a, const OutgoingTensor& b) {
      return size_of(a.type) > size_of(b.type);
    });
  }
  return shards;
}

// The flattened parameters of the current tensor. Parameters that the next tensor does not need are
// freed.
class LoadedParameters {
 public:
  explicit LoadedParameters(const ParameterSource& source) : source_(source) {}

  void load_for(const OutgoingTensor& tensor) {
    std::map<std::string, at::Tensor> needed;
    for (const WeightPiece& piece : tensor.pieces) {
      const auto found = loaded_.find(piece.parameter);
      if (found != loaded_.end()) needed.insert(*found);
    }
    loaded_ = std::move(needed);
    for (const WeightPiece& piece : tensor.pieces) {
      at::Tensor& parameter = loaded_[piece.parameter];
      if (!parameter.defined()) parameter = source_(piece.parameter).reshape({-1});
    }
  }

  // The elements of `piece` in the order of our parameter.
  at::Tensor run(const WeightPiece& piece) const {
    const at::Tensor& parameter = loaded_.at(piece.parameter);
    if (parameter.numel() < piece.begin + piece.numel()) {
      throw Error(ErrorCategory::kInternal,
                  fmt::format("'{}' has {} elements, too few for '{}'", piece.parameter,
                              parameter.numel(), piece.hf_name));
    }
    return parameter.narrow(0, piece.begin, piece.numel());
  }

 private:
  const ParameterSource& source_;
  std::map<std::string, at::Tensor> loaded_;
};

// The largest float16 is 65,504, and sums of an update can be larger.
void check_range(const OutgoingTensor& tensor, const at::Tensor& values) {
  if (tensor.type != DataType::kFloat16 || at::isfinite(values).all().item<bool>()) return;
  throw Error(ErrorCategory::kCheckpoint,
              fmt::format("'{}' has a weight that is too large for float16", tensor.name),
              "Write another type: --dtype bfloat16 or float32.");
}

// The flattened `tensor` with its type.
at::Tensor put_together(const OutgoingTensor& tensor, const LoadedParameters& parameters) {
  const at::ScalarType scalar = scalar_type_of(tensor.type);
  const WeightPiece& first = tensor.pieces.front();
  if (tensor.pieces.size() == 1 && first.is_contiguous()) {
    return parameters.run(first).to(scalar).contiguous();
  }
  const at::Tensor whole = at::empty({tensor.numel}, scalar);
  for (const WeightPiece& piece : tensor.pieces) {
    at::as_strided(whole, {piece.rows, piece.columns},
                   {piece.hf_row_stride, piece.hf_column_stride}, piece.hf_begin)
        .copy_(parameters.run(piece).view({piece.rows, piece.columns}));
  }
  return whole;
}

void write_shard(const std::string& path, const Shard& shard, const ParameterSource& source) {
  std::vector<TensorHeader> headers;
  headers.reserve(shard.size());
  for (const OutgoingTensor& tensor : shard) {
    headers.push_back({tensor.name, tensor.type, tensor.shape});
  }
  SafetensorsWriter writer(path, std::move(headers), {{"format", "pt"}},
                           ErrorCategory::kCheckpoint);
  LoadedParameters parameters(source);
  for (const OutgoingTensor& tensor : shard) {
    if (tensor.copied.view != nullptr) {
      writer.write(tensor.copied.view->data);
      tensor.copied.file->check_unchanged();
      continue;
    }
    parameters.load_for(tensor);
    const at::Tensor values = put_together(tensor, parameters);
    check_range(tensor, values);
    writer.write(bytes_of(values));
  }
  writer.finish();
}

}  // namespace

void write_hf_weights(const std::string& folder, const std::vector<WeightPiece>& pieces,
                      const ParameterSource& source, const HfTypes& types,
                      std::int64_t max_shard_bytes, const std::map<std::string, HfTensor>& copied) {
  auto tensors = outgoing_tensors(pieces, types);
  for (const auto& [name, tensor] : copied) {
    const TensorView& view = *tensor.view;
    tensors.push_back({name, view.shape, view.numel(), {}, view.dtype, tensor});
  }
  const auto shards = split_into_shards(std::move(tensors), max_shard_bytes);
  const int num_shards = static_cast<int>(shards.size());
  nlohmann::json weight_map = nlohmann::json::object();
  std::int64_t total_bytes = 0;
  for (int i = 0; i < num_shards; ++i) {
    const std::string name = num_shards == 1 ? kHfWeightsName : hf_shard_name(i + 1, num_shards);
    const Shard& shard = shards[static_cast<std::size_t>(i)];
    write_shard(folder + "/" + name, shard, source);
    for (const OutgoingTensor& tensor : shard) {
      weight_map[tensor.name] = name;
      total_bytes += tensor.num_bytes();
    }
  }
  if (num_shards == 1) return;
  write_hf_json(folder + "/" + kHfIndexName,
                {{"metadata", {{"total_size", total_bytes}}}, {"weight_map", weight_map}});
}

void write_hf_tensors(const std::string& path, const std::vector<WeightPiece>& pieces,
                      const ParameterSource& source, bool bfloat16) {
  const HfTypes types{.of_others = bfloat16 ? DataType::kBFloat16 : DataType::kFloat32};
  write_shard(path, outgoing_tensors(pieces, types), source);
}

ParameterSource checkpoint_parameters(const std::string& checkpoint_folder) {
  const auto reader = std::make_shared<ShardReader>(checkpoint_folder);
  return [reader](const std::string& name) {
    const auto& encoded = reader->manifest().encoded;
    const auto found = encoded.find(name);
    const bool is_plain = found == encoded.end();
    const std::vector<std::int64_t>& shape = is_plain ? reader->shape(name) : found->second.shape;
    const at::ScalarType scalar =
        is_plain ? scalar_type_of(reader->dtype("weight", name)) : at::kFloat;
    at::Tensor parameter = at::empty(shape, scalar);
    read_decoded(*reader, name, 0, parameter.view({-1}));
    return parameter;
  };
}

}  // namespace packtrain
