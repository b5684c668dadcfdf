// JSON of files from untrusted sources.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <stdexcept>
#include <string_view>

namespace packtrain {

// The fault of a text. It completes a sentence that begins with the text's name. Callers convert it
// to an Error.
class JsonFault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Maximum nesting, far above that of our files and of Hugging Face's. It bounds the recursion of
// functions that walk a value.
inline constexpr std::size_t kMaxJsonDepth = 64;
// Argument for read_text(): the maximum size of a safetensors header.
inline constexpr std::size_t kMaxJsonBytes = 100'000'000;

// Throws JsonFault unless `text` is one JSON value in UTF-8, nested no deeper than kMaxJsonDepth,
// without duplicate keys in an object. Builds no value.
void check_json(std::string_view text);

// Parses a text. Throws JsonFault as check_json() does.
nlohmann::json parse_json(std::string_view text);

// parse_json() of a config.json of Hugging Face. Python's json writes the number Infinity, which is
// no JSON. It is read as {"__float__": "Infinity"}, as transformers 5 writes it.
nlohmann::json parse_hf_json(std::string_view text);

}  // namespace packtrain
