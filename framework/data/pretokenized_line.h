// Parses one line of pretokenized JSONL (format: pretokenized.h).
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace packtrain {

// The fault of a line. The text completes a sentence that begins with the line's place.
class LineFault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class PretokenizedLine {
 public:
  explicit PretokenizedLine(std::int64_t vocab_size) : vocab_size_(vocab_size) {}

  // Throws LineFault. The results of the functions below are valid until the next call.
  void parse(std::string_view line);

  std::span<const std::int32_t> input_ids() const { return input_ids_; }
  std::span<const std::uint8_t> loss_mask() const { return loss_mask_; }

 private:
  void find_columns(std::string_view line);
  static void take(std::optional<simdjson::dom::array>& column,
                   const simdjson::dom::key_value_pair& field);
  void read_ids();
  void read_labels();

  std::int64_t vocab_size_;
  simdjson::dom::parser parser_;
  std::vector<char> padded_;  // simdjson reads past the end of its text
  std::optional<simdjson::dom::array> id_column_;
  std::optional<simdjson::dom::array> label_column_;
  std::vector<std::int32_t> input_ids_;
  std::vector<std::uint8_t> loss_mask_;
};

}  // namespace packtrain
