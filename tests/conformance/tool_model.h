// Models and tensors of conformance_tool: Hugging Face folders in, Hugging Face folders out.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "framework/core/safetensors.h"
#include "tests/models/batches.h"
#include "training/checkpoint/hugging_face.h"
#include "training/setup/model_source.h"

namespace packtrain {

using Tensors = std::map<std::string, at::Tensor>;

std::vector<std::int32_t> read_integers(const SafetensorsFile& file, const std::string& name);
// input_ids and lengths of a file.
Sequences read_sequences(const std::string& path);
// By our names.
Tensors parameters_of(const TestModel& model);

// The model and the adapter of a folder; no `adapter` in most.
ModelSource read_source(const std::string& folder);
void import_model(const ModelSource& source, const Tensors& parameters);

void export_whole(const std::string& folder, const DecoderConfig& config,
                  const ParameterSource& parameters);
// Weights or gradients of what is trained, as they are saved.
void export_tensors(const std::string& folder, const ModelSource& source, const Tensors& tensors);
// float32 copies on the CPU.
Tensors on_host(const Tensors& tensors);
// float32 tensors.
void write_tensors(const std::string& path, const Tensors& tensors);

}  // namespace packtrain
