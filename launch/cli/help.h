// The layout of `--help` of a subcommand.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace packtrain {

// CLI11's help, in lines of at most 100 columns. The usage line has the required arguments; type
// names are left out.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter();

  std::string make_description(const CLI::App* app) const override;
  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
};

}  // namespace packtrain
