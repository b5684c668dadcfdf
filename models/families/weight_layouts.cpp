// Maps of a model's tensors, checked against the parameters of the decoder.
#include <functional>
#include <numeric>
#include <utility>

#include "framework/core/error.h"
#include "models/decoder/parameters.h"
#include "models/families/family.h"
#include "models/families/weight_map.h"

namespace packtrain {
namespace {

std::int64_t product(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

[[noreturn]] void fail(const DecoderConfig& config, const std::string& fault) {
  throw Error(ErrorCategory::kInternal, "weights of family '" + config.family + "': " + fault);
}

void check_bounds(const DecoderConfig& config, const WeightPiece& piece) {
  const std::int64_t last = piece.hf_begin + (piece.rows - 1) * piece.hf_row_stride +
                            (piece.columns - 1) * piece.hf_column_stride;
  const bool inside = piece.rows >= 1 && piece.columns >= 1 && piece.hf_begin >= 0 &&
                      piece.hf_row_stride >= 0 && piece.hf_column_stride >= 0 &&
                      last < piece.hf_numel();
  if (!inside) {
    fail(config, "a piece of '" + piece.parameter + "' lies outside of '" + piece.hf_name + "'");
  }
}

void check_parameters(const DecoderConfig& config, const std::vector<WeightPiece>& pieces) {
  std::map<std::string, std::map<std::int64_t, std::int64_t>> runs;  // begin -> size, by parameter
  for (const WeightPiece& piece : pieces) {
    if (!runs[piece.parameter].emplace(piece.begin, piece.numel()).second) {
      fail(config, "'" + piece.parameter + "' has two pieces for the same elements");
    }
  }
  for (const auto& [name, shape] : parameter_shapes(config)) {
    std::int64_t next = 0;
    for (const auto& [begin, size] : runs[name]) {
      if (begin != next) break;
      next += size;
    }
    if (next != product(shape)) {
      fail(config, "'" + name + "' has no piece, or two, for its element " + std::to_string(next));
    }
    runs.erase(name);
  }
  if (!runs.empty()) fail(config, "the model has no parameter '" + runs.begin()->first + "'");
}

void check_tensors(const DecoderConfig& config, const std::vector<WeightPiece>& pieces) {
  struct Use {
    const std::vector<std::int64_t>* shape = nullptr;
    std::int64_t numel = 0;
  };
  std::map<std::string_view, Use> uses;
  for (const WeightPiece& piece : pieces) {
    check_bounds(config, piece);
    Use& use = uses[piece.hf_name];
    if (use.shape != nullptr && *use.shape != piece.hf_shape) {
      fail(config, "'" + piece.hf_name + "' has two shapes");
    }
    use.shape = &piece.hf_shape;
    use.numel += piece.numel();
  }
  for (const auto& [name, use] : uses) {
    if (use.numel != product(*use.shape)) {
      fail(config, std::to_string(use.numel) + " of the " + std::to_string(product(*use.shape)) +
                       " elements of '" + std::string(name) + "' are used");
    }
  }
}

}  // namespace

std::map<std::string, std::vector<std::int64_t>> parameter_shapes(const DecoderConfig& config) {
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (ParameterSpec& parameter : all_parameters(without_adapter(config))) {
    shapes[parameter.name] = std::move(parameter.shape);
  }
  return shapes;
}

void check_weight_map(const DecoderConfig& config, const std::vector<WeightPiece>& pieces) {
  check_parameters(config, pieces);
  check_tensors(config, pieces);
}

std::vector<std::vector<WeightPiece>> weight_layouts(const DecoderConfig& config) {
  const Family& family = find_family(config.family);
  std::vector<std::vector<WeightPiece>> layouts = {family.weights(config)};
  if (family.other_weights != nullptr) {
    for (auto& other : family.other_weights(config)) layouts.push_back(std::move(other));
  }
  for (const auto& layout : layouts) check_weight_map(config, layout);
  const std::size_t num_prefixed = layouts.size();
  for (std::size_t i = 0; i < num_prefixed; ++i) {
    layouts.push_back(without_prefix(layouts[i], family.prefix));
  }
  return layouts;
}

}  // namespace packtrain
