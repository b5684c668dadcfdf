#include "training/checkpoint/manifest_ranges.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <system_error>
#include <vector>

#include "models/block/fp8_bytes.h"
#include "models/block/nf4_groups.h"

namespace packtrain {
namespace {

// Removes a number from the front of `text`; nothing where there is none.
std::optional<std::int64_t> next_number(std::string_view& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const auto length = static_cast<std::size_t>(end - text.data());
  const bool ends = length == text.size() || text[length] == ' ';
  if (error != std::errc{} || value < 0 || !ends) return std::nullopt;
  text.remove_prefix(std::min(length + 1, text.size()));
  return value;
}

// The stored bytes of an encoded parameter. Nothing if its sizes contradict each other.
std::optional<std::int64_t> encoded_bytes(const EncodedShape& encoded) {
  const bool is_fp8 = encoded.format == ParameterEncoding::Format::kFp8;
  const std::int64_t block = is_fp8 ? kFp8ScaleBytes : kNf4BlockElements;
  std::int64_t numel = 1;
  std::int64_t of_tensors = 0;
  std::int64_t num_groups = 0;
  for (const std::int64_t size : encoded.shape) {
    if (__builtin_mul_overflow(numel, size, &numel)) return std::nullopt;
  }
  for (const std::int64_t size : encoded.tensor_numels) {
    if (size <= 0 || size % block != 0 || __builtin_add_overflow(of_tensors, size, &of_tensors) ||
        of_tensors > numel) {
      return std::nullopt;
    }
    num_groups += num_nf4_groups(size);
  }
  if (of_tensors != numel) return std::nullopt;
  return is_fp8 ? num_fp8_bytes(numel) : num_groups * kNf4GroupBytes;
}

}  // namespace

std::string ranges_text(const std::vector<SavedRange>& ranges) {
  std::string text;
  for (const SavedRange& range : ranges) {
    text += fmt::format("{}{} {} {}", text.empty() ? "" : " ", range.parameter, range.begin,
                        range.numel);
  }
  return text;
}

std::optional<std::vector<SavedRange>> parse_ranges(std::string_view text) {
  std::vector<SavedRange> ranges;
  while (!text.empty()) {
    const auto parameter = next_number(text);
    const auto begin = parameter ? next_number(text) : std::nullopt;
    const auto numel = begin ? next_number(text) : std::nullopt;
    if (!numel) return std::nullopt;
    ranges.push_back({static_cast<std::size_t>(*parameter), *begin, *numel});
  }
  return ranges;
}

std::string file_with_wrong_ranges(const Manifest& manifest) {
  std::vector<std::int64_t> numels;
  for (const auto& [name, shape] : manifest.parameters) {
    std::int64_t numel = 1;
    for (const std::int64_t size : shape) numel *= size;  // checked by parse_parameters
    numels.push_back(numel);
  }
  for (const CheckpointFile& file : manifest.files) {
    for (const SavedRange& range : file.ranges) {
      const bool is_inside = range.parameter < numels.size() &&
                             range.begin <= numels[range.parameter] &&
                             range.numel <= numels[range.parameter] - range.begin;
      if (!is_inside) return file.name;
    }
  }
  return "";
}

std::string wrongly_encoded_parameter(const Manifest& manifest) {
  for (const auto& [name, encoded] : manifest.encoded) {
    const auto bytes = encoded_bytes(encoded);
    const auto stored = manifest.parameters.find(name);
    if (!bytes || stored == manifest.parameters.end() ||
        stored->second != std::vector<std::int64_t>{*bytes}) {
      return name;
    }
  }
  return "";
}

}  // namespace packtrain
