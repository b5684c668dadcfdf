#include "models/families/parameter_parts.h"

#include <algorithm>

#include "framework/core/error.h"
#include "models/families/family.h"
#include "models/families/weight_map.h"

namespace packtrain {
namespace {

// Elements, then rows.
struct Run {
  std::int64_t begin = 0;
  std::int64_t size = 0;
};

// The runs of each tensor in a parameter, in order; those without a gap are joined.
using RunsOfTensors = std::map<std::string, std::vector<Run>>;

void add(std::vector<Run>& runs, const WeightPiece& piece) {
  if (!runs.empty() && runs.back().begin + runs.back().size == piece.begin) {
    runs.back().size += piece.numel();
  } else {
    runs.push_back({piece.begin, piece.numel()});
  }
}

// Runs of one size at equal distances become one part.
void add_part(const std::string& tensor, const Run& rows, std::vector<ParameterPart>& parts) {
  if (!parts.empty() && parts.back().tensor == tensor && parts.back().num_rows == rows.size) {
    ParameterPart& part = parts.back();
    const std::int64_t distance = rows.begin - part.begin;
    if (part.num_runs == 1) part.stride = distance;
    if (distance == part.num_runs * part.stride) {
      ++part.num_runs;
      return;
    }
  }
  parts.push_back({tensor, rows.begin, rows.size});
}

std::vector<ParameterPart> parts_of(const std::string& parameter, const RunsOfTensors& tensors,
                                    std::int64_t row_numel) {
  std::vector<ParameterPart> parts;
  for (const auto& [tensor, runs] : tensors) {
    for (const Run& run : runs) {
      if (run.begin % row_numel != 0 || run.size % row_numel != 0) {
        throw Error(ErrorCategory::kInternal,
                    "tensor '" + tensor + "' ends inside a row of '" + parameter + "'");
      }
      add_part(tensor, {run.begin / row_numel, run.size / row_numel}, parts);
    }
  }
  std::ranges::stable_sort(parts, {}, &ParameterPart::begin);
  return parts;
}

}  // namespace

std::map<std::string, std::vector<ParameterPart>> parameter_parts(const DecoderConfig& config) {
  std::vector<WeightPiece> pieces = module_weights(config);
  std::ranges::stable_sort(pieces, {}, &WeightPiece::begin);
  std::map<std::string, RunsOfTensors> runs;
  for (const WeightPiece& piece : pieces) add(runs[piece.parameter][piece.hf_name], piece);
  std::map<std::string, std::vector<ParameterPart>> parts;
  for (const auto& [name, shape] : parameter_shapes(config)) {
    const ParameterSpec spec{.name = name, .shape = shape};
    parts[name] = parts_of(name, runs[name], spec.row_numel());
  }
  return parts;
}

}  // namespace packtrain
