#include "training/setup/model_source.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/file.h"
#include "framework/core/json.h"
#include "framework/core/logging.h"
#include "framework/device/tensor_device.h"
#include "framework/device/tensor_memory.h"
#include "models/families/config_changes.h"
#include "models/families/family.h"
#include "models/families/nf4_layout.h"
#include "models/families/parameter_parts.h"
#include "models/families/text_part.h"
#include "models/layers/layer_attention.h"
#include "models/objectives/make_objective.h"
#include "models/ops/attention/backends.h"
#include "parallel/sharding/shard_groups.h"
#include "training/checkpoint/hf_quantization.h"
#include "training/optimizers/parameter_groups.h"
#include "training/setup/adaptive_recompute.h"
#include "training/setup/encoded_weights_log.h"
#include "training/setup/linear_precision_log.h"
#include "training/setup/no_model.h"
#include "training/setup/recompute_policies.h"

namespace packtrain {
namespace {

std::string reach_of(const AttentionPattern& pattern) {
  if (pattern.chunk > 0) return fmt::format(" in chunks of {} tokens", pattern.chunk);
  return pattern.is_full() ? "" : fmt::format(" within {} tokens", pattern.window);
}

// Logs the attention backend of each kind of layer.
void log_attention(const DecoderConfig& decoder, Precision compute, const Device& device) {
  for (const AttentionShape& shape : distinct_attentions(decoder)) {
    const AttentionBackend backend =
        choose_attention_backend(shape, tensor_device(device), scalar_type(compute));
    const bool is_slow = backend == AttentionBackend::kPlain && device.kind() == DeviceKind::kCuda;
    log_info("attention{}: {}{}", reach_of(shape.pattern), attention_backend_name(backend),
             is_slow ? ", some rows of scores at a time: slow" : "");
  }
}

OperatorOptions operator_options(const Config& config) {
  OperatorOptions options;
  options.min_planned_rows =
      config.batch.max_tokens_per_micro_batch.value_or(config.data.max_length);
  options.gemm_timing.enabled = !config.precision.deterministic;
  return options;
}

std::unique_ptr<ShardedModel> allocate_model(
    const std::function<std::unique_ptr<ShardedModel>()>& make) {
  try {
    return make();
  } catch (const c10::OutOfMemoryError& error) {
    const std::string detail = error.what();
    throw Error(ErrorCategory::kDevice,
                "out of GPU memory while weights and optimizer state were allocated: " +
                    detail.substr(0, detail.find('\n')),
                "Let more ranks share the state (parallel.shard_size, or more ranks; "
                "parallel.zero_stage: 3 shards everything), optimizer.moments: "
                "bf16, or a smaller model; `packtrain plan` prints what each part needs.");
  }
}

ModelSource read_checkpoint_source(const std::string& folder) {
  if (adapter_of_checkpoint(folder)) {
    throw Error(ErrorCategory::kConfig,
                fmt::format("model.path: {} holds an adapter, not a whole model", folder),
                "Give the model that the adapter was trained over as model.path, and this folder "
                "as adapter.path; or make a whole model with `packtrain export --merge`.");
  }
  ModelSource source;
  source.kind = ModelSource::Kind::kCheckpoint;
  source.folder = folder;
  source.config_json = read_checkpoint_state(folder).model_config;
  return source;
}

[[noreturn]] void throw_whole_config() {
  throw Error(ErrorCategory::kConfig,
              "model.config is of a model of more than text, which starts from a folder alone",
              "Give its folder as model.path, or its 'text_config' as model.config.");
}

// Fills all members except those read from the config.
ModelSource read_source(const ModelSection& model) {
  ModelSource source;
  if (model.path.empty()) {
    source.config_json = model.config;
    if (has_text_part(source.config_json)) throw_whole_config();
    return source;
  }
  if (is_checkpoint(model.path)) {
    if (!model.prefix.empty()) {
      log_warning("model.prefix: '{}' has no effect: {} is a checkpoint of packtrain", model.prefix,
                  model.path);
    }
    return read_checkpoint_source(model.path);
  }
  const std::string file = (std::filesystem::path(model.path) / "config.json").string();
  if (!std::filesystem::exists(file)) throw_no_model(model.path);
  source.kind = ModelSource::Kind::kHuggingFace;
  source.folder = model.path;
  source.prefix = model.prefix;
  source.config_json = read_text(file, ErrorCategory::kConfig, kMaxJsonBytes);
  return source;
}

// Adds the folder to errors.
DecoderConfig parse_source(const ModelSource& source) {
  try {
    return parse_decoder_config(source.config_json);
  } catch (const Error& error) {
    const std::string where = source.folder.empty() ? "model.config" : source.folder;
    throw Error(error.category(), where + ": " + error.message(), error.advice());
  }
}

void resize_vocabulary(ModelSource& source, std::int64_t vocab_size) {
  const std::int64_t stored = source.decoder.vocab_size;
  if (stored == vocab_size) return;
  if (stored > vocab_size || source.kind != ModelSource::Kind::kHuggingFace) {
    throw Error(
        ErrorCategory::kConfig,
        fmt::format("model.resize_vocabulary is {}, but {} has {} tokens{}", vocab_size,
                    source.folder, stored, stored < vocab_size ? " and is a checkpoint" : ""),
        "Tokens are only added, and only to a Hugging Face folder (`packtrain export` makes "
        "one of a checkpoint).");
  }
  source.config_json = with_vocabulary(source.config_json, vocab_size);
  source.decoder = parse_source(source);
}

}  // namespace

namespace {

// Without an adapter.
ModelSource find_base(const ModelSection& model) {
  ModelSource source = read_source(model);
  if (!model.ignore_keys.empty()) {
    source.config_json = without_keys(source.config_json, model.ignore_keys);
    log_warning("model.ignore_keys: {} left out of the model's config, whatever {} there",
                fmt::join(model.ignore_keys, ", "),
                model.ignore_keys.size() == 1 ? "it says" : "they say");
  }
  if (source.kind == ModelSource::Kind::kHuggingFace) {
    check_quantization(source.folder, source.config_json);
  }
  if (model.dropout) source.config_json = without_dropouts(source.config_json);
  source.decoder = parse_source(source);
  if (has_text_part(source.config_json)) {
    log_info("{}: its text model ({}) is trained, its other parts stay as they are", source.folder,
             source.decoder.family);
  }
  source.stored_vocab_size = source.decoder.vocab_size;
  source.stored_layer_input_vocab = source.decoder.layer_input_vocab;
  if (model.resize_vocabulary) resize_vocabulary(source, *model.resize_vocabulary);
  return source;
}

void add_adapter(AdapterSource adapter, ModelSource& source) {
  source.decoder = with_adapters(source.decoder, adapter.adapters);
  source.adapter = std::move(adapter);
}

}  // namespace

ModelSource checkpoint_source(const std::string& folder, const Config& config) {
  if (auto adapter = adapter_of_checkpoint(folder)) {
    ModelSource source = find_base(config.model);
    source.decoder.linear = linear_precision(config.precision);
    add_adapter(std::move(*adapter), source);
    return source;
  }
  ModelSource source = read_checkpoint_source(folder);
  source.decoder = parse_source(source);
  source.decoder.linear = linear_precision(config.precision);
  source.stored_vocab_size = source.decoder.vocab_size;
  source.stored_layer_input_vocab = source.decoder.layer_input_vocab;
  return source;
}

ModelSource find_model(const Config& config) {
  ModelSource source = find_base(config.model);
  source.decoder.linear = linear_precision(config.precision);
  auto adapter = find_adapter(config, source.decoder);
  if (adapter) add_adapter(std::move(*adapter), source);
  return source;
}

void check_vocabulary(const std::string& store_folder, std::int64_t store_vocab_size,
                      const DecoderConfig& decoder) {
  if (store_vocab_size <= decoder.vocab_size) return;
  throw Error(
      ErrorCategory::kData,
      fmt::format("token store {} has a vocabulary of {} tokens, the model one of {}", store_folder,
                  store_vocab_size, decoder.vocab_size),
      fmt::format(
          "Prepare the store with the model's own tokenizer; or, where tokens were added to "
          "it, set model.resize_vocabulary: {} (new rows are the mean of the old ones).",
          store_vocab_size));
}

bool all_attention_is(AttentionBackend backend, const DecoderConfig& decoder, Precision compute,
                      const Device& device) {
  return std::ranges::all_of(distinct_attentions(decoder), [&](const AttentionShape& shape) {
    return choose_attention_backend(shape, tensor_device(device), scalar_type(compute)) == backend;
  });
}

DecoderOptions decoder_options(const Config& config, const DecoderConfig& decoder) {
  DecoderOptions options;
  options.frozen = config.model.frozen;
  options.decay_norms_and_biases = config.optimizer.decay_norms_and_biases;
  options.encoding = {data_type(config.precision.compute)};
  options.own_masters = config.precision.master == Precision::kBFloat16;
  options.choose_optimizer = [groups = ParameterGroups(config.optimizer)](ParameterSpec& parameter,
                                                                          bool in_layer) {
    parameter.optimizer = groups.of(parameter, in_layer);
    parameter.block_state = groups.has_blocks(parameter.optimizer);
  };
  options.recompute = layer_policies(config.memory);
  options.objective = make_objective(config.objective);
  if (config.model.base == BaseStorage::kNf4) {
    options.frozen_weights = {options.encoding.type, ParameterEncoding::Format::kNf4};
    options.not_encoded = parameters_that_cut_tensors(decoder);
    if (!decoder.family.empty()) options.parts = parameter_parts(decoder);
  }
  if (config.model.base == BaseStorage::kFp8) {
    options.frozen_weights = {options.encoding.type, ParameterEncoding::Format::kFp8};
    options.not_encoded = kept_weights(decoder);
  }
  return options;
}

std::unique_ptr<ShardedModel> make_sharded_model(const Config& config, const DecoderConfig& decoder,
                                                 const RunDevice& run_device, World& world,
                                                 Stream* compute) {
  // Reports head sizes that no kernel supports now, not at the first batch.
  log_attention(decoder, config.precision.compute, *run_device.device);
  prepare_linear_precision(decoder, *run_device.device);
  DecoderOptions options = decoder_options(config, decoder);
  options.recompute = policies_by_rows(config, decoder, run_device.device->kind());
  if (!decoder.family.empty() && options.parts.empty()) options.parts = parameter_parts(decoder);
  auto blocks = make_decoder(decoder, options);
  ParameterGroups(config.optimizer).check(blocks);
  if (options.frozen_weights) log_encoded_weights(blocks, options.frozen_weights->format);
  // NCCL allocates memory outside libtorch, so libtorch must release its cached memory of earlier
  // models.
  release_unused_tensor_memory(*run_device.device);
  if (!config.parallel.shard_size) {
    throw Error(ErrorCategory::kInternal, "a model is made before its shard size is chosen");
  }
  const ProcessMesh mesh = make_process_mesh(world, *config.parallel.shard_size);
  ShardingCommunicators communicators = connect_shard_groups(
      mesh, [&] { return connect_gather(config, run_device, world); },
      [&] { return connect_reduce(config, run_device, world); });
  ShardingOptions sharding = sharding_options(config);
  sharding.self_test = run_device.backend == Backend::kNccl;
  sharding.compute = compute;
  auto model = allocate_model([&] {
    return std::make_unique<ShardedModel>(std::move(blocks), *run_device.device,
                                          std::move(communicators), sharding);
  });
  model->operator_options() = operator_options(config);
  if (mesh.data_parallel_size() > 1) log_info("{}", model->ranks().paths());
  log_info("{}: {:.1f} million parameters{} in {} layers, {} of {} ranks share one copy",
           decoder.family, static_cast<double>(num_parameters(decoder)) / 1e6,
           decoder.adapter == nullptr
               ? ""
               : fmt::format(" ({:.2f} trained)",
                             static_cast<double>(num_trained_parameters(decoder)) / 1e6),
           decoder.num_layers, mesh.shard.size, mesh.data_parallel_size());
  return model;
}

void require_trainable(ShardedModel& model) {
  if (model.parameters().state().numel > 0) return;
  throw Error(ErrorCategory::kConfig, "model.frozen leaves no parameter to train",
              "Remove a pattern from model.frozen.");
}

}  // namespace packtrain
