// The ranges of a checkpoint's files as text of its manifest.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "training/checkpoint/manifest.h"

namespace packtrain {

// "parameter begin numel" for each range, in compact form: thousands of ranks have a million
// ranges.
std::string ranges_text(const std::vector<SavedRange>& ranges);
// The inverse. Nothing where `text` is not a list of numbers, three for each range.
std::optional<std::vector<SavedRange>> parse_ranges(std::string_view text);

// The name of the first file with a range outside its parameter, or "".
std::string file_with_wrong_ranges(const Manifest& manifest);

// The name of an encoded parameter whose tensors' groups are not its stored bytes, or "".
std::string wrongly_encoded_parameter(const Manifest& manifest);

}  // namespace packtrain
