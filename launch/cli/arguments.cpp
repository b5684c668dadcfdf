#include "launch/cli/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "framework/core/error.h"
#include "launch/cli/help.h"
#include "launch/cli/output.h"

namespace packtrain {

bool parse_arguments(CLI::App& app, int argc, char** argv) {
  app.formatter(std::make_shared<HelpFormatter>());
  try {
    app.parse(argc, argv);
    return true;
  } catch (const CLI::CallForHelp&) {
    print_result(app.help());
    return false;
  } catch (const CLI::ParseError& failure) {
    reject_usage(app, failure.what());
  }
}

void reject_usage(const CLI::App& app, std::string_view what) {
  throw Error(ErrorCategory::kConfig, fmt::format("{}: {}", app.get_name(), what),
              fmt::format("`{} --help` shows what it takes.", app.get_name()));
}

const CLI::Validator& positive_number() {
  static const CLI::Validator validator(
      [](const std::string& text) {
        double number = 0;
        const bool fits = CLI::detail::lexical_cast(text, number) && number > 0;
        return fits ? std::string() : fmt::format("got {}, wanted a number above 0", text);
      },
      "POSITIVE");
  return validator;
}

bool has_option(int argc, char** argv, std::string_view name) {
  return std::any_of(argv + 1, argv + argc, [name](const std::string_view argument) {
    return argument.starts_with(name) &&
           (argument.size() == name.size() || argument[name.size()] == '=');
  });
}

void ConfigArguments::add_to(CLI::App& app) {
  app.add_option("CONFIG", path, "configuration file (YAML)")->required();
  app.add_option("OVERRIDES", overrides,
                 "section.key=value, over the file, in order (docs/configuration.md)");
}

}  // namespace packtrain
