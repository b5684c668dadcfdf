// The JSON header of a safetensors file, as text in and entries out. Used by the reader and the
// writer; others want safetensors.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "framework/support/data_type.h"

namespace packtrain {

// The format's own limit: a longer header is refused before it is looked at.
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

// What is wrong with a header; the reader adds the file and throws Error.
class SafetensorsFault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A sound header of a tensor whose type we do not read: fp8, int8.
class UnreadType : public SafetensorsFault {
 public:
  using SafetensorsFault::SafetensorsFault;
};

// Parses and checks everything that the header alone tells, and that the tensors fill exactly
// `num_data_bytes` without holes or overlap. Throws SafetensorsFault with the first fault.
SafetensorsHeader parse_safetensors_header(std::string_view text, std::uint64_t num_data_bytes);

std::string_view safetensors_dtype_name(DataType type);  // "F32" ...

// Elements of `shape`, or nothing when a product of dimensions overflows int64.
std::optional<std::int64_t> checked_numel(const std::vector<std::int64_t>& shape);

}  // namespace packtrain
