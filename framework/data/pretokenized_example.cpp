#include "framework/data/pretokenized_example.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

namespace packtrain {
namespace {

namespace dom = simdjson::dom;

constexpr std::int64_t kIgnored = -100;
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
  const auto labels = list_of(object, "labels", "ids");
  const auto bits = list_of(object, "loss_mask", "0 and 1");
  if (!ids) fail("lacks the key 'input_ids'");
  read_ids(*ids);
  has_labels_ = labels || bits;
  if (labels) {
    read_labels(*labels);
  } else if (bits) {
    read_mask(*bits);
  } else {
    loss_mask_.assign(input_ids_.size(), 1);
  }
  for (std::size_t number = 0; number < names_.size(); ++number) read_column(object, number);
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

void PretokenizedExample::read_labels(const Array& labels) {
  loss_mask_.clear();
  for (const dom::element element : labels) {
    const std::size_t t = loss_mask_.size();
    const std::int64_t label = integer(element, "labels", t);
    if (t >= input_ids_.size()) {
      fail(fmt::format("'labels' is longer than 'input_ids', which has {}", input_ids_.size()));
    }
    if (label != kIgnored && label != input_ids_[t]) {
      fail(fmt::format("labels[{}] is {}, wanted its id {} or {} (labels are not shifted)", t,
                       label, input_ids_[t], kIgnored));
    }
    loss_mask_.push_back(label == kIgnored ? 0 : 1);
  }
  check_size("labels", loss_mask_.size(), input_ids_.size());
}

void PretokenizedExample::read_mask(const Array& bits) {
  loss_mask_.clear();
  for (const dom::element element : bits) {
    const std::int64_t bit = integer(element, "loss_mask", loss_mask_.size());
    if (bit != 0 && bit != 1) {
      fail(fmt::format("loss_mask[{}] is {}, wanted 0 or 1", loss_mask_.size(), bit));
    }
    loss_mask_.push_back(static_cast<std::uint8_t>(bit));
  }
  check_size("loss_mask", loss_mask_.size(), input_ids_.size());
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
