#include "tests/conformance/run_objective.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/tensor.h>

#include "framework/config/load.h"
#include "models/objectives/make_objective.h"
#include "tests/conformance/tool_model.h"

namespace packtrain {
namespace {

at::Tensor integers(const SafetensorsFile& file, const std::string& name) {
  return at::tensor(read_integers(file, name), at::TensorOptions(at::kInt));
}

// Undefined where the file has none.
at::Tensor floats(const SafetensorsFile& file, const std::string& name) {
  const auto found = file.tensors().find(name);
  if (found == file.tensors().end()) return {};
  const auto* begin = reinterpret_cast<const float*>(found->second.data.data());
  const std::vector<float> values(begin, begin + found->second.numel());
  return at::tensor(values, at::TensorOptions(at::kFloat)).view(found->second.shape);
}

DeviceBatch read_groups(const std::string& path) {
  DeviceBatch batch = make_batch(read_sequences(path), at::kCPU);
  const auto file = SafetensorsFile::open(path, ErrorCategory::kData);
  batch.loss_index = integers(*file, "loss_index");
  batch.loss_labels = batch.input_ids.index_select(0, batch.loss_index + 1);
  batch.loss_weight = floats(*file, "loss_weight");
  GroupRows& groups = batch.groups;
  groups.num_rows = integers(*file, "num_rows").to(at::kLong);
  groups.roles = integers(*file, "roles");
  groups.group_weights = floats(*file, "group_weights");
  groups.margins = floats(*file, "margins");
  groups.reference = floats(*file, "reference");
  groups.kl = floats(*file, "kl");
  for (const char* name : {"advantage", "old_log_prob", "weight"}) {
    const at::Tensor column = floats(*file, name);
    if (column.defined()) groups.columns[name] = column;
  }
  return batch;
}

}  // namespace

void run_objective(const std::string& folder) {
  const ModelSource source = read_source(folder);
  const std::shared_ptr<const Objective> objective =
      make_objective(load_config(folder + "/objective.yaml").objective);
  DecoderOptions options;
  options.objective = objective;
  TestModel model(source.decoder, options, at::TensorOptions(at::kFloat));
  import_model(source, parameters_of(model));
  DeviceBatch batch = read_groups(folder + "/batch.safetensors");
  batch.row_losses = at::empty_like(batch.loss_weight);
  const TestModel::Result result = model.train(batch);
  export_tensors(folder + "/gradients", source, result.grads);

  Tensors values = {{"loss", result.loss}};
  const std::vector<std::string> names = objective->statistics();
  const at::Tensor sums = objective->sums(batch, batch.row_losses);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto at = static_cast<std::int64_t>(2 * i);
    values[names[i]] = (sums[at] / sums[at + 1]).to(at::kFloat);
  }
  write_tensors(folder + "/objective.safetensors", values);
}

}  // namespace packtrain
