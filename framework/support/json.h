// JSON of files that anybody may have written.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <stdexcept>
#include <string_view>

namespace packtrain {

// What is wrong with a text, as the rest of a sentence that begins with its name; callers make it
// an Error.
class JsonFault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Far deeper than any file of ours or of Hugging Face; what walks over a value calls itself at most
// so often.
inline constexpr std::size_t kMaxJsonDepth = 64;
// To be given to read_text(): as large as a safetensors header may be.
inline constexpr std::size_t kMaxJsonBytes = 100'000'000;

// Throws JsonFault unless `text` is one JSON value in UTF-8, nested no deeper than kMaxJsonDepth,
// none of whose objects has a key twice. Builds no value.
void check_json(std::string_view text);

// The value of a text that check_json() takes.
nlohmann::json parse_json(std::string_view text);

}  // namespace packtrain
