#include "framework/core/error.h"
#include "tests/fuzz/input_file.h"
#include "tests/fuzz/targets.h"
#include "training/checkpoint/manifest.h"

namespace packtrain::fuzz {

void read_checkpoint_manifest(std::string_view input) {
  try {
    const Manifest manifest = parse_manifest(std::string(input), "manifest.json");
    for (const CheckpointFile& file : manifest.files) {
      require(is_checkpoint_file_name(file.name), "names are ours");
    }
    const std::string text = manifest_text(manifest);
    require(manifest_text(parse_manifest(text, "")) == text, "is read back as it was written");
  } catch (const Error&) {
  }
}

}  // namespace packtrain::fuzz
