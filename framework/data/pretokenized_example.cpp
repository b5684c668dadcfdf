#include "framework/data/pretokenized_example.h"

#include <fmt/format.h>

#include <cmath>

namespace packtrain {
namespace {

namespace dom = simdjson::dom;

constexpr std::int64_t kIgnored = -100;

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

// The list with this key, if there is one. A key may occur once.
std::optional<dom::array> list_of(const dom::object& object, std::string_view key,
                                  const char* wanted) {
  std::optional<dom::array> found;
  for (const dom::key_value_pair field : object) {
    if (field.key != key) continue;
    if (found) fail(fmt::format("has the key '{}' twice", key));
    dom::array list;
    if (field.value.get(list)) {
      fail(fmt::format("'{}' is {:.80}, wanted a list of {}", key, simdjson::to_string(field.value),
                       wanted));
    }
    found = list;
  }
  return found;
}

void check_size(std::string_view name, std::size_t size, std::size_t wanted) {
  if (size == wanted) return;
  fail(fmt::format("'{}' has {} entries, wanted {} as 'input_ids' has", name, size, wanted));
}

}  // namespace

void PretokenizedExample::read(const dom::object& object) {
  const auto ids = list_of(object, "input_ids", "ids");
  const auto labels = list_of(object, "labels", "ids");
  if (!ids) fail("lacks the key 'input_ids'");
  read_ids(*ids);
  has_labels_ = labels.has_value();
  if (labels) {
    read_labels(*labels);
  } else {
    loss_mask_.assign(input_ids_.size(), 1);
  }
  for (std::size_t number = 0; number < names_.size(); ++number) {
    const auto values = list_of(object, names_[number], "numbers");
    if (!values)
      fail(fmt::format("lacks the key '{}', which --token-column names", names_[number]));
    read_column(*values, number);
  }
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

void PretokenizedExample::read_column(const Array& values, std::size_t number) {
  std::vector<float>& column = columns_[number];
  column.clear();
  for (const dom::element element : values) {
    double value = 0;
    if (element.get(value) || !std::isfinite(static_cast<float>(value))) {
      fail(fmt::format("{}[{}] is {:.80}, wanted a finite number", names_[number], column.size(),
                       simdjson::to_string(element)));
    }
    column.push_back(static_cast<float>(value));
  }
  check_size(names_[number], column.size(), input_ids_.size());
}

}  // namespace packtrain
