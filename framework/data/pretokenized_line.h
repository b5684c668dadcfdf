// Parses one line of pretokenized JSONL (format: pretokenized.h).
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/data/example_groups.h"
#include "framework/data/pretokenized_example.h"

namespace packtrain {

// Every line of the files has this form.
struct PretokenizedForm {
  std::optional<GroupKind> kind = std::nullopt;  // none: a plain example
  bool has_margins = false;
  std::vector<std::string> token_columns = {};
};

// The form of a line, without columns of tokens. A plain one when the line is no JSON object.
PretokenizedForm form_of_line(std::string_view line);

class PretokenizedLine {
 public:
  explicit PretokenizedLine(std::int64_t vocab_size, PretokenizedForm form = {});
  PretokenizedLine(const PretokenizedLine&) = delete;  // examples refer to names of the form
  PretokenizedLine& operator=(const PretokenizedLine&) = delete;

  // Throws LineFault. The results of the functions below are valid until the next call.
  void parse(std::string_view line);

  // The examples of the line: one, or those of its group in their order.
  std::span<const PretokenizedExample> examples() const {
    return std::span(examples_).first(num_examples_);
  }
  GroupRole role(std::size_t number) const { return roles_[number]; }  // in a form with groups
  std::optional<float> margin() const { return margin_; }

 private:
  using Object = simdjson::dom::object;

  PretokenizedExample& next_example();
  void read_list(const Object& object);
  void read_answers(const Object& object);  // pairs and judged answers
  const PretokenizedExample& read_member(const simdjson::dom::element& value,
                                         std::string_view name);
  void read_margin(const Object& object);
  static void check_pair(const PretokenizedExample& chosen, const PretokenizedExample& rejected);

  std::int64_t vocab_size_;
  PretokenizedForm form_;
  simdjson::dom::parser parser_;
  std::vector<char> padded_;  // simdjson reads past the end of its text
  std::vector<PretokenizedExample> examples_;
  std::size_t num_examples_ = 0;  // of the line; others are of earlier lines
  std::vector<GroupRole> roles_;
  std::optional<float> margin_;
};

}  // namespace packtrain
