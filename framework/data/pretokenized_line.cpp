#include "framework/data/pretokenized_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "framework/data/group_format.h"
#include "framework/data/text_lines.h"

namespace packtrain {
namespace {

namespace dom = simdjson::dom;

constexpr std::string_view kMarginKey = "margin";
constexpr std::array kAllRoles{GroupRole::kChosen, GroupRole::kRejected, GroupRole::kDesirable,
                               GroupRole::kUndesirable};

[[noreturn]] void fail_line(const std::string& fault) {
  throw LineFault(fault);
}

dom::object object_of(dom::parser& parser, std::vector<char>& padded, std::string_view line) {
  padded.resize(line.size() + simdjson::SIMDJSON_PADDING);
  std::memcpy(padded.data(), line.data(), line.size());
  dom::element document;
  const auto error =
      parser.parse(padded.data(), line.size(), /*realloc_if_needed=*/false).get(document);
  if (error) fail_line(fmt::format("is no valid JSON: {}", simdjson::error_message(error)));
  dom::object object;
  if (document.get(object)) fail_line("is no JSON object");
  return object;
}

// The value of a key, which may occur once.
std::optional<dom::element> value_of(const dom::object& object, std::string_view key) {
  std::optional<dom::element> found;
  for (const dom::key_value_pair field : object) {
    if (field.key != key) continue;
    if (found) fail_line(fmt::format("has the key '{}' twice", key));
    found = field.value;
  }
  return found;
}

bool has_key(const dom::object& object, std::string_view key) {
  return value_of(object, key).has_value();
}

bool has_label(const PretokenizedExample& example) {
  const auto mask = example.loss_mask().subspan(1);
  return std::ranges::any_of(mask, [](std::uint8_t byte) { return byte != 0; });
}

}  // namespace

PretokenizedForm form_of_line(std::string_view line) {
  PretokenizedForm form;
  dom::parser parser;
  std::vector<char> padded;
  try {
    const dom::object object = object_of(parser, padded, line);
    if (has_key(object, "input_ids")) return form;
    for (const GroupRole role : kAllRoles) {
      if (!has_key(object, name_of(role))) continue;
      const bool is_of_pair = has_role(GroupKind::kPairs, role);
      form.kind = is_of_pair ? GroupKind::kPairs : GroupKind::kJudged;
      form.has_margins = has_key(object, kMarginKey);
      return form;
    }
  } catch (const LineFault&) {
    return {};  // parse() reports it
  }
  return form;
}

PretokenizedLine::PretokenizedLine(std::int64_t vocab_size, PretokenizedForm form)
    : form_(std::move(form)),
      examples_(form_.kind == GroupKind::kPairs ? 2 : 1,
                PretokenizedExample(vocab_size, form_.token_columns)) {}

void PretokenizedLine::parse(std::string_view line) {
  if (line.size() > kMaxLineBytes) {
    fail_line(fmt::format("the line has {} bytes, wanted at most {}", line.size(), kMaxLineBytes));
  }
  const dom::object object = object_of(parser_, padded_, line);
  if (form_.kind) {
    read_group(object);
  } else {
    examples_[0].read(object);
  }
}

void PretokenizedLine::read_group(const Object& object) {
  roles_.clear();
  for (const GroupRole role : kAllRoles) {
    if (!has_key(object, name_of(role))) continue;
    if (!has_role(*form_.kind, role) || roles_.size() == examples_.size()) {
      fail_line(fmt::format("has the key '{}', wanted groups of the kind '{}' as in the first line",
                            name_of(role), name_of(*form_.kind)));
    }
    read_member(object, role, examples_[roles_.size()]);
    roles_.push_back(role);
  }
  if (roles_.size() < examples_.size()) {
    fail_line(*form_.kind == GroupKind::kPairs
                  ? fmt::format(
                        "lacks the key '{}': this is half a pair",
                        roles_.empty() || roles_[0] == GroupRole::kRejected ? "chosen" : "rejected")
                  : "lacks the key 'desirable' or 'undesirable'");
  }
  if (*form_.kind == GroupKind::kPairs) check_pair(examples_[0], examples_[1]);
  read_margin(object);
}

void PretokenizedLine::read_member(const Object& object, GroupRole role,
                                   PretokenizedExample& example) {
  const dom::element value = *value_of(object, name_of(role));
  dom::object member;
  if (value.get(member)) {
    fail_line(fmt::format("'{}' is {:.80}, wanted an object with 'input_ids' and 'labels'",
                          name_of(role), simdjson::to_string(value)));
  }
  try {
    example.read(member);
  } catch (const LineFault& fault) {
    fail_line(fmt::format("'{}': {}", name_of(role), fault.what()));
  }
  if (!example.has_labels()) {
    fail_line(
        fmt::format("'{}': lacks the key 'labels', which says what the answer is", name_of(role)));
  }
  if (!has_label(example)) {
    fail_line(fmt::format("'{}': has no label after its first token: the answer is empty",
                          name_of(role)));
  }
}

void PretokenizedLine::read_margin(const Object& object) {
  margin_.reset();
  const auto value = value_of(object, kMarginKey);
  if (value.has_value() != form_.has_margins) {
    fail_line(fmt::format("has {} '{}', unlike the first line", value ? "the key" : "no key",
                          kMarginKey));
  }
  if (!value) return;
  double margin = 0;
  if (value->get(margin) || !std::isfinite(static_cast<float>(margin))) {
    fail_line(fmt::format("'{}' is {:.80}, wanted a finite number", kMarginKey,
                          simdjson::to_string(*value)));
  }
  margin_ = static_cast<float>(margin);
}

// A pair shares its prompt: all tokens before the first label of either.
void PretokenizedLine::check_pair(const PretokenizedExample& chosen,
                                  const PretokenizedExample& rejected) {
  const auto prompt_of = [](const PretokenizedExample& example) {
    const auto mask = example.loss_mask();
    const auto first = std::ranges::find_if(mask, [](std::uint8_t byte) { return byte != 0; });
    return example.input_ids().first(static_cast<std::size_t>(first - mask.begin()));
  };
  if (std::ranges::equal(chosen.input_ids(), rejected.input_ids())) {
    fail_line("the answers 'chosen' and 'rejected' are equal");
  }
  if (!std::ranges::equal(prompt_of(chosen), prompt_of(rejected))) {
    fail_line("the prompts of 'chosen' and 'rejected' (the ids before the first label) differ");
  }
}

}  // namespace packtrain
