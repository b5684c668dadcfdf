// The text model inside a multimodal Hugging Face folder: its tensors and their names in the
// folder.
#pragma once

#include <map>
#include <string>

#include "models/layers/decoder_config.h"
#include "training/checkpoint/hf_files.h"

namespace packtrain {

using HfTensors = std::map<std::string, HfTensor>;

// The tensors with `prefix` removed from their names. Throws Error(kCheckpoint) with a name that
// does not begin with it.
HfTensors without_prefix(const HfTensors& tensors, const std::string& prefix,
                         const std::string& folder);

class TextTower {
 public:
  // Finds the text model `config` among the folder's tensors by the names of its embedding and last
  // norm. Their prefix can be "language_model.model.", "model.language_model.", "model.text_model."
  // or any other. Throws Error(kCheckpoint) for no match or several.
  TextTower(const HfTensors& tensors, const DecoderConfig& config, const std::string& folder);

  const HfTensors& text() const { return text_; }      // by the names of a text-only model
  const HfTensors& others() const { return others_; }  // by the folder's names
  // The name in the folder of the text model's tensor `name`.
  std::string folder_name(const std::string& name) const;
  const std::string& place() const { return body_; }

 private:
  std::string prefix_;  // of the family: "model."
  std::string body_;    // replaces prefix_ in the folder
  std::string head_;    // precedes "lm_head.weight"
  HfTensors text_;
  HfTensors others_;
};

}  // namespace packtrain
