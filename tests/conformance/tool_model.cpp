#include "tests/conformance/tool_model.h"

#include <ATen/ops/zeros.h>

#include "framework/core/error.h"
#include "framework/core/file.h"
#include "models/families/weight_map.h"
#include "training/checkpoint/hugging_face.h"
#include "training/checkpoint/peft_folder.h"
#include "training/setup/adapter_source.h"

namespace packtrain {

std::vector<std::int32_t> read_integers(const SafetensorsFile& file, const std::string& name) {
  const TensorView& view = file.tensor(name);
  const auto* begin = reinterpret_cast<const std::int32_t*>(view.data.data());
  return {begin, begin + view.numel()};
}

Sequences read_sequences(const std::string& path) {
  const auto file = SafetensorsFile::open(path, ErrorCategory::kData);
  const std::vector<std::int32_t> ids = read_integers(*file, "input_ids");
  Sequences sequences;
  auto next = ids.begin();
  for (const std::int32_t length : read_integers(*file, "lengths")) {
    sequences.ids.emplace_back(next, next + length);
    next += length;
  }
  return sequences;
}

Tensors parameters_of(const TestModel& model) {
  Tensors parameters;
  for (const auto& block : model.blocks()) {
    for (const ParameterSpec& spec : block->parameters()) {
      parameters[spec.name] = model.value(spec.name);
    }
  }
  return parameters;
}

// The model and the adapter of a folder; no `adapter` in most.
ModelSource read_source(const std::string& folder) {
  ModelSource source;
  source.kind = ModelSource::Kind::kHuggingFace;
  source.folder = folder + "/model";
  source.decoder =
      parse_decoder_config(read_text(source.folder + "/config.json", ErrorCategory::kConfig));
  source.stored_vocab_size = source.decoder.vocab_size;
  source.stored_layer_input_vocab = source.decoder.layer_input_vocab;
  Config config;
  config.adapter.path = folder + "/adapter";
  if (!is_peft_folder(config.adapter.path)) return source;
  config.adapter.kind = AdapterKind::kLora;
  source.adapter = find_adapter(config, source.decoder);
  source.decoder = with_adapters(source.decoder, source.adapter->adapters);
  return source;
}

void import_model(const ModelSource& source, const Tensors& parameters) {
  std::vector<ShardView> shards;
  for (const auto& [name, value] : parameters) {
    ShardView shard{.parameter = name, .shape = value.sizes().vec(), .weight = value.view({-1})};
    shard.numel = value.numel();
    shard.in_adapter = name.ends_with(".lora_A") || name.ends_with(".lora_B") ||
                       name.ends_with(".lora_magnitude_vector");
    shards.push_back(shard);
  }
  read_weights(source, shards);
  if (source.adapter) read_adapter(*source.adapter, source.decoder, /*seed=*/0, shards);
}

void export_whole(const std::string& folder, const DecoderConfig& config,
                  const ParameterSource& parameters) {
  ExportOptions options;
  options.bfloat16 = false;
  export_model(folder, config, parameters, options);
}

// Weights or gradients of what is trained, as they are saved.
void export_tensors(const std::string& folder, const ModelSource& source, const Tensors& tensors) {
  const auto shapes = parameter_shapes(without_adapter(source.decoder));
  // Constants have no gradient.
  const auto parameters = [&](const std::string& name) {
    const auto found = tensors.find(name);
    return found != tensors.end() ? found->second : at::zeros(shapes.at(name));
  };
  if (source.adapter) {
    write_peft_folder(folder, source.decoder, source.adapter->adapters.front(), parameters, {});
  } else {
    export_whole(folder, source.decoder, parameters);
  }
}

Tensors on_host(const Tensors& tensors) {
  Tensors found;
  for (const auto& [name, tensor] : tensors) found[name] = tensor.to(at::kCPU, at::kFloat);
  return found;
}

void write_tensors(const std::string& path, const Tensors& tensors) {
  std::vector<TensorToWrite> to_write;
  for (const auto& [name, tensor] : tensors) {
    const auto* data = reinterpret_cast<const std::byte*>(tensor.const_data_ptr<float>());
    to_write.push_back({name, DataType::kFloat32, tensor.sizes().vec(), {data, tensor.nbytes()}});
  }
  write_safetensors(path, to_write, {}, ErrorCategory::kCheckpoint);
}

}  // namespace packtrain
