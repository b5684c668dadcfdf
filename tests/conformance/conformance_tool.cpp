// Each line of standard input of conformance_tool names a folder with `model/` (a Hugging Face
// folder) and `batch.safetensors` (input_ids int32 [T], lengths int32 [N]).
// The tool writes into the same folder:
//   packed/, alone/     Gradients of the summed next-token loss, with experts' balancing loss.
//                       They are exported as weights are, under Hugging Face names. `packed` is of
//                       the packed batch, `alone` is the sum over its sequences run one by one.
//   packed.safetensors, alone.safetensors   logits [T, V] and loss []
//   written/            The imported model, exported again.
// With `adapter/` (a PEFT folder) the adapter is trained over the model. Then `packed`, `alone` and
// `written` are PEFT folders, and
//   merged/             The model with the adapter added to its weights.
// It answers with a line: `ok`, or `error CODE MESSAGE`. It computes in float32 on the CPU. For a
// line `config FILE` it reads a config.json alone and answers `ok` and the one that we write.
// A line `objective FOLDER` is that of run_objective.h.
// `conformance_tool bfloat16 [cuda]` computes in bfloat16, with cuda on the GPU. It then writes
// `packed` alone.
#include <ATen/ops/add.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <fmt/core.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/file.h"
#include "models/layers/routing_statistics.h"
#include "tests/conformance/run_objective.h"
#include "tests/conformance/tool_model.h"
#include "training/setup/merged_model.h"
#include "training/setup/model_source.h"

namespace packtrain {
namespace {

struct Computed {
  at::Tensor logits;
  at::Tensor loss;
  Tensors gradients;  // by our names
};

// Returns the loss that is differentiated, with experts' auxiliary loss.
at::Tensor trained_loss(const at::Tensor& loss, const ExpertsConfig& experts,
                        const DeviceBatch& batch) {
  if (experts.auxiliary_loss == 0) return loss;
  return at::add(loss, batch.state.routing->loss, experts.auxiliary_loss);
}

Computed compute(TestModel& model, const ExpertsConfig& experts, const Sequences& sequences,
                 at::Device device) {
  DeviceBatch batch = make_batch(sequences, device);
  batch.loss_weight.fill_(1.0);
  const at::Tensor logits = model.logits(batch);
  const TestModel::Result result = model.train(batch);
  const at::Tensor loss = trained_loss(result.loss, experts, batch);
  return {logits.to(at::kCPU, at::kFloat), loss.to(at::kCPU, at::kFloat), on_host(result.grads)};
}

Computed compute_one_by_one(TestModel& model, const ExpertsConfig& experts,
                            const Sequences& sequences) {
  Computed sum;
  std::vector<at::Tensor> logits;
  sum.loss = at::zeros({}, at::TensorOptions(at::kFloat));
  for (const auto& ids : sequences.ids) {
    const Computed one = compute(model, experts, {{ids}}, at::kCPU);
    logits.push_back(one.logits);
    sum.loss.add_(one.loss);
    for (const auto& [name, gradient] : one.gradients) {
      const auto [found, is_new] = sum.gradients.try_emplace(name, gradient);
      if (!is_new) found->second.add_(gradient);
    }
  }
  sum.logits = at::cat(logits);
  return sum;
}

void write(const std::string& path, const ModelSource& source, const Computed& computed) {
  write_tensors(path + ".safetensors", {{"logits", computed.logits}, {"loss", computed.loss}});
  export_tensors(path, source, computed.gradients);
}

void run(const std::string& folder) {
  const ModelSource source = read_source(folder);
  const ExpertsConfig& experts = source.decoder.experts;
  TestModel model(source.decoder, {}, at::TensorOptions(at::kFloat));
  const Tensors parameters = parameters_of(model);
  import_model(source, parameters);
  const Sequences sequences = read_sequences(folder + "/batch.safetensors");
  write(folder + "/packed", source, compute(model, experts, sequences, at::kCPU));
  write(folder + "/alone", source, compute_one_by_one(model, experts, sequences));
  export_tensors(folder + "/written", source, parameters);
  if (!source.adapter) return;
  export_whole(folder + "/merged", without_adapter(source.decoder),
               merged_parameters(source, /*seed=*/0, Config()));
}

void run_in_bfloat16(const std::string& folder, at::DeviceType device) {
  const ModelSource source = read_source(folder);
  TestModel model(source.decoder, {}, at::TensorOptions(at::kBFloat16).device(device));
  model.operator_options().gemm_timing.enabled = false;  // sizes are met once
  const Tensors parameters = parameters_of(model);
  const Tensors host = on_host(parameters);
  import_model(source, host);
  for (const auto& [name, value] : parameters) value.copy_(host.at(name));
  const Sequences sequences = read_sequences(folder + "/batch.safetensors");
  write(folder + "/packed", source, compute(model, source.decoder.experts, sequences, device));
}

std::string rewritten(const std::string& path) {
  const DecoderConfig config = parse_decoder_config(read_text(path, ErrorCategory::kConfig));
  return find_family(config.family).write(config).dump();
}

// Errors of libtorch have several lines.
std::string one_line(std::string text) {
  for (char& letter : text) {
    if (letter == '\n') letter = ' ';
  }
  return text;
}

// Where to compute in bfloat16; nothing: in float32.
using Bfloat16On = std::optional<at::DeviceType>;

Bfloat16On bfloat16_on(int num_words, char** words) {
  if (num_words < 2 || std::string_view(words[1]) != "bfloat16") return std::nullopt;
  return num_words > 2 && std::string_view(words[2]) == "cuda" ? at::kCUDA : at::kCPU;
}

std::string answer(const std::string& line, Bfloat16On bfloat16) {
  constexpr std::string_view kConfig = "config ";
  constexpr std::string_view kObjective = "objective ";
  try {
    if (line.starts_with(kConfig)) return "ok " + rewritten(line.substr(kConfig.size()));
    if (line.starts_with(kObjective)) {
      run_objective(line.substr(kObjective.size()));
      return "ok";
    }
    bfloat16 ? run_in_bfloat16(line, *bfloat16) : run(line);
    return "ok";
  } catch (const Error& error) {
    return fmt::format("error {} {}", error.exit_code(), one_line(error.what()));
  } catch (const std::exception& error) {
    return fmt::format("error 70 {}", one_line(error.what()));
  }
}

}  // namespace
}  // namespace packtrain

int main(int num_words, char** words) {
  const packtrain::Bfloat16On bfloat16 = packtrain::bfloat16_on(num_words, words);
  std::array<char, 4096> line{};  // a path
  while (std::fgets(line.data(), line.size(), stdin) != nullptr) {
    std::string folder = line.data();
    if (folder.ends_with('\n')) folder.pop_back();
    fmt::print("{}\n", packtrain::answer(folder, bfloat16));
    std::fflush(stdout);
  }
  return 0;
}
