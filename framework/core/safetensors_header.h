// Converts the JSON header of a safetensors file from and to text. Only the reader and the writer
// use it. Other code includes safetensors.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/data_type.h"

namespace packtrain {

// The format's limit. A longer header is rejected before it is read.
constexpr std::uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

struct SafetensorsEntry {
  DataType dtype = DataType::kUInt8;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  // bytes after the header
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  std::map<std::string, SafetensorsEntry> tensors;
  std::map<std::string, std::string> metadata;
};

// The fault of a header. The reader adds the file and throws Error.
class SafetensorsFault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A valid tensor with a type that we do not read, such as fp8 or int8.
class UnreadType : public SafetensorsFault {
 public:
  using SafetensorsFault::SafetensorsFault;
};

// Parses the header and checks all that it contains. The tensors must cover exactly
// `num_data_bytes` without gaps or overlap. Throws SafetensorsFault with the first fault.
SafetensorsHeader parse_safetensors_header(std::string_view text, std::uint64_t num_data_bytes);

std::string_view safetensors_dtype_name(DataType type);  // "F32" ...

// Number of elements of `shape`. Nothing when the product overflows int64.
std::optional<std::int64_t> checked_numel(const std::vector<std::int64_t>& shape);

}  // namespace packtrain
