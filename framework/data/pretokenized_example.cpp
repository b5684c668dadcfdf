#include "framework/data/pretokenized_example.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>

namespace packtrain {
namespace {

namespace dom = simdjson::dom;

constexpr std::int64_t kIgnored = -100;
// A list of 0 and 1 for the loss: ours, TRL's, those of rollouts, and that of transformers' chat
// templates.
constexpr std::array kMasks{"loss_mask", "completion_mask", "response_mask", "assistant_mask",
                            "assistant_masks"};
constexpr const char* kAttention = "attention_mask";
constexpr std::array kOtherMasks{kAttention, "special_tokens_mask"};
constexpr const char* kPositions = "position_ids";
constexpr const char* kLengths = "seq_lengths";  // of the examples that TRL packs into a line
constexpr const char* kWeight = "weight";
constexpr const char* kOldLogProb = "old_log_prob";  // column of tokens
constexpr float kMostLogProb = 1e-3F;                // rounding of a probability of 1

[[noreturn]] void fail(const std::string& fault) {
  throw LineFault(fault);
}

std::int64_t integer(const dom::element& element, const char* column, std::size_t index) {
  std::int64_t value = 0;
  if (element.get(value)) {
    fail(fmt::format("{}[{}] is {:.80}, wanted an integer", column, index,
                     simdjson::to_string(element)));
  }
  return value;
}

// The list with this key, if there is one.
std::optional<dom::array> list_of(const dom::object& object, std::string_view key,
                                  const char* wanted) {
  const auto found = value_of(object, key);
  if (!found) return {};
  dom::array list;
  if (found->get(list)) {
    fail(fmt::format("'{}' is {:.80}, wanted a list of {}", key, simdjson::to_string(*found),
                     wanted));
  }
  return list;
}

float finite(const dom::element& element, const std::string& name) {
  double value = 0;
  if (element.get(value) || !std::isfinite(static_cast<float>(value))) {
    fail(fmt::format("{} is {:.80}, wanted a finite number", name, simdjson::to_string(element)));
  }
  return static_cast<float>(value);
}

void check_log_probs(std::span<const float> column) {
  const auto wrong = std::ranges::find_if(column, [](float value) { return value > kMostLogProb; });
  if (wrong == column.end()) return;
  fail(fmt::format("{}[{}] is {:g}, wanted the logarithm of a probability, which is at most 0",
                   kOldLogProb, wrong - column.begin(), *wrong));
}

void check_size(std::string_view name, std::size_t size, std::size_t wanted) {
  if (size == wanted) return;
  fail(fmt::format("'{}' has {} entries, wanted {} as 'input_ids' has", name, size, wanted));
}

}  // namespace

std::optional<dom::element> value_of(const dom::object& object, std::string_view key) {
  std::optional<dom::element> found;
  for (const dom::key_value_pair field : object) {
    if (field.key != key) continue;
    if (found) fail(fmt::format("has the key '{}' twice", key));
    found = field.value;
  }
  return found;
}

void PretokenizedExample::read(const dom::object& object) {
  const auto ids = list_of(object, "input_ids", "ids");
  if (!ids) fail("lacks the key 'input_ids'");
  read_ids(*ids);
  read_masks(object);
  if (const auto labels = list_of(object, "labels", "ids")) read_labels(*labels);
  check_weight(object);
  for (std::size_t number = 0; number < names_.size(); ++number) read_column(object, number);
  leave_out_padding(object);
  check_is_one_example(object);
}

std::size_t PretokenizedExample::num_prompt_tokens() const {
  const auto first = std::ranges::find_if(loss_mask_, [](std::uint8_t byte) { return byte != 0; });
  return static_cast<std::size_t>(first - loss_mask_.begin());
}

void PretokenizedExample::read_ids(const Array& ids) {
  input_ids_.clear();
  for (const dom::element element : ids) {
    const std::int64_t id = integer(element, "input_ids", input_ids_.size());
    if (id < 0 || id >= vocab_size_) {
      fail(
          fmt::format("input_ids[{}] is {}, wanted 0..{}", input_ids_.size(), id, vocab_size_ - 1));
    }
    input_ids_.push_back(static_cast<std::int32_t>(id));
  }
  if (input_ids_.empty()) fail("'input_ids' is empty, wanted at least one id");
}

// A mask under another name would be ignored, and the prompt learned.
void PretokenizedExample::check_mask_names(const dom::object& object) const {
  const auto is_one_of = [](const auto& names, std::string_view key) {
    return std::ranges::any_of(names, [&](std::string_view name) { return name == key; });
  };
  for (const dom::key_value_pair field : object) {
    const bool is_mask = field.key.ends_with("mask") || field.key.ends_with("masks");
    if (!is_mask || is_one_of(kMasks, field.key) || is_one_of(kOtherMasks, field.key)) continue;
    if (is_one_of(names_, field.key)) continue;
    fail(fmt::format("has the key '{}', which is not read (name it loss_mask, or leave it out)",
                     field.key));
  }
}

// A token counts where all masks have 1, as in TRL.
void PretokenizedExample::read_masks(const dom::object& object) {
  check_mask_names(object);
  has_labels_ = false;
  loss_mask_.assign(input_ids_.size(), 1);
  for (const char* name : kMasks) {
    const auto bits = list_of(object, name, "0 and 1");
    if (!bits) continue;
    has_labels_ = true;
    std::size_t t = 0;
    for (const dom::element element : *bits) {
      const std::int64_t bit = integer(element, name, t);
      if (bit != 0 && bit != 1) fail(fmt::format("{}[{}] is {}, wanted 0 or 1", name, t, bit));
      if (bit == 0 && t < loss_mask_.size()) loss_mask_[t] = 0;
      ++t;
    }
    check_size(name, t, input_ids_.size());
  }
}

void PretokenizedExample::read_labels(const Array& labels) {
  const bool has_mask = has_labels_;
  has_labels_ = true;
  std::size_t t = 0;
  for (const dom::element element : labels) {
    const std::int64_t label = integer(element, "labels", t);
    if (t >= input_ids_.size()) {
      fail(fmt::format("'labels' is longer than 'input_ids', which has {}", input_ids_.size()));
    }
    if (label != kIgnored && label != input_ids_[t]) {
      fail(fmt::format("labels[{}] is {}, wanted its id {} or {} (labels are not shifted)", t,
                       label, input_ids_[t], kIgnored));
    }
    const std::uint8_t byte = label == kIgnored ? 0 : 1;
    if (has_mask && byte != loss_mask_[t]) {
      fail(
          fmt::format("labels[{}] is {}, and its mask is {}: wanted labels or a mask, or both of "
                      "the same tokens",
                      t, label, loss_mask_[t]));
    }
    loss_mask_[t++] = byte;
  }
  check_size("labels", t, input_ids_.size());
}

// A weight is no key of this format.
void PretokenizedExample::check_weight(const dom::object& object) const {
  const auto found = value_of(object, kWeight);
  double weight = 0;
  if (!found || found->get(weight) || std::ranges::find(names_, kWeight) != names_.end()) return;
  if (weight < 0 || weight >= 1) return;
  fail(
      fmt::format("'{}' is {}, and weights of pretokenized examples are not read (leave out the "
                  "key, and an example of weight 0)",
                  kWeight, weight));
}

// Padding is where `attention_mask` is 0.
void PretokenizedExample::leave_out_padding(const dom::object& object) {
  num_padding_before_ = 0;
  const auto bits = list_of(object, kAttention, "0 and 1");
  if (!bits) return;
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t t = 0;
  for (const dom::element element : *bits) {
    const std::int64_t bit = integer(element, kAttention, t);
    if (bit != 0 && bit != 1) {
      fail(fmt::format("{}[{}] is {}, wanted 0 or 1 (a line is one example)", kAttention, t, bit));
    }
    if (bit == 1 && begin == end) begin = end = t;
    if (bit == 1 && end != t) {
      fail(fmt::format("{}[{}] is 0 between tokens that are no padding", kAttention, end));
    }
    if (bit == 1) end = t + 1;
    ++t;
  }
  check_size(kAttention, t, input_ids_.size());
  if (begin == end) fail(fmt::format("'{}' is 0 everywhere", kAttention));
  const auto keep = [&](auto& values) {
    values.erase(values.begin() + static_cast<std::ptrdiff_t>(end), values.end());
    values.erase(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(begin));
  };
  num_padding_before_ = begin;
  keep(input_ids_);
  keep(loss_mask_);
  for (std::vector<float>& column : columns_) keep(column);
}

// Lines that other trainers have packed hold several examples.
void PretokenizedExample::check_is_one_example(const dom::object& object) const {
  constexpr const char* kAdvice = "the line holds several examples, wanted one a line";
  if (const auto lengths = list_of(object, kLengths, "lengths"); lengths && lengths->size() > 1) {
    fail(fmt::format("'{}' has {} entries: {}", kLengths, lengths->size(), kAdvice));
  }
  const auto positions = list_of(object, kPositions, "integers");
  if (!positions) return;
  std::size_t t = 0;
  std::int64_t before = 0;
  for (const dom::element element : *positions) {
    const std::int64_t position = integer(element, kPositions, t);
    const bool is_inside = t > num_padding_before_ && t < num_padding_before_ + input_ids_.size();
    if (is_inside && position != before + 1) {
      fail(fmt::format("{}[{}] is {} after {}: {}", kPositions, t, position, before, kAdvice));
    }
    before = position;
    ++t;
  }
}

// A list with a value for each id, or a number for all supervised ones.
void PretokenizedExample::read_column(const dom::object& object, std::size_t number) {
  const std::string& name = names_[number];
  const auto found = value_of(object, name);
  if (!found) fail(fmt::format("lacks the key '{}', which --token-column names", name));
  std::vector<float>& column = columns_[number];
  column.clear();
  if (found->is_number()) {
    const float value = finite(*found, name);
    for (const std::uint8_t byte : loss_mask_) column.push_back(byte == 0 ? 0.0F : value);
  } else {
    const auto values = list_of(object, name, "numbers");
    for (const dom::element element : *values) {
      column.push_back(finite(element, fmt::format("{}[{}]", name, column.size())));
    }
    check_size(name, column.size(), input_ids_.size());
  }
  if (name == kOldLogProb) check_log_probs(column);
}

}  // namespace packtrain
