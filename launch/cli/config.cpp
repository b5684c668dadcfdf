// packtrain config: prints the resolved configuration, or the description of its keys.
#include "framework/config/load.h"
#include "framework/config/reference.h"
#include "launch/cli/arguments.h"
#include "launch/cli/output.h"
#include "launch/cli/program.h"
#include "launch/cli/sources.h"

namespace packtrain {

int run_config(int argc, char** argv) {
  CLI::App app(
      "Prints what CONFIG resolves to, every key written out: the `config.yaml` that a run of it "
      "saves. Or says what keys mean.",
      "packtrain config");
  ConfigArguments arguments;
  std::string explained;
  bool as_markdown = false;
  bool list_keys = false;
  arguments.add_to(app);
  CLI::Option* const config = app.get_option("CONFIG")->required(false);
  const auto instead = [config](CLI::Option* option) { option->excludes(config); };
  instead(app.add_option("--explain", explained,
                         "values, default and meaning of KEY, or of all keys of a section")
              ->type_name("KEY"));
  instead(app.add_flag("--keys", list_keys, "every key, with its values where they have names"));
  instead(app.add_flag("--markdown", as_markdown, "docs/configuration.md"));
  app.footer(
      "Examples:\n"
      "  packtrain config configs/quickstart.yaml batch.strategy=multipack\n"
      "  packtrain config --explain batch");
  if (!parse_arguments(app, argc, argv)) return 0;
  if (!explained.empty()) {
    print_result(explain_config(explained));
  } else if (list_keys) {
    print_result(list_config_keys());
  } else if (as_markdown) {
    print_result(config_reference());
  } else {
    if (arguments.path.empty()) reject_usage(app, "CONFIG is required");
    print_result(dump_config(load_config(arguments.path, arguments.overrides, arguments.unread)));
    warn_of_unread_keys(arguments);
  }
  return 0;
}

}  // namespace packtrain
