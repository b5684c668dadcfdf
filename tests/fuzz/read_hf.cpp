#include <nlohmann/json.hpp>

#include "framework/core/error.h"
#include "models/families/config_changes.h"
#include "models/families/family.h"
#include "tests/fuzz/input_file.h"
#include "tests/fuzz/targets.h"
#include "training/checkpoint/hf_files.h"

namespace packtrain::fuzz {

void read_hf_config(std::string_view input) {
  const std::string text(input);
  without_dropouts(text);
  try {
    const DecoderConfig config = parse_decoder_config(text);
    const Family& family = find_family(config.family);
    const std::string written = family.write(config).dump();
    require(parse_decoder_config(written) == config, "is read back as it was written");
    if (config.num_layers * std::max<std::int64_t>(1, config.experts.num_experts) < 1000) {
      for (const WeightPiece& piece : family.weights(config)) {
        require(piece.numel() > 0 && piece.numel() <= piece.hf_numel(), "pieces fit tensors");
      }
    }
  } catch (const Error& error) {
    require(error.category() == ErrorCategory::kConfig, "the fault is the configuration's");
  }
}

void read_hf_index(std::string_view input) {
  static const InputFolder folder;
  folder.write("model.safetensors.index.json", input);
  static const bool has_shard = [] {
    // One tensor "a" of four bytes.
    const std::string header = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
    const std::string length = {static_cast<char>(header.size()), 0, 0, 0, 0, 0, 0, 0};
    folder.write("model-1.safetensors", length + header + "1234");
    return true;
  }();
  require(has_shard, "the shard is there");
  try {
    for (const auto& [name, tensor] : open_hf_tensors(folder.path())) {
      require(name == "a" && tensor.view->data.size() == 4, "only what the folder has");
    }
  } catch (const Error&) {
  }
}

}  // namespace packtrain::fuzz
