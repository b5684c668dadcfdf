#include "framework/config/reference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "framework/config/load.h"
#include "framework/config/schema.h"
#include "framework/config/unknown_key.h"
#include "framework/support/error.h"

namespace packtrain {
namespace {

constexpr const char* kIntroduction = R"(# Configuration

Every key of a configuration: the values it takes, what it is when it is left out, and what it
means. `packtrain config --markdown` prints this page, `packtrain config --explain KEY` a part of it,
and `packtrain config CONFIG` what a file resolves to, with each key written out.

A configuration is a YAML file that says what differs from the defaults; `section.key=value` on the
command line overrides it, in YAML too: `optimizer.betas=[0.9,0.99]`, `run.max_steps=null`.
[configs/README.md](../configs/README.md) has the rules and examples,
[operations.md](operations.md) what the keys do in a run. What must agree is checked before anything
starts: a key that is unknown, out of range or at odds with another one is exit code 64, with file,
line and column.
)";

struct Section {
  std::string_view name;
  const char* meaning;
};

constexpr Section kSections[] = {
    {"model", "What is trained."},
    {"data", "What it is trained on: token stores, made by `packtrain prepare`."},
    {"batch", "How examples become optimizer steps, and these micro-batches on ranks."},
    {"optimizer", "How weights follow gradients."},
    {"schedule", "The learning rate from step to step."},
    {"parallel", "How ranks share the model's state, and how they talk."},
    {"precision", "Number formats: fp32 or bf16."},
    {"checkpoint", "When the run is saved, what stays, what it goes on from."},
    {"guard", "What watches over a run. Numbers in brackets are exit codes."},
    {"metrics", "What an operator watches."},
    {"memory", "A rank's memory."},
    {"run", "The run itself: its folder, its length."},
    {"samples", "What the model writes while it is trained."},
    {"debug", "Aids for hunting races; they change no result."},
    {"fault", "A fault to be injected, once: to see what a cluster makes of it."},
};

std::string section_of(const Field& field) {
  return field.name.substr(0, field.name.find('.'));
}

std::string values_of(const Field& field) {
  return field.unit.empty() ? field.wanted : fmt::format("{}; {}", field.wanted, field.unit);
}

std::string heading(const std::string& section) {
  for (const Section& known : kSections) {
    if (known.name != section) continue;
    return fmt::format("\n## {}\n\n{}\n\n| key | value | default | meaning |\n|---|---|---|---|\n",
                       section, known.meaning);
  }
  throw Error(ErrorCategory::kInternal, fmt::format("section {} has no meaning", section));
}

std::string explain(const Field& field) {
  return fmt::format("{}: {}; default {}\n  {}\n", field.name, values_of(field), field.write(),
                     field.meaning);
}

}  // namespace

std::string config_reference() {
  Config defaults;
  std::string page = kIntroduction;
  std::string section;
  for (const Field& field : fields_of(defaults)) {
    if (section_of(field) != section) {
      section = section_of(field);
      page += heading(section);
    }
    page += fmt::format("| `{}` | {} | `{}` | {} |\n", field.name, values_of(field), field.write(),
                        field.meaning);
  }
  return page;
}

std::string explain_config(const std::string& name) {
  Config defaults;
  std::string text;
  for (const Field& field : fields_of(defaults)) {
    const bool asked =
        field.name == name || field.name.ends_with("." + name) || section_of(field) == name;
    if (asked) text += explain(field);
  }
  if (!text.empty()) return text;
  const std::string where = "command line: " + name;
  const std::size_t dot = std::min(name.find('.'), name.size());
  Setting asked;
  asked.section = name.substr(0, dot);
  asked.key = name.substr(std::min(dot + 1, name.size()));
  asked.section_where = asked.key_where = where;
  reject_unknown(asked, config_keys());
}

std::string list_config_keys() {
  Config defaults;
  std::string lines;
  for (const Field& field : fields_of(defaults)) {
    lines += field.name;
    if (!field.choices.empty()) lines += fmt::format("\t{}", fmt::join(field.choices, " "));
    lines += '\n';
  }
  return lines;
}

}  // namespace packtrain
