// logits_tool FOLDER LENGTHS IDS OUT: loads a Hugging Face folder in float32, runs the sequences
// packed, and writes to OUT (safetensors) the logits [T, V], the summed next-token loss and the
// gradient of every parameter. LENGTHS and IDS are comma-separated.
#include <ATen/ops/from_blob.h>
#include <fmt/core.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>

#include "framework/support/file.h"
#include "framework/support/safetensors.h"
#include "models/families/family.h"
#include "tests/models/batches.h"

namespace packtrain {
namespace {

std::vector<std::int32_t> parse_list(std::string_view text) {
  std::vector<std::int32_t> values;
  const char* next = text.data();
  const char* const end = next + text.size();
  while (next < end) {
    std::int32_t value = 0;
    const auto result = std::from_chars(next, end, value);
    if (result.ec != std::errc()) {
      throw Error(ErrorCategory::kConfig, "not a list of integers: " + std::string(text));
    }
    values.push_back(value);
    next = result.ptr + 1;
  }
  return values;
}

Sequences read_sequences(std::string_view lengths, std::string_view ids) {
  const std::vector<std::int32_t> all = parse_list(ids);
  Sequences sequences;
  auto next = all.begin();
  for (const std::int32_t length : parse_list(lengths)) {
    sequences.ids.emplace_back(next, next + length);
    next += length;
  }
  return sequences;
}

void load_weights(const std::string& folder, const DecoderConfig& config, TestModel& model) {
  const auto file =
      SafetensorsFile::open(folder + "/model.safetensors", ErrorCategory::kCheckpoint);
  for (const WeightPiece& piece : find_family(config.family).weights(config)) {
    const TensorView& view = file->tensor(piece.hf_name);
    if (view.shape != piece.hf_shape || view.dtype != DataType::kFloat32) {
      throw Error(ErrorCategory::kCheckpoint, piece.hf_name + " has another shape or dtype");
    }
    const at::Tensor from = at::from_blob(const_cast<std::byte*>(view.data.data()), view.shape,
                                          at::TensorOptions(at::kFloat));  // only read from
    model.value(piece.parameter).narrow(0, piece.row_begin, piece.num_rows).copy_(from);
  }
}

TensorToWrite to_write(const std::string& name, const at::Tensor& tensor) {
  const auto* data = reinterpret_cast<const std::byte*>(tensor.const_data_ptr<float>());
  return {name, DataType::kFloat32, tensor.sizes().vec(), {data, tensor.nbytes()}};
}

void run(const std::string& folder, const char* lengths, const char* ids, const std::string& out) {
  const DecoderConfig config =
      parse_decoder_config(read_text(folder + "/config.json", ErrorCategory::kConfig));
  TestModel model(config, {}, at::TensorOptions(at::kFloat));
  load_weights(folder, config, model);
  DeviceBatch batch = make_batch(read_sequences(lengths, ids), at::kCPU);
  batch.loss_weight.fill_(1.0);
  const at::Tensor logits = model.logits(batch);
  const TestModel::Result result = model.train(batch);
  std::vector<TensorToWrite> tensors = {to_write("logits", logits), to_write("loss", result.loss)};
  for (const auto& [name, grad] : result.grads) {
    tensors.push_back(to_write("grad." + name, grad));
  }
  write_safetensors(out, tensors, {}, ErrorCategory::kCheckpoint);
  const std::string written = find_family(config.family).write(config).dump(2);
  write_text_atomically(out + ".config.json", written, ErrorCategory::kCheckpoint);
}

}  // namespace
}  // namespace packtrain

int main(int num_arguments, char** arguments) {
  if (num_arguments != 5) {
    fmt::print(stderr, "usage: logits_tool FOLDER LENGTHS IDS OUT\n");
    return 64;
  }
  try {
    packtrain::run(arguments[1], arguments[2], arguments[3], arguments[4]);
  } catch (const packtrain::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return error.exit_code();
  }
  return 0;
}
