#include "framework/config/reference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "framework/config/load.h"
#include "framework/config/schema.h"
#include "framework/config/unknown_key.h"
#include "framework/core/error.h"

namespace packtrain {
namespace {

constexpr const char* kIntroduction = R"(# Configuration

This page lists every key of a configuration with its values, its default and its meaning.
`packtrain config --markdown` prints this page. `packtrain config --explain KEY` prints a part of it.
`packtrain config CONFIG` prints what a file resolves to, with each key written out.

A configuration is a YAML file with the keys that differ from the defaults. `section.key=value` on
the command line overrides a key, also as YAML: `optimizer.betas=[0.9,0.99]`, `run.max_steps=null`.
[configs/README.md](../configs/README.md) has the rules and examples.
[operations.md](operations.md) describes what the keys do in a run. All keys are checked before the
run starts. A key that is unknown, out of range or in conflict with another one is exit code 64,
with file, line and column.
)";

struct Section {
  std::string_view name;
  const char* meaning;
};

constexpr Section kSections[] = {
    {"model", "The model to train."},
    {"adapter", "A low-rank adapter (LoRA) that is trained over the frozen model."},
    {"adapters", "Several adapters in one run. This key has no section."},
    {"data", "Training and validation data: token stores, made by `packtrain prepare`."},
    {"objective", "The loss that is trained."},
    {"batch", "How examples become optimizer steps, and how steps become micro-batches of ranks."},
    {"optimizer", "Optimizer settings."},
    {"schedule", "Learning rate schedule."},
    {"parallel", "How the model's state is sharded over ranks, and how ranks communicate."},
    {"precision", "Data types: fp32 or bf16, and 8-bit floats in linear layers."},
    {"checkpoint", "When to save, which checkpoints to keep, and how to resume."},
    {"guard",
     "Detection of bad steps, hangs and slow ranks. Numbers in parentheses are exit codes."},
    {"metrics", "Metrics for Prometheus and for analysis."},
    {"memory", "Memory of a rank."},
    {"run", "Output folder, length and evaluation of a run."},
    {"samples", "Text that the model generates during training."},
    {"debug", "Checks that help to find races. They do not change results."},
    {"fault", "Injects one fault, to test how a cluster handles it."},
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
