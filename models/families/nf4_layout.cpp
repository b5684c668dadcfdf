#include "models/families/nf4_layout.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "models/families/family.h"
#include "models/families/weight_map.h"

namespace packtrain {
namespace {

// The first elements of a tensor, in one parameter and in the tensor's order.
struct TensorStart {
  std::string parameter;
  std::int64_t begin = 0;  // in the parameter
  std::int64_t numel = 0;
};

bool continues(const TensorStart& start, const WeightPiece& piece) {
  return piece.is_contiguous() && piece.parameter == start.parameter &&
         piece.begin == start.begin + start.numel && piece.hf_begin == start.numel;
}

}  // namespace

std::set<std::string> parameters_that_cut_tensors(const DecoderConfig& config) {
  if (config.family.empty()) return {};
  std::vector<WeightPiece> pieces = find_family(config.family).weights(config);
  std::ranges::stable_sort(pieces, {}, &WeightPiece::begin);
  std::set<std::string> cut;
  std::map<std::string, TensorStart> tensors;
  for (const WeightPiece& piece : pieces) {
    TensorStart& start =
        tensors.try_emplace(piece.hf_name, TensorStart{piece.parameter, piece.begin}).first->second;
    if (continues(start, piece)) {
      start.numel += piece.numel();
    } else {
      cut.insert({piece.parameter, start.parameter});
    }
  }
  return cut;
}

}  // namespace packtrain
