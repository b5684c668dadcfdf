// Reads typed values from store.json.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/json.h"

namespace packtrain {

inline constexpr const char* kMakeStoreAgain = "Make the store again with `packtrain prepare`.";

// Throws Error(kData) with the file and the key.
class ManifestReader {
 public:
  using Json = nlohmann::ordered_json;

  explicit ManifestReader(std::string path) : path_(std::move(path)) {}

  [[noreturn]] void fail(const std::string& fault, const char* advice = kMakeStoreAgain) const {
    throw Error(ErrorCategory::kData, fmt::format("{}: {}", path_, fault), advice);
  }

  Json parse(const std::string& text) const {
    try {
      check_json(text);
    } catch (const JsonFault& fault) {
      fail(fault.what());
    }
    Json json = Json::parse(text);
    if (!json.is_object()) fail("is not a JSON object");
    return json;
  }

  const Json& value(const Json& object, const char* key, Json::value_t type) const {
    const auto found = object.find(key);
    if (found == object.end()) fail(fmt::format("lacks the key '{}'", key));
    if (found->type() != type) {
      fail(fmt::format("'{}' is {}, wanted {}", key, found->dump().substr(0, 80),
                       Json(type).type_name()));
    }
    return *found;
  }

  std::string text(const Json& object, const char* key) const {
    return value(object, key, Json::value_t::string).get<std::string>();
  }

  std::int64_t count(const Json& object, const char* key, std::int64_t least) const {
    const auto number = value(object, key, Json::value_t::number_unsigned).get<std::uint64_t>();
    if (number < static_cast<std::uint64_t>(least) ||
        number > static_cast<std::uint64_t>(kMaxCount)) {
      fail(fmt::format("'{}' is {}, wanted {}..{}", key, number, least, kMaxCount));
    }
    return static_cast<std::int64_t>(number);
  }

 private:
  static constexpr std::int64_t kMaxCount = std::int64_t{1} << 60U;  // limit that avoids overflow

  std::string path_;
};

}  // namespace packtrain
