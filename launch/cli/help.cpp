#include "launch/cli/help.h"

#include <sstream>

namespace packtrain {
namespace {

constexpr std::size_t kWidth = 100;
constexpr std::size_t kIndent = 28;  // column of descriptions

// Breaks `text` into lines of at most `width`. All but the first start with `indent` spaces.
std::string wrap(const std::string& text, std::size_t width, std::size_t indent) {
  std::istringstream words(text);
  std::string wrapped;
  std::size_t length = 0;
  for (std::string word; words >> word; length += word.size()) {
    if (length > 0 && length + 1 + word.size() > width) {
      wrapped += "\n" + std::string(indent, ' ');
      length = 0;
    } else if (length > 0) {
      wrapped += ' ';
      ++length;
    }
    wrapped += word;
  }
  return wrapped;
}

bool takes_value(const CLI::Option* option) {
  return option->get_type_size() != 0;
}

// "N", "DIR", "bfloat16 or float32": the name given to the option, or that of its type. CLI11
// appends its checks.
std::string value_name(const CLI::Option* option) {
  const std::string type = option->get_type_name();
  const std::size_t colon = type.find(':');
  const std::string name = type.substr(0, colon);
  if (colon != std::string::npos && type[colon + 1] == '{') {
    const std::string choices = type.substr(colon + 2, type.find('}') - colon - 2);
    return CLI::detail::find_and_replace(choices, ",", "|");
  }
  if (name == "INT" || name == "UINT") return "N";
  if (name == "FLOAT") return "X";
  return name == "SIZE" ? name : type;
}

}  // namespace

HelpFormatter::HelpFormatter() {
  column_width(kIndent);
}

std::string HelpFormatter::make_description(const CLI::App* app) const {
  return wrap(app->get_description(), kWidth, 0) + "\n\n";
}

std::string HelpFormatter::make_usage(const CLI::App* app, std::string name) const {
  std::string usage = "Usage: " + name;
  const auto add = [&usage](const std::string& word, bool is_required) {
    usage += is_required ? " " + word : " [" + word + "]";
  };
  for (const CLI::Option* option : app->get_options()) {
    if (option->get_positional()) continue;
    if (option->get_required()) add(option->get_name() + " " + value_name(option), true);
  }
  for (const CLI::Option* option : app->get_options()) {
    if (!option->get_positional()) continue;
    const bool is_list = option->get_expected_max() > 1;
    add(option->get_name() + (is_list ? "..." : ""), option->get_required());
  }
  return usage + " [OPTIONS]\n";
}

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  std::string name = make_option_name(option, is_positional);
  if (!is_positional && takes_value(option)) name += " " + value_name(option);
  std::string text = "  " + name;
  text += text.size() + 1 < kIndent ? std::string(kIndent - text.size(), ' ')
                                    : "\n" + std::string(kIndent, ' ');
  return text + wrap(make_option_desc(option), kWidth - kIndent, kIndent) + "\n";
}

}  // namespace packtrain
