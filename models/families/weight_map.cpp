#include "models/families/weight_map.h"

#include <functional>
#include <numeric>
#include <utility>

namespace packtrain {
namespace {

std::int64_t num_elements(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

}  // namespace

std::int64_t WeightPiece::hf_numel() const {
  return num_elements(hf_shape);
}

void WeightMap::linear(const std::string& parameter, const std::string& hf_name, std::int64_t rows,
                       std::int64_t columns, bool bias) {
  whole(parameter + ".weight", hf_name + ".weight", {rows, columns});
  if (bias) whole(parameter + ".bias", hf_name + ".bias", {rows});
}

void WeightMap::norm(const std::string& parameter, const std::string& hf_name, std::int64_t size,
                     bool bias) {
  whole(parameter + ".weight", hf_name + ".weight", {size});
  if (bias) whole(parameter + ".bias", hf_name + ".bias", {size});
}

void WeightMap::whole(const std::string& parameter, const std::string& hf_name,
                      const std::vector<std::int64_t>& hf_shape) {
  part(parameter, hf_name, hf_shape, 0, num_elements(hf_shape));
}

void WeightMap::constant(const std::string& parameter, const std::string& hf_name,
                         const std::vector<std::int64_t>& hf_shape) {
  whole(parameter, hf_name, hf_shape);
  pieces_.back().keep_float32 = true;
}

void WeightMap::part(const std::string& parameter, const std::string& hf_name,
                     const std::vector<std::int64_t>& hf_shape, std::int64_t hf_begin,
                     std::int64_t size) {
  strided(parameter, hf_name, hf_shape, {.begin = hf_begin, .columns = size});
}

void WeightMap::transposed(const std::string& parameter, const std::string& hf_name,
                           const std::vector<std::int64_t>& hf_shape, std::int64_t hf_begin,
                           std::int64_t rows, std::int64_t columns) {
  strided(parameter, hf_name, hf_shape, {hf_begin, rows, columns, 1, rows});
}

void WeightMap::strided(const std::string& parameter, const std::string& hf_name,
                        const std::vector<std::int64_t>& hf_shape, const HfRegion& region) {
  std::int64_t& next = next_[parameter];
  pieces_.push_back({parameter, hf_name, hf_shape, next, region.rows, region.columns, region.begin,
                     region.row_stride, region.column_stride, region.coding});
  next += pieces_.back().numel();
}

std::vector<WeightPiece> WeightMap::take() {
  next_.clear();
  return std::exchange(pieces_, {});
}

std::vector<WeightPiece> decoder_weights(
    const DecoderConfig& config, const OuterNames& names,
    const std::function<void(WeightMap& map, std::int64_t layer)>& add_layer,
    const std::function<void(WeightMap& map)>& add_before_layers) {
  WeightMap map;
  map.linear("embed", names.embed, config.vocab_size, config.hidden_size, false);
  if (add_before_layers) add_before_layers(map);
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) add_layer(map, layer);
  map.norm("final_norm", names.norm, config.hidden_size, names.norm_bias);
  if (!config.tied_embeddings) {
    map.linear("head", names.head, config.vocab_size, config.hidden_size, false);
  }
  return map.take();
}

std::vector<StoredTensor> stored_tensors(const WeightPiece& piece) {
  if (piece.coding == WeightCoding::kPlain) return {{piece.hf_name, piece.hf_shape}};
  std::vector<std::int64_t> scales = piece.hf_shape;
  scales.back() /= kMxfp4Block;
  std::vector<std::int64_t> blocks = scales;
  blocks.push_back(kMxfp4Block / 2);
  return {{piece.hf_name + "_blocks", blocks, true}, {piece.hf_name + "_scales", scales, true}};
}

std::vector<WeightPiece> without_prefix(std::vector<WeightPiece> pieces,
                                        const std::string& prefix) {
  for (WeightPiece& piece : pieces) {
    if (piece.hf_name.starts_with(prefix)) piece.hf_name.erase(0, prefix.size());
  }
  return pieces;
}

}  // namespace packtrain
