#include "framework/data/pretokenized_line.h"

#include <fmt/format.h>

#include <cstring>

#include "framework/data/text_lines.h"

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

}  // namespace

void PretokenizedLine::parse(std::string_view line) {
  if (line.size() > kMaxLineBytes) {
    fail(fmt::format("the line has {} bytes, wanted at most {}", line.size(), kMaxLineBytes));
  }
  find_columns(line);
  if (!id_column_) fail("lacks the key 'input_ids'");
  read_ids();
  if (label_column_) {
    read_labels();
  } else {
    loss_mask_.assign(input_ids_.size(), 1);
  }
}

void PretokenizedLine::find_columns(std::string_view line) {
  padded_.resize(line.size() + simdjson::SIMDJSON_PADDING);
  std::memcpy(padded_.data(), line.data(), line.size());
  dom::element document;
  const auto error =
      parser_.parse(padded_.data(), line.size(), /*realloc_if_needed=*/false).get(document);
  if (error) fail(fmt::format("is no valid JSON: {}", simdjson::error_message(error)));
  dom::object object;
  if (document.get(object)) fail("is no JSON object");
  id_column_.reset();
  label_column_.reset();
  for (const dom::key_value_pair field : object) {
    if (field.key == "input_ids") take(id_column_, field);
    if (field.key == "labels") take(label_column_, field);
  }
}

void PretokenizedLine::take(std::optional<dom::array>& column, const dom::key_value_pair& field) {
  dom::array array;
  if (column) fail(fmt::format("has the key '{}' twice", field.key));
  if (field.value.get(array)) {
    fail(fmt::format("'{}' is {:.80}, wanted a list of ids", field.key,
                     simdjson::to_string(field.value)));
  }
  column = array;
}

void PretokenizedLine::read_ids() {
  input_ids_.clear();
  for (const dom::element element : *id_column_) {
    const std::int64_t id = integer(element, "input_ids", input_ids_.size());
    if (id < 0 || id >= vocab_size_) {
      fail(
          fmt::format("input_ids[{}] is {}, wanted 0..{}", input_ids_.size(), id, vocab_size_ - 1));
    }
    input_ids_.push_back(static_cast<std::int32_t>(id));
  }
  if (input_ids_.empty()) fail("'input_ids' is empty, wanted at least one id");
}

void PretokenizedLine::read_labels() {
  loss_mask_.clear();
  for (const dom::element element : *label_column_) {
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
  if (loss_mask_.size() != input_ids_.size()) {
    fail(fmt::format("'labels' has {} entries, wanted {} as 'input_ids' has", loss_mask_.size(),
                     input_ids_.size()));
  }
}

}  // namespace packtrain
