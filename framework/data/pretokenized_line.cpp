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
// Kinds whose name is the key of a list of examples.
constexpr std::array kListed{GroupKind::kRollouts, GroupKind::kTurns};
// Keys of one example each.
constexpr std::array kKeyRoles{GroupRole::kChosen, GroupRole::kRejected, GroupRole::kDesirable,
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

bool has_key(const dom::object& object, std::string_view key) {
  return value_of(object, key).has_value();
}

bool has_label(const PretokenizedExample& example) {
  const auto mask = example.loss_mask().subspan(1);
  return std::ranges::any_of(mask, [](std::uint8_t byte) { return byte != 0; });
}

// The prompt: all tokens before the first label.
bool has_same_prompt(const PretokenizedExample& first, const PretokenizedExample& second) {
  return std::ranges::equal(first.input_ids().first(first.num_prompt_tokens()),
                            second.input_ids().first(second.num_prompt_tokens()));
}

}  // namespace

PretokenizedForm form_of_line(std::string_view line) {
  PretokenizedForm form;
  dom::parser parser;
  std::vector<char> padded;
  try {
    const dom::object object = object_of(parser, padded, line);
    if (has_key(object, "input_ids")) return form;
    for (const GroupKind kind : kListed) {
      if (has_key(object, name_of(kind))) form.kind = kind;
    }
    for (const GroupRole role : kKeyRoles) {
      if (form.kind || !has_key(object, name_of(role))) continue;
      form.kind = kind_of(role);
      form.has_margins = has_key(object, kMarginKey);
    }
  } catch (const LineFault&) {
    return {};  // parse() reports it
  }
  return form;
}

PretokenizedLine::PretokenizedLine(std::int64_t vocab_size, PretokenizedForm form)
    : vocab_size_(vocab_size), form_(std::move(form)) {}

void PretokenizedLine::parse(std::string_view line) {
  if (line.size() > kMaxLineBytes) {
    fail_line(fmt::format("the line has {} bytes, wanted at most {}", line.size(), kMaxLineBytes));
  }
  const dom::object object = object_of(parser_, padded_, line);
  roles_.clear();
  num_examples_ = 0;
  margin_.reset();
  if (!form_.kind) {
    next_example().read(object);
  } else if (std::ranges::find(kListed, *form_.kind) != kListed.end()) {
    read_list(object);
  } else {
    read_answers(object);
  }
}

// Examples of earlier lines are read into again, so that their memory is kept.
PretokenizedExample& PretokenizedLine::next_example() {
  if (num_examples_ == examples_.size()) examples_.emplace_back(vocab_size_, form_.token_columns);
  return examples_[num_examples_++];
}

// Rollouts follow the same prompt, and each turn its own.
void PretokenizedLine::read_list(const Object& object) {
  const bool are_turns = *form_.kind == GroupKind::kTurns;
  const std::string_view key = name_of(*form_.kind);
  const auto value = value_of(object, key);
  if (!value) fail_line(fmt::format("lacks the key '{}', which the first line has", key));
  dom::array list;
  if (value->get(list)) {
    fail_line(
        fmt::format("'{}' is {:.80}, wanted a list of objects", key, simdjson::to_string(*value)));
  }
  for (const dom::element element : list) {
    const std::string name = fmt::format("{}[{}]", key, num_examples_);
    const PretokenizedExample& example = read_member(element, name);
    roles_.push_back(are_turns ? GroupRole::kTurn : GroupRole::kRollout);
    if (!are_turns && !has_same_prompt(examples_[0], example)) {
      fail_line(
          fmt::format("the prompts of '{}[0]' and '{}' (the ids before the first label) "
                      "differ",
                      key, name));
    }
  }
  if (roles_.empty()) {
    fail_line(fmt::format("'{}' is an empty list, wanted at least one {}", key,
                          are_turns ? "turn" : "answer"));
  }
}

void PretokenizedLine::read_answers(const Object& object) {
  const std::size_t wanted = *form_.kind == GroupKind::kPairs ? 2 : 1;
  for (const GroupRole role : kKeyRoles) {
    if (!has_key(object, name_of(role))) continue;
    if (!has_role(*form_.kind, role) || roles_.size() == wanted) {
      fail_line(fmt::format("has the key '{}', wanted groups of the kind '{}' as in the first line",
                            name_of(role), name_of(*form_.kind)));
    }
    read_member(*value_of(object, name_of(role)), name_of(role));
    roles_.push_back(role);
  }
  if (roles_.size() < wanted) {
    fail_line(*form_.kind == GroupKind::kPairs
                  ? fmt::format(
                        "lacks the key '{}': this is half a pair",
                        roles_.empty() || roles_[0] == GroupRole::kRejected ? "chosen" : "rejected")
                  : "lacks the key 'desirable' or 'undesirable'");
  }
  if (*form_.kind == GroupKind::kPairs) check_pair(examples_[0], examples_[1]);
  read_margin(object);
}

const PretokenizedExample& PretokenizedLine::read_member(const dom::element& value,
                                                         std::string_view name) {
  dom::object member;
  if (value.get(member)) {
    fail_line(fmt::format("'{}' is {:.80}, wanted an object with 'input_ids' and 'labels'", name,
                          simdjson::to_string(value)));
  }
  PretokenizedExample& example = next_example();
  try {
    example.read(member);
  } catch (const LineFault& fault) {
    fail_line(fmt::format("'{}': {}", name, fault.what()));
  }
  if (!example.has_labels()) {
    fail_line(fmt::format("'{}': lacks the key 'labels', which says what the answer is", name));
  }
  if (!has_label(example)) {
    fail_line(fmt::format("'{}': has no label after its first token: the answer is empty", name));
  }
  if (form_.kind != GroupKind::kTurns && example.num_prompt_tokens() == 0) {
    fail_line(
        fmt::format("'{}': its first token has a label, and no token before it predicts it: "
                    "wanted a prompt of at least one token",
                    name));
  }
  return example;
}

void PretokenizedLine::read_margin(const Object& object) {
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

void PretokenizedLine::check_pair(const PretokenizedExample& chosen,
                                  const PretokenizedExample& rejected) {
  if (std::ranges::equal(chosen.input_ids(), rejected.input_ids())) {
    fail_line("the answers 'chosen' and 'rejected' are equal");
  }
  if (!has_same_prompt(chosen, rejected)) {
    fail_line("the prompts of 'chosen' and 'rejected' (the ids before the first label) differ");
  }
}

}  // namespace packtrain
