#include "models/block/encoded_layout.h"

#include <algorithm>

#include "models/block/fp8_bytes.h"

namespace packtrain {

std::vector<ElementRange> encoded_ranges(const ParameterSpec& parameter) {
  const bool has_one_scale = parameter.encoding.format == ParameterEncoding::Format::kFp8;
  if (parameter.parts.empty() || has_one_scale) return {{0, parameter.numel()}};
  std::vector<ElementRange> ranges;
  for (const ParameterPart& part : parameter.parts) {
    ranges.push_back({part.begin * parameter.row_numel(), part.num_rows * parameter.row_numel()});
  }
  return ranges;
}

bool has_whole_blocks(const ParameterSpec& parameter) {
  const bool are_runs = std::ranges::all_of(
      parameter.parts, [](const ParameterPart& part) { return part.num_runs == 1; });
  std::int64_t next = 0;
  for (const ElementRange& range : encoded_ranges(parameter)) {
    if (range.begin != next || range.numel % kNf4BlockElements != 0) return false;
    next += range.numel;
  }
  return are_runs && next == parameter.numel();
}

bool can_encode(const ParameterSpec& parameter, ParameterEncoding::Format format) {
  if (format == ParameterEncoding::Format::kNf4) return has_whole_blocks(parameter);
  return format == ParameterEncoding::Format::kPlain || parameter.numel() % kFp8ScaleBytes == 0;
}

std::int64_t stored_numel(const ParameterSpec& parameter) {
  if (parameter.encoding.is_plain()) return parameter.numel();
  if (parameter.encoding.format == ParameterEncoding::Format::kFp8) {
    return num_fp8_bytes(parameter.numel());
  }
  std::int64_t num_groups = 0;
  for (const ElementRange& range : encoded_ranges(parameter)) {
    num_groups += num_nf4_groups(range.numel);
  }
  return num_groups * kNf4GroupBytes;
}

bool has_fp8_scale(const ParameterSpec& parameter) {
  return parameter.in_fp8 && parameter.encoding.format == ParameterEncoding::Format::kPlain;
}

DataType gathered_type(const ParameterSpec& parameter) {
  return has_fp8_scale(parameter) ? DataType::kUInt8 : parameter.encoding.stored_type();
}

std::vector<std::int64_t> stored_shape(const ParameterSpec& parameter) {
  if (parameter.encoding.is_plain()) return parameter.shape;
  return {stored_numel(parameter)};
}

}  // namespace packtrain
