#include "framework/config/load.h"
#include "framework/core/error.h"
#include "tests/fuzz/input_file.h"
#include "tests/fuzz/targets.h"

namespace packtrain::fuzz {

void read_yaml(std::string_view input) {
  static InputFile file;
  static InputFile dump;
  file.write(input);
  try {
    const std::string text = dump_config(load_config(file.path()));
    dump.write(text);
    require(dump_config(load_config(dump.path())) == text, "is read back as it was written");
  } catch (const Error& error) {
    require(error.category() == ErrorCategory::kConfig, "the fault is the configuration's");
  }
}

}  // namespace packtrain::fuzz
