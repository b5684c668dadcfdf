// One example of pretokenized JSON (format: pretokenized.h).
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

// The value of a key, if there is one. Throws LineFault for a key that occurs twice.
std::optional<simdjson::dom::element> value_of(const simdjson::dom::object& object,
                                               std::string_view key);

class PretokenizedExample {
 public:
  // `columns`: names of columns of tokens, which must outlive it.
  PretokenizedExample(std::int64_t vocab_size, const std::vector<std::string>& columns)
      : vocab_size_(vocab_size), names_(columns), columns_(columns.size()) {}

  // Throws LineFault. The results of the functions below are valid until the next call.
  void read(const simdjson::dom::object& object);

  std::span<const std::int32_t> input_ids() const { return input_ids_; }
  std::span<const std::uint8_t> loss_mask() const { return loss_mask_; }
  std::span<const float> column(std::size_t number) const { return columns_[number]; }
  bool has_labels() const { return has_labels_; }  // false: every token is supervised
  // The number of ids before the first supervised one.
  std::size_t num_prompt_tokens() const;

 private:
  using Array = simdjson::dom::array;

  void read_ids(const Array& ids);
  void check_mask_names(const simdjson::dom::object& object) const;
  void read_masks(const simdjson::dom::object& object);
  void read_labels(const Array& labels);
  void check_weight(const simdjson::dom::object& object) const;
  void read_column(const simdjson::dom::object& object, std::size_t number);
  void leave_out_padding(const simdjson::dom::object& object);
  void check_is_one_example(const simdjson::dom::object& object) const;

  std::int64_t vocab_size_;
  const std::vector<std::string>& names_;
  std::vector<std::int32_t> input_ids_;
  std::vector<std::uint8_t> loss_mask_;
  std::vector<std::vector<float>> columns_;
  bool has_labels_ = false;
  std::size_t num_padding_before_ = 0;  // tokens that were left out at the begin
};

}  // namespace packtrain
