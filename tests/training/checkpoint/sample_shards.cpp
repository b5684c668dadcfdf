#include "tests/training/checkpoint/sample_shards.h"

#include <ATen/ops/full.h>

#include <algorithm>
#include <limits>

#include "tests/parallel/communicators/thread_ranks.h"

namespace packtrain::test {
namespace {

struct SampleParameter {
  const char* name;
  std::vector<std::int64_t> shape;
  std::int64_t numel;
  bool trainable;
};

const std::vector<SampleParameter>& sample_parameters() {
  static const std::vector<SampleParameter> kParameters = {{"embed", {7, 4}, 28, true},
                                                           {"layers.0.mlp.down", {5, 3}, 15, true},
                                                           {"norm", {6}, 6, false}};
  return kParameters;
}

constexpr std::int64_t kNumElements = 49;

// Small whole numbers: exact in bfloat16 too. `kind`: 0 weight, 1 exp_avg, 2 exp_avg_sq.
float value_of(const std::string& parameter, std::int64_t element, int kind) {
  return static_cast<float>(64 * kind + element + (parameter == "embed" ? 0 : 30));
}

at::Tensor make_tensor(const ShardView& shard, int kind, bool values) {
  const at::ScalarType type = shard.trainable ? at::kFloat : at::kBFloat16;
  const at::Tensor tensor = at::full({shard.numel}, std::numeric_limits<float>::quiet_NaN(), type);
  for (std::int64_t i = 0; values && i < shard.numel; ++i) {
    tensor[i].fill_(value_of(shard.parameter, shard.begin + i, kind));
  }
  return tensor;
}

int num_wrong(const ShardView& shard, const at::Tensor& tensor, int kind) {
  int wrong = 0;
  for (std::int64_t i = 0; i < shard.numel; ++i) {
    const float value = value_of(shard.parameter, shard.begin + i, kind);
    if (tensor[i].item().toFloat() != value) ++wrong;
  }
  return wrong;
}

}  // namespace

std::vector<ShardView> sample_shards(int rank, int num_ranks, bool values) {
  const std::int64_t share = (kNumElements + num_ranks - 1) / num_ranks;
  std::vector<ShardView> shards;
  std::int64_t offset = 0;
  for (const SampleParameter& parameter : sample_parameters()) {
    const std::int64_t begin = std::max<std::int64_t>(rank * share - offset, 0);
    const std::int64_t end = std::min((rank + 1) * share - offset, parameter.numel);
    offset += parameter.numel;
    if (begin >= end) continue;
    ShardView shard{
        parameter.name, parameter.shape, begin, end - begin, parameter.trainable, {}, {}};
    shard.weight = make_tensor(shard, 0, values);
    if (shard.trainable) {
      shard.optimizer = {{"exp_avg", make_tensor(shard, 1, values)},
                         {"exp_avg_sq", make_tensor(shard, 2, values)}};
    }
    shards.push_back(shard);
  }
  return shards;
}

int num_wrong_elements(const std::vector<ShardView>& shards, bool with_moments) {
  int wrong = 0;
  for (const ShardView& shard : shards) {
    wrong += num_wrong(shard, shard.weight, 0);
    if (!with_moments || !shard.trainable) continue;
    wrong += num_wrong(shard, find_tensor(shard.optimizer, "exp_avg"), 1) +
             num_wrong(shard, find_tensor(shard.optimizer, "exp_avg_sq"), 2);
  }
  return wrong;
}

TrainingState sample_state(std::int64_t step) {
  TrainingState state;
  state.step = step;
  state.epoch = 2;
  state.seed = 18'446'744'073'709'551'615U;
  state.total_steps = 1000;
  state.config_hash = "c0ffee";
  state.data_fingerprint = "f00d";
  state.config_yaml = "run:\n  output: \"runs/é\"\n";
  state.model_config = R"({"model_type": "llama"})";
  state.plan_header = R"({"entries":[{"speeds":[0.1,1.9]}]})";
  return state;
}

std::string save_sample(const std::string& root, std::int64_t step, int num_ranks, int keep) {
  std::string folder;
  run_ranks(num_ranks, [&](Communicator& control) {
    const auto shards = sample_shards(control.rank(), num_ranks, true);
    const auto saved = save_checkpoint(root, sample_state(step), shards, {keep}, control);
    if (control.rank() == 0) folder = saved;
  });
  return folder;
}

}  // namespace packtrain::test
