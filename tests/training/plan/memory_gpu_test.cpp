// Whole steps on a GPU, one a rank, against the memory plan: each case has its peak elsewhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "framework/device/tensor_device.h"
#include "tests/models/batches.h"
#include "tests/parallel/communicators/world_fixture.h"
#include "training/plan/memory_plan.h"
#include "training/plan/memory_report.h"
#include "training/setup/adapter_source.h"
#include "training/setup/model_source.h"
#include "training/setup/run_device.h"
#include "training/steps/optimizer_step.h"

namespace packtrain {
namespace {

struct Case {
  const char* name;
  std::int64_t hidden, inner, layers, heads, kv_heads, head_dim, vocab, rows;
  Recompute recompute = Recompute::kNone;
  std::size_t num_micro_batches = 1;
  std::int32_t length = 512;
  const char* moment = "";
  int zero_stage = 3;
  std::int64_t num_experts = 0;  // of `inner` each, two a token
  bool has_adapter = false;
  BaseStorage base = BaseStorage::kBFloat16;
  Offload offload = Offload::kNone;
  bool use_dora = false;
  Accumulate accumulate = Accumulate::kShard;
  bool shares_prefixes = false;  // of three sequences, the second and third see the first
  Fp8Products products = Fp8Products::kNone;
  std::int64_t num_copies = 0;  // of the hidden state, with inputs of layers and cut gates
};

constexpr Case sharing(Case plain) {
  plain.shares_prefixes = true;
  return plain;
}

constexpr Case in_fp8(Case plain, BaseStorage base) {
  plain.products = Fp8Products::kForwardAndInput;
  plain.base = base;
  return plain;
}

constexpr Case with_copies(Case plain) {
  plain.num_copies = 4;
  return plain;
}

constexpr Case kCases[] = {
    {"loss", 2048, 8192, 4, 32, 8, 64, 128256, 8192, Recompute::kNone, 1, 512, "loss"},
    {"loss in chunks", 1024, 4096, 2, 16, 4, 64, 128256, 32768, Recompute::kNone, 1, 512, "loss"},
    {"loss, three micro-batches", 1024, 4096, 2, 16, 4, 64, 128256, 8192, Recompute::kNone, 3, 512,
     "loss"},
    {"short documents", 2048, 8192, 2, 32, 8, 64, 32000, 16384, Recompute::kNone, 1, 4, "loss"},
    {"MLP", 2048, 14336, 4, 16, 8, 128, 2048, 16384, Recompute::kNone, 1, 512, "MLP backward"},
    {"MLP, selective", 2048, 14336, 4, 16, 8, 128, 2048, 16384, Recompute::kSelective, 1, 512,
     "MLP backward"},
    // The plan does not count the products that several ranks defer in the first layer. In a model
    // of some layers the inputs of the others need more.
    {"MLP, full", 2048, 14336, 12, 16, 8, 128, 2048, 16384, Recompute::kFull, 1, 512,
     "MLP backward"},
    {"attention", 2048, 1024, 2, 32, 8, 128, 2048, 16384, Recompute::kNone, 1, 2048,
     "attention backward"},
    {"attention, full", 2048, 1024, 4, 32, 8, 128, 2048, 16384, Recompute::kFull, 1, 2048,
     "attention backward"},
    {"attention, no groups", 2048, 1024, 2, 16, 16, 128, 2048, 16384, Recompute::kNone, 1, 2048,
     "attention backward"},
    {"flash attention", 2304, 1024, 2, 32, 8, 72, 2048, 16384, Recompute::kNone, 1, 2048,
     "attention backward"},
    {"flash attention, short documents", 2304, 1024, 2, 32, 8, 72, 2048, 16384, Recompute::kNone, 1,
     64, "attention backward"},
    sharing({"shared prefixes", 2048, 1024, 2, 32, 8, 128, 2048, 18432, Recompute::kNone, 1, 512,
             "attention backward"}),
    sharing({"shared prefixes, full", 2048, 1024, 4, 32, 8, 128, 2048, 18432, Recompute::kFull, 1,
             512, "attention backward"}),
    sharing({"shared prefixes, flash attention", 2304, 1024, 2, 32, 8, 72, 2048, 18432,
             Recompute::kNone, 1, 512, "attention backward"}),
    {"stage 2", 2048, 8192, 8, 32, 8, 64, 32000, 4096, Recompute::kFull, 1, 512, "", 2},
    {"experts", 1024, 3584, 2, 16, 4, 64, 2048, 16384, Recompute::kNone, 1, 512,
     "experts' second projection backward", 3, 8},
    {"experts, full", 1024, 3584, 3, 16, 4, 64, 2048, 16384, Recompute::kFull, 1, 512,
     "experts' second projection backward", 3, 8},
    {"experts of odd width", 1024, 3580, 2, 16, 4, 64, 2048, 16384, Recompute::kSelective, 1, 512,
     "experts' second projection backward", 3, 8},
    {"adapter", 2048, 14336, 4, 16, 8, 128, 2048, 16384, Recompute::kNone, 1, 512, "MLP backward",
     3, 0, true},
    {"adapter, full", 2048, 14336, 4, 16, 8, 128, 2048, 16384, Recompute::kFull, 1, 512,
     "MLP backward", 3, 0, true},
    {"adapter, NF4, offload", 2048, 14336, 8, 16, 8, 128, 2048, 16384, Recompute::kFull, 1, 512,
     "MLP backward", 3, 0, true, BaseStorage::kNf4, Offload::kActivations},
    {"magnitudes", 2048, 14336, 4, 16, 8, 128, 2048, 16384, Recompute::kNone, 1, 512,
     "MLP backward", 3, 0, true, BaseStorage::kBFloat16, Offload::kNone, true},
    {"magnitudes, full", 2048, 14336, 4, 16, 8, 128, 2048, 16384, Recompute::kFull, 1, 512,
     "MLP backward", 3, 0, true, BaseStorage::kBFloat16, Offload::kNone, true},
    {"magnitudes, NF4, offload", 2048, 14336, 8, 16, 8, 128, 2048, 16384, Recompute::kFull, 1, 512,
     "MLP backward", 3, 0, true, BaseStorage::kNf4, Offload::kActivations, true},
    in_fp8({"adapter, 8 bit products", 2048, 14336, 4, 16, 8, 128, 2048, 16384, Recompute::kNone, 1,
            512, "MLP backward", 3, 0, true},
           BaseStorage::kBFloat16),
    in_fp8({"adapter, 8 bit base", 2048, 14336, 4, 16, 8, 128, 2048, 16384, Recompute::kNone, 1,
            512, "MLP backward", 3, 0, true},
           BaseStorage::kFp8),
    in_fp8({"adapter, 8 bit base, full", 2048, 14336, 8, 16, 8, 128, 2048, 16384, Recompute::kFull,
            1, 512, "MLP backward", 3, 0, true},
           BaseStorage::kFp8),
    {"adapter, decoded 8 bit base", 2048, 14336, 4, 16, 8, 128, 2048, 16384, Recompute::kNone, 1,
     512, "MLP backward", 3, 0, true, BaseStorage::kFp8},
    with_copies({"copies", 2048, 8192, 10, 16, 2, 128, 2048, 16384}),
    with_copies(
        {"copies, selective", 2048, 8192, 10, 16, 2, 128, 2048, 16384, Recompute::kSelective}),
    with_copies({"copies, full", 2048, 8192, 10, 16, 2, 128, 2048, 16384, Recompute::kFull}),
    with_copies({"copies, offload", 2048, 8192, 10, 16, 2, 128, 2048, 16384, Recompute::kFull, 1,
                 512, "", 3, 0, false, BaseStorage::kBFloat16, Offload::kActivations}),
    {.name = "local sums",
     .hidden = 2048,
     .inner = 8192,
     .layers = 8,
     .heads = 32,
     .kv_heads = 8,
     .head_dim = 64,
     .vocab = 32000,
     .rows = 4096,
     .recompute = Recompute::kFull,
     .num_micro_batches = 3,
     .accumulate = Accumulate::kLocal},
    {"offload", 2048, 8192, 8, 32, 8, 64, 32000, 4096, Recompute::kFull, 1, 512, "", 3, 0, false,
     BaseStorage::kBFloat16, Offload::kActivations},
    {"offload of the optimizer", 2048, 8192, 8, 32, 8, 64, 32000, 4096, Recompute::kFull, 1, 512,
     "", 3, 0, false, BaseStorage::kBFloat16, Offload::kOptimizer},
    {"adapter, offload of all", 2048, 14336, 4, 16, 8, 128, 2048, 16384, Recompute::kFull, 1, 512,
     "MLP backward", 3, 0, true, BaseStorage::kBFloat16, Offload::kActivationsAndOptimizer},
};

class Memory : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Steps, Memory, testing::ValuesIn(kCases),
                         [](const testing::TestParamInfo<Case>& info) {
                           std::string name = info.param.name;
                           std::erase_if(name, [](char c) { return c == ',' || c == '-'; });
                           std::ranges::replace(name, ' ', '_');
                           return name;
                         });

// As Gemma 3n has them.
void add_copies(DecoderConfig& config, std::int64_t num_copies) {
  config.qk_norm = QkNormKind::kHead;
  config.norm_after = config.value_norm = true;
  config.activation.kind = ActivationKind::kGeluTanh;
  config.layer_input_width = 256;
  config.altup = {.num_copies = num_copies, .coefficient_clip = 120, .laurel_rank = 64};
  config.layers.resize(static_cast<std::size_t>(config.num_layers));
  config.layers[1].gate_sparsity = 0.95;
  config.layers[2].keeps_keys = true;
  for (std::size_t layer = 6; layer < config.layers.size(); ++layer) {
    config.layers[layer].keys_of_layer = 2;
  }
}

DecoderConfig decoder_of(const Case& c) {
  DecoderConfig config;
  config.family = c.num_experts > 0 ? "mixtral" : "llama";
  config.vocab_size = c.vocab;
  config.hidden_size = c.hidden;
  config.intermediate_size = c.inner;
  config.num_layers = c.layers;
  config.num_heads = c.heads;
  config.num_kv_heads = c.kv_heads;
  config.head_dim = c.head_dim;
  config.max_positions = 4096;
  if (c.num_experts > 0) {
    config.experts = {
        .num_experts = c.num_experts, .experts_per_token = 2, .intermediate_size = c.inner};
    config.layers.assign(static_cast<std::size_t>(c.layers), {.experts = true});
  }
  if (c.num_copies > 0) add_copies(config, c.num_copies);
  config.linear.products = c.products;
  LoraOptions adapter;
  adapter.use_dora = c.use_dora;
  if (c.has_adapter) return with_adapters(config, {&adapter, 1});
  return config;
}

Config config_of(const Case& c) {
  Config config;
  config.parallel.backend = Backend::kNccl;
  config.parallel.zero_stage = c.zero_stage;
  config.parallel.accumulate = c.accumulate;
  config.memory.recompute = c.recompute;
  config.memory.offload = c.offload;
  config.model.base = c.base;
  config.batch.max_tokens_per_micro_batch = c.rows;
  config.data.max_length = c.length;
  return config;
}

void share_prefixes(DeviceBatch& batch) {
  const std::vector<std::int32_t>& begins = batch.cu_seqlens_host;
  for (std::size_t first = 0; first + 3 < begins.size(); first += 3) {
    for (const std::size_t branch : {first + 1, first + 2}) {
      batch.prefixes.push_back(
          {static_cast<std::int64_t>(branch), {{begins[first], begins[first + 1]}}});
    }
  }
  batch.max_seqlen *= 2;
}

TEST_P(Memory, IsWhatThePlanSays) {
  const Case& c = GetParam();
  Config config = config_of(c);
  const DecoderConfig decoder = decoder_of(c);
  World& world = test_world();
  config.parallel.shard_size = world.size();
  const RunDevice run_device = choose_device(config, world);
  const Device& device = *run_device.device;
  // What earlier cases left: a workspace for each stream they used.
  const auto before = static_cast<std::int64_t>(device.memory_use().allocated_bytes);
  const MemoryRanks ranks = memory_ranks(device, world.size());
  const auto model = make_sharded_model(config, decoder, run_device, world);
  // It has the slots of an offloaded state.
  const OptimizerStep update(*model, std::span(&config.optimizer, 1), /*seed=*/0);
  const at::Device on = tensor_device(device);
  const std::vector<std::int32_t> lengths(static_cast<std::size_t>(c.rows / c.length), c.length);
  std::vector<DeviceBatch> batches;
  for (std::size_t i = 0; i < c.num_micro_batches; ++i) {
    batches.push_back(random_batch(lengths, static_cast<std::int32_t>(c.vocab), on));
    if (c.shares_prefixes) share_prefixes(batches.back());
  }
  for (int step = 0; step < 2; ++step) model->train(batches);
  model->compute().synchronize();

  const SequenceCounts counts = batches[0].segments().counts();
  const MemoryPlan plan = MemoryPlanner(config, decoder, ranks)
                              .plan({.num_rows = c.rows,
                                     .num_supervised_rows = batches[0].loss_index.size(0),
                                     .num_sequences = counts.num_sequences(),
                                     .num_keys = c.shares_prefixes ? counts.num_keys() : 0,
                                     .several_micro_batches = c.num_micro_batches > 1});
  const MeasuredMemory measured = measure_memory(device, model->parameters().communication_bytes());
  const auto found = static_cast<double>(measured.allocated - before);
  const auto planned = static_cast<double>(plan.allocated_bytes());
  if (world.rank() == 0) {
    std::printf(
        "%s: planned %.1f MB, most in the %s, measured %.1f MB (%+.2f %%); beside: planned "
        "%.1f, measured %.1f MB\n",
        c.name, planned / 1e6, plan.moment.c_str(), found / 1e6, 100 * (found - planned) / planned,
        static_cast<double>(plan.outside_bytes()) / 1e6,
        static_cast<double>(measured.outside) / 1e6);
  }
  EXPECT_NEAR(found / planned, 1.0, 0.03) << memory_table(plan, 0);
  if (*c.moment != '\0') {
    EXPECT_EQ(plan.moment, c.moment);
  }
}

}  // namespace
}  // namespace packtrain
