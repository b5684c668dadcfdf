// Command lines of subcommands, with CLI11.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "framework/config/unread_warnings.h"

namespace packtrain {

// Parses into the app's bound variables. Returns false after it has printed help; the caller then
// returns. Throws Error(kConfig) for a wrong command line. `app` has the name "packtrain
// SUBCOMMAND".
bool parse_arguments(CLI::App& app, int argc, char** argv);

// Throws Error(kConfig) for arguments that CLI11's rules accept and the subcommand does not.
[[noreturn]] void reject_usage(const CLI::App& app, std::string_view what);

// Like CLI::PositiveNumber, with an error text in words.
const CLI::Validator& positive_number();

// True when the arguments have `--name` or `--name=value`.
bool has_option(int argc, char** argv, std::string_view name);

// CONFIG [section.key=value ...]
struct ConfigArguments {
  std::string path;
  std::vector<std::string> overrides;
  std::vector<UnreadKey> unread = {};  // of the configuration that was loaded with these

  void add_to(CLI::App& app);
};

}  // namespace packtrain
