#include "framework/core/safetensors_header.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace packtrain {
namespace {

using Json = nlohmann::json;

struct NamedType {
  std::string_view name;
  DataType type;
};

// Masks of old models are BOOL.
constexpr std::array<NamedType, 10> kTypes{{{"U8", DataType::kUInt8},
                                            {"BOOL", DataType::kBool},
                                            {"I16", DataType::kInt16},
                                            {"I32", DataType::kInt32},
                                            {"I64", DataType::kInt64},
                                            {"F8_E4M3", DataType::kFloat8E4M3},
                                            {"F16", DataType::kFloat16},
                                            {"BF16", DataType::kBFloat16},
                                            {"F32", DataType::kFloat32},
                                            {"F64", DataType::kFloat64}}};

// Parses the header as a stream of events. So a malicious header builds no tree, nests no deeper
// than a tensor's arrays, and cannot hide a duplicate name.
class HeaderEvents : public nlohmann::json_sax<Json> {
 public:
  explicit HeaderEvents(SafetensorsHeader& header) : header_(header) {}

  bool null() override { return reject_value("null"); }
  bool boolean(bool) override { return reject_value("a boolean"); }
  bool number_integer(number_integer_t value) override {
    return reject_value(fmt::format("{}", value));
  }
  bool number_float(number_float_t, const string_t& text) override { return reject_value(text); }
  bool binary(binary_t&) override { return reject_value("binary data"); }
  bool number_unsigned(number_unsigned_t value) override;
  bool string(string_t& text) override;
  bool start_object(std::size_t) override;
  bool key(string_t& text) override;
  bool end_object() override;
  bool start_array(std::size_t) override;
  bool end_array() override;
  bool parse_error(std::size_t position, const std::string&, const Json::exception&) override {
    throw SafetensorsFault(fmt::format("the header is no valid JSON at its byte {}", position));
  }

 private:
  enum class Place { kStart, kTop, kTensor, kMetadata, kArray, kDone };

  [[noreturn]] bool reject_value(std::string_view got) const {
    throw SafetensorsFault(fmt::format(
        "the header of '{:.100}', key '{:.100}', does not allow {} there", name_, key_, got));
  }
  void check_complete();

  SafetensorsHeader& header_;
  Place place_ = Place::kStart;
  std::string name_;  // of the current tensor, or __metadata__
  bool saw_metadata_ = false;
  std::string key_;
  std::optional<std::string> dtype_;
  std::optional<std::vector<std::uint64_t>> shape_;
  std::optional<std::vector<std::uint64_t>> offsets_;
};

bool HeaderEvents::number_unsigned(number_unsigned_t value) {
  if (place_ != Place::kArray) reject_value(fmt::format("{}", value));
  (key_ == "shape" ? shape_ : offsets_)->push_back(value);
  return true;
}

bool HeaderEvents::string(string_t& text) {
  if (place_ == Place::kMetadata) {
    header_.metadata.at(key_) = std::move(text);
  } else if (place_ == Place::kTensor && key_ == "dtype") {
    dtype_ = std::move(text);
  } else {
    reject_value("a string");
  }
  return true;
}

bool HeaderEvents::start_object(std::size_t) {
  if (place_ == Place::kStart) {
    place_ = Place::kTop;
  } else if (place_ == Place::kTop) {
    place_ = name_ == "__metadata__" ? Place::kMetadata : Place::kTensor;
    key_.clear();
    dtype_.reset();
    shape_.reset();
    offsets_.reset();
  } else {
    reject_value("an object");
  }
  return true;
}

bool HeaderEvents::key(string_t& text) {
  bool is_new = true;
  if (place_ == Place::kTop) {
    name_ = std::move(text);
    is_new = name_ == "__metadata__" ? !std::exchange(saw_metadata_, true)
                                     : header_.tensors.try_emplace(name_).second;
  } else if (place_ == Place::kMetadata) {
    key_ = std::move(text);
    is_new = header_.metadata.try_emplace(key_).second;
  } else {
    key_ = std::move(text);
    if (key_ != "dtype" && key_ != "shape" && key_ != "data_offsets") reject_value("this key");
    is_new = !(key_ == "dtype"   ? dtype_.has_value()
               : key_ == "shape" ? shape_.has_value()
                                 : offsets_.has_value());
  }
  if (!is_new) {
    throw SafetensorsFault(place_ == Place::kTop
                               ? fmt::format("the name '{:.100}' appears twice", name_)
                               : fmt::format("'{:.100}' has the key '{:.100}' twice", name_, key_));
  }
  return true;
}

bool HeaderEvents::end_object() {
  if (place_ == Place::kTensor) check_complete();
  place_ = place_ == Place::kTop ? Place::kDone : Place::kTop;
  key_.clear();
  return true;
}

bool HeaderEvents::start_array(std::size_t) {
  if (place_ != Place::kTensor || key_ == "dtype") reject_value("an array");
  (key_ == "shape" ? shape_ : offsets_).emplace();
  place_ = Place::kArray;
  return true;
}

bool HeaderEvents::end_array() {
  place_ = Place::kTensor;
  return true;
}

void HeaderEvents::check_complete() {
  if (!dtype_ || !shape_ || !offsets_) {
    throw SafetensorsFault(
        fmt::format("tensor '{:.100}' lacks one of dtype, shape, data_offsets", name_));
  }
  SafetensorsEntry& entry = header_.tensors.at(name_);
  const auto* type =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const auto& t) { return t.name == *dtype_; });
  if (type == kTypes.end()) {
    throw UnreadType(fmt::format("tensor '{:.100}' has dtype {}, which packtrain does not read",
                                 name_, dtype_->substr(0, 32)));
  }
  entry.dtype = type->type;
  for (const std::uint64_t size : *shape_) {
    if (size > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      throw SafetensorsFault(fmt::format("tensor '{:.100}' has a dimension of {}", name_, size));
    }
    entry.shape.push_back(static_cast<std::int64_t>(size));
  }
  if (offsets_->size() != 2) {
    throw SafetensorsFault(
        fmt::format("tensor '{:.100}' has {} data_offsets, wanted 2", name_, offsets_->size()));
  }
  entry.begin = offsets_->front();
  entry.end = offsets_->back();
}

void check_size(const std::string& name, const SafetensorsEntry& entry) {
  if (entry.end < entry.begin) {
    throw SafetensorsFault(fmt::format("tensor '{:.100}' ends at byte {}, before its begin {}",
                                       name, entry.end, entry.begin));
  }
  const auto numel = checked_numel(entry.shape);
  std::uint64_t num_bytes = 0;
  if (!numel || __builtin_mul_overflow(static_cast<std::uint64_t>(*numel), size_of(entry.dtype),
                                       &num_bytes)) {
    throw SafetensorsFault(fmt::format("tensor '{:.100}': the size of its shape overflows", name));
  }
  if (num_bytes != entry.end - entry.begin) {
    throw SafetensorsFault(
        fmt::format("tensor '{:.100}' has {} bytes at data_offsets [{}, {}], but {} [{}] needs {}",
                    name, entry.end - entry.begin, entry.begin, entry.end,
                    safetensors_dtype_name(entry.dtype), fmt::join(entry.shape, ", "), num_bytes));
  }
}

// The tensors, in the order of their bytes, must cover the data from 0 to the end without gaps.
void check_coverage(const SafetensorsHeader& header, std::uint64_t num_data_bytes) {
  std::vector<std::pair<const SafetensorsEntry*, const std::string*>> order;
  order.reserve(header.tensors.size());
  for (const auto& [name, entry] : header.tensors) order.emplace_back(&entry, &name);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first->begin, a.first->end) < std::pair(b.first->begin, b.first->end);
  });
  std::uint64_t expected = 0;
  for (const auto& [entry, name] : order) {
    if (entry->begin != expected) {
      throw SafetensorsFault(
          fmt::format("tensor '{:.100}' begins at byte {} of the data, wanted {}: {}", *name,
                      entry->begin, expected, entry->begin < expected ? "an overlap" : "a hole"));
    }
    expected = entry->end;
  }
  if (expected != num_data_bytes) {
    throw SafetensorsFault(fmt::format(
        "the tensors end at byte {} of the data, but the file holds {}", expected, num_data_bytes));
  }
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text, std::uint64_t num_data_bytes) {
  if (text.empty() || text.front() != '{') {
    throw SafetensorsFault("the header does not begin with '{'");
  }
  SafetensorsHeader header;
  HeaderEvents events(header);
  Json::sax_parse(text.begin(), text.end(), &events);
  for (const auto& [name, entry] : header.tensors) check_size(name, entry);
  check_coverage(header, num_data_bytes);
  return header;
}

std::string_view safetensors_dtype_name(DataType type) {
  return std::find_if(kTypes.begin(), kTypes.end(), [&](const auto& t) { return t.type == type; })
      ->name;
}

std::optional<std::int64_t> checked_numel(const std::vector<std::int64_t>& shape) {
  std::int64_t numel = 1;
  for (const std::int64_t size : shape) {
    if (__builtin_mul_overflow(numel, size, &numel)) return std::nullopt;
  }
  return numel;
}

}  // namespace packtrain
