// Command lines of subcommands, on CLI11.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace packtrain {

// Parses into the app's bound variables. Returns false when help was asked for and printed: then
// there is nothing more to do. Throws Error(kConfig) for a wrong command line. `app` has the name
// "packtrain SUBCOMMAND".
bool parse_arguments(CLI::App& app, int argc, char** argv);

// Throws Error(kConfig) for arguments that the app's own rules let through.
[[noreturn]] void reject_usage(const CLI::App& app, std::string_view what);

// What CLI::PositiveNumber allows, refused in words.
const CLI::Validator& positive_number();

// `--name` or `--name=value` among the arguments.
bool has_option(int argc, char** argv, std::string_view name);

// CONFIG [section.key=value ...]
struct ConfigArguments {
  std::string path;
  std::vector<std::string> overrides;

  void add_to(CLI::App& app);
};

}  // namespace packtrain
