// The text model inside a Hugging Face folder of more than text: which tensors are its own, and
// what the folder calls them.
#pragma once

#include <map>
#include <string>

#include "framework/checkpoint/hf_files.h"
#include "models/decoder_config.h"

namespace packtrain {

using HfTensors = std::map<std::string, HfTensor>;

// The tensors with `prefix` removed from their names. Throws Error(kCheckpoint) naming one that
// does not begin with it.
HfTensors without_prefix(const HfTensors& tensors, const std::string& prefix,
                         const std::string& folder);

class TextTower {
 public:
  // Finds the text model `config` among the folder's tensors, by the names of its embedding and its
  // last norm: "language_model.model.", "model.language_model.", "model.text_model." or whatever
  // stands before them. Throws Error(kCheckpoint) where there is none, or more than one.
  TextTower(const HfTensors& tensors, const DecoderConfig& config, const std::string& folder);

  const HfTensors& text() const { return text_; }      // by the names of the text model alone
  const HfTensors& others() const { return others_; }  // by the folder's names
  // What the folder calls the text model's tensor `name`.
  std::string folder_name(const std::string& name) const;
  const std::string& place() const { return body_; }

 private:
  std::string prefix_;  // of the family: "model."
  std::string body_;    // what stands in its place in the folder
  std::string head_;    // stands before "lm_head.weight"
  HfTensors text_;
  HfTensors others_;
};

}  // namespace packtrain
