// Estimates for the shapes in configs/families. golden.txt has their bytes and FLOPs, so that a
// change of a layer shows there. When the change is wanted, the text that the test prints replaces
// the file.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "framework/config/load.h"
#include "framework/core/error.h"
#include "framework/core/file.h"
#include "models/decoder/decoder.h"
#include "models/decoder/parameters.h"
#include "models/estimates/flops.h"
#include "models/estimates/memory_peaks.h"
#include "models/families/family.h"
#include "models/ops/delta_rule/delta_rule_bytes.h"
#include "tests/models/batches.h"

namespace packtrain {
namespace {

// Backends of larger heads depend on the GPU that the machine has.
constexpr std::int64_t kMaxHeadDimOnGpu = 128;

struct Policy {
  const char* name;
  RecomputePolicy policy;
};

const std::vector<Policy> kPolicies = {{"none", RecomputePolicy::none()},
                                       {"selective", RecomputePolicy::selective()},
                                       {"full", RecomputePolicy::full()}};

MicroBatchShape size_for(const DecoderConfig& config) {
  MicroBatchShape size;
  size.num_rows = 16384;
  size.num_supervised_rows = 16320;
  size.max_rows = 16384;
  size.num_sequences = 64;
  size.on_gpu = config.head_dim <= kMaxHeadDimOnGpu;
  return size;
}

std::string lines_of(const std::string& name, const DecoderConfig& config) {
  std::string text =
      fmt::format("{} parameters {} matmul {} flops {:.0f}\n", name, num_parameters(config),
                  num_matmul_parameters(config), training_flops(config, 16384, 4194304));
  const MicroBatchShape size = size_for(config);
  for (const auto& [policy_name, policy] : kPolicies) {
    text += fmt::format("{} {} saved {}", name, policy_name,
                        total_bytes(layer_saved_activations(config, policy, size)));
    for (const MemoryPeak& peak : memory_peaks(config, policy, size)) {
      text += fmt::format(" | {} {} + {}", peak.name, peak.kept, total_bytes(peak.in_use));
    }
    text += "\n";
  }
  return text;
}

TEST(Estimates, AreThoseOfTheGoldenFile) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(FAMILY_CONFIGS)) {
    files.push_back(entry.path());
  }
  std::ranges::sort(files);
  std::string text;
  for (const auto& file : files) {
    const std::string json = load_config(file.string()).model.config;
    text += lines_of(file.stem().string(), parse_decoder_config(json));
  }
  EXPECT_EQ(text, read_text(GOLDEN_ESTIMATES, ErrorCategory::kConfig)) << text;
}

std::vector<std::string> names_of(const std::vector<SavedActivation>& values) {
  std::vector<std::string> names;
  for (const SavedActivation& value : values) names.push_back(value.name);
  return names;
}

TEST(Estimates, SavedActivationsAreInTheOrderOfTheForward) {
  MicroBatchShape size;
  size.num_rows = 8;
  EXPECT_EQ(names_of(layer_saved_activations(small_config(), RecomputePolicy::none(), size)),
            (std::vector<std::string>{"input", "attention_norm", "attention_norm.statistics",
                                      "attention.rotated_qkv", "attention", "attention.statistics",
                                      "attention.output", "mlp_norm", "mlp_norm.statistics",
                                      "mlp.gate_up", "mlp.activation"}));
  EXPECT_EQ(names_of(layer_saved_activations(small_config(), RecomputePolicy::full(), size)),
            (std::vector<std::string>{"input", "attention_norm.statistics", "attention.statistics",
                                      "mlp_norm.statistics"}));
}

TEST(Estimates, InputsOfEightBitProductsAreSavedInEightBits) {
  MicroBatchShape size;
  size.num_rows = 20;
  DecoderConfig config = small_config();
  config.linear.products = Fp8Products::kAll;
  const auto saved = layer_saved_activations(config, RecomputePolicy::none(), size);
  EXPECT_EQ(names_of(saved),
            (std::vector<std::string>{
                "input", "attention_norm.statistics", "attention.qkv.scales", "attention.qkv.input",
                "attention.rotated_qkv", "attention", "attention.statistics", "attention.output",
                "attention.output.scales", "mlp_norm.statistics", "mlp.gate_up",
                "mlp.gate_up.scales", "mlp.gate_up.input", "mlp.down.scales", "mlp.down.input"}));
  // 20 rows become 32.
  EXPECT_EQ(saved.back().bytes, 32 * config.intermediate_size);
  // Recomputed with what they are cast from.
  EXPECT_EQ(
      names_of(layer_saved_activations(config, RecomputePolicy::full(), size)),
      (std::vector<std::string>{"input", "attention_norm.statistics", "attention.qkv.scales",
                                "attention.statistics", "attention.output.scales",
                                "mlp_norm.statistics", "mlp.gate_up.scales", "mlp.down.scales"}));
}

TEST(Estimates, ScalesOfBlocksAreSavedWithTheirCodes) {
  MicroBatchShape size;
  size.num_rows = 200;
  DecoderConfig config = small_config();
  config.linear = {Fp8Products::kAll, {}, Fp8Recipe::kBlock};
  const auto saved = layer_saved_activations(config, RecomputePolicy::none(), size);
  EXPECT_EQ(names_of(saved), (std::vector<std::string>{
                                 "input", "attention_norm.statistics", "attention.qkv.input",
                                 "attention.qkv.input_scales", "attention.rotated_qkv", "attention",
                                 "attention.statistics", "attention.output", "mlp_norm.statistics",
                                 "mlp.gate_up", "mlp.gate_up.input", "mlp.gate_up.input_scales",
                                 "mlp.down.input", "mlp.down.input_scales"}));
  // Two groups of 128 rows, with a float32 for each feature.
  EXPECT_EQ(saved.back().bytes, 2 * 4 * config.intermediate_size);
  EXPECT_EQ(names_of(layer_saved_activations(config, RecomputePolicy::full(), size)),
            (std::vector<std::string>{"input", "attention_norm.statistics", "attention.statistics",
                                      "mlp_norm.statistics"}));
}

TEST(Estimates, ThePeakFallsWithTheWeightsThatMultiplyEightBits) {
  MicroBatchShape size;
  size.num_rows = size.max_rows = 4096;
  size.num_supervised_rows = 4095;
  const auto peak_of = [&](Fp8Products products, std::vector<std::string> keep) {
    DecoderConfig config = small_config();
    config.num_layers = 6;
    config.linear = {products, std::move(keep)};
    std::int64_t most = 0;
    for (const MemoryPeak& peak : memory_peaks(config, RecomputePolicy::none(), size)) {
      most = std::max(most, peak.bytes());
    }
    return most;
  };
  const std::int64_t plain = peak_of(Fp8Products::kNone, {});
  const std::int64_t some = peak_of(Fp8Products::kAll, {"layers.0.*", "layers.1.*"});
  EXPECT_LT(some, plain);
  EXPECT_LT(peak_of(Fp8Products::kAll, {}), some);
}

// Also with experts in some layers.
TEST(Estimates, ThePeakFallsWithEachOfTheFirstLayersThatRecomputes) {
  std::vector<DecoderConfig> configs = {small_config(), small_config()};
  for (DecoderConfig& config : configs) config.num_layers = 6;
  configs[1].experts = {.num_experts = 4, .experts_per_token = 2, .intermediate_size = 96};
  for (int layer = 0; layer < 6; ++layer) configs[1].layers.push_back({.experts = layer % 2 == 1});
  const auto peak_of = [](const DecoderConfig& config, const LayerPolicies& policies) {
    MicroBatchShape size;
    size.num_rows = size.max_rows = 4096;
    size.num_supervised_rows = 4095;
    size.on_gpu = false;
    std::int64_t most = 0;
    for (const MemoryPeak& peak : memory_peaks(config, policies, size)) {
      most = std::max(most, peak.bytes());
    }
    return most;
  };
  const RecomputePolicy none = RecomputePolicy::none();
  for (const DecoderConfig& config : configs) {
    for (const RecomputePolicy policy : {RecomputePolicy::selective(), RecomputePolicy::full()}) {
      const std::int64_t most = peak_of(config, none);
      EXPECT_EQ(peak_of(config, {policy, 0, none}), most);
      std::int64_t last = most;
      for (std::int64_t num = 1; num < 6; ++num) {
        const std::int64_t bytes = peak_of(config, {policy, num, none});
        EXPECT_LE(bytes, last) << num;
        last = bytes;
      }
      EXPECT_LT(last, most);
      EXPECT_EQ(peak_of(config, {policy, 6, none}), peak_of(config, policy));
    }
  }
}

// Six layers keep three inputs at the loss. The backward of the last one has two and its own.
TEST(Estimates, InputsOnTheHostDoNotCount) {
  DecoderConfig config = small_config();
  config.num_layers = 6;
  MicroBatchShape size;
  size.num_rows = size.num_supervised_rows = size.max_rows = 4096;
  size.on_gpu = false;
  LayerPolicies policies = RecomputePolicy::full();
  const std::vector<MemoryPeak> kept = memory_peaks(config, policies, size);
  policies.inputs_on_host = true;
  const std::vector<MemoryPeak> offloaded = memory_peaks(config, policies, size);
  const std::int64_t input = size.num_rows * config.hidden_size * 2;
  ASSERT_EQ(kept.size(), offloaded.size());
  for (std::size_t i = 0; i < kept.size(); ++i) {
    EXPECT_EQ(kept[i].bytes() - offloaded[i].bytes(), 3 * input) << kept[i].name;
  }
}

std::int64_t delta_rule_bytes(const DecoderConfig& config, const MicroBatchShape& size) {
  for (const MemoryPeak& peak : memory_peaks(config, RecomputePolicy::none(), size)) {
    if (peak.name == "delta rule backward") return total_bytes(peak.in_use);
  }
  return 0;
}

// Without a GPU there is no workspace, but the gradient of the convolution's output.
TEST(Estimates, ADeltaRuleNeedsTheWorkspaceOfItsGpu) {
  DecoderConfig config = small_config();
  config.layers = {{.delta_net = true}, {}};
  config.delta_net = {
      .num_key_heads = 2, .num_value_heads = 4, .key_head_dim = 64, .value_head_dim = 64};
  MicroBatchShape size;
  size.num_rows = size.max_rows = 4096;
  size.num_supervised_rows = 4095;
  const std::int64_t hopper = delta_rule_bytes(config, size);
  size.shared_bytes = 99 << 10;
  const std::int64_t little = delta_rule_bytes(config, size);
  const DeltaRuleSizes sizes = {4096, 1, 2, 4, 64, 64};
  const auto workspace = [&](std::int64_t shared_bytes) {
    return delta_rule_workspace_bytes(sizes, DataType::kBFloat16, true, shared_bytes);
  };
  EXPECT_EQ(little - hopper, workspace(99 << 10) - workspace(kHopperSharedBytes));
  EXPECT_GT(little, hopper);
  size.on_gpu = false;
  const std::int64_t mixed = 4096 * config.delta_net.conv_channels() * 2;
  EXPECT_EQ(hopper - delta_rule_bytes(config, size), workspace(kHopperSharedBytes) - mixed);
}

TEST(Estimates, ParametersOfALayerAreInTheOrderOfItsOperators) {
  std::vector<std::string> names;
  for (const ParameterSpec& parameter : layer_parameters(small_config(), 1)) {
    names.push_back(parameter.name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{
                       "layers.1.attention_norm.weight", "layers.1.attention.qkv.weight",
                       "layers.1.attention.qkv.bias", "layers.1.attention.output.weight",
                       "layers.1.attention.output.bias", "layers.1.mlp_norm.weight",
                       "layers.1.mlp.gate_up.weight", "layers.1.mlp.gate_up.bias",
                       "layers.1.mlp.down.weight", "layers.1.mlp.down.bias"}));
}

}  // namespace
}  // namespace packtrain
