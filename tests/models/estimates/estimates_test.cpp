// The estimates derived from the description of a layer equal the tables that described it by hand.
// The cases are every structure, every family's small configs and the shapes of published models.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "framework/config/load.h"
#include "framework/core/error.h"
#include "framework/core/file.h"
#include "models/decoder/layer_operators.h"
#include "models/decoder/parameters.h"
#include "models/estimates/flops.h"
#include "models/estimates/memory_peaks.h"
#include "models/families/family.h"
#include "models/layers/expert_layers.h"
#include "tests/models/estimates/layer_tables.h"
#include "tests/models/variants.h"

namespace packtrain {
namespace {

const std::vector<RecomputePolicy> kPolicies = {
    RecomputePolicy::none(), RecomputePolicy::selective(), RecomputePolicy::full()};

// Of files in the folder, in the order of their names.
std::vector<std::filesystem::path> files_in(const char* folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

std::vector<Variant> all_models() {
  std::vector<Variant> models = decoder_variants();
  for (const auto& file : files_in(FAMILY_SAMPLES)) {
    const auto list = nlohmann::json::parse(read_text(file.string(), ErrorCategory::kConfig));
    for (const auto& json : list) {
      models.push_back({file.stem().string() + " sample", parse_decoder_config(json.dump())});
    }
  }
  for (const auto& file : files_in(FAMILY_CONFIGS)) {
    const std::string json = load_config(file.string()).model.config;
    models.push_back({file.stem().string(), parse_decoder_config(json)});
  }
  return models;
}

std::string text_of(const std::vector<SavedActivation>& values) {
  std::string text;
  for (const SavedActivation& value : values) {
    text += fmt::format("{} {}\n", value.name, value.bytes);
  }
  return text;
}

std::string text_of(const MemoryPeak& peak) {
  return fmt::format("{}: kept {}\n{}", peak.name, peak.kept, text_of(peak.in_use));
}

std::string text_of(const std::vector<ParameterSpec>& parameters) {
  std::string text;
  for (const ParameterSpec& p : parameters) {
    text += fmt::format("{} [{}] {} {} {}\n", p.name, fmt::join(p.shape, ", "),
                        static_cast<int>(p.initialization.kind),
                        p.initialization.standard_deviation, p.decay);
  }
  return text;
}

std::vector<MicroBatchShape> sizes() {
  std::vector<MicroBatchShape> all;
  for (const c10::ScalarType dtype : {c10::kBFloat16, c10::kFloat}) {
    for (const bool on_gpu : {false, true}) {
      for (const std::int64_t supervised : {4096, 4095, 17, 0}) {
        all.push_back({4096, supervised, 8192, 9, on_gpu, dtype, on_gpu});
      }
    }
  }
  return all;
}

TEST(Estimates, ParametersAreThoseOfTheTable) {
  for (const auto& [name, config] : all_models()) {
    SCOPED_TRACE(name);
    EXPECT_EQ(text_of(embedding_parameters(config)), text_of(tables::embedding_parameters(config)));
    EXPECT_EQ(text_of(head_parameters(config)), text_of(tables::head_parameters(config)));
    for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
      EXPECT_EQ(text_of(layer_parameters(config, layer)),
                text_of(tables::layer_parameters(config, layer)));
    }
  }
}

TEST(Estimates, FlopsAreThoseOfTheFormula) {
  for (const auto& [name, config] : all_models()) {
    SCOPED_TRACE(name);
    const std::vector<std::pair<double, double>> works = {{1, 0}, {0, 1}, {12345, 7e8}};
    for (const auto& [tokens, squares] : works) {
      EXPECT_EQ(training_flops(config, tokens, squares),
                tables::training_flops(config, tokens, squares));
    }
  }
}

TEST(Estimates, SavedActivationsAreThoseOfTheTable) {
  for (const auto& [name, config] : all_models()) {
    SCOPED_TRACE(name);
    for (const RecomputePolicy& policy : kPolicies) {
      for (const MicroBatchShape& size : sizes()) {
        const auto element = static_cast<std::int64_t>(c10::elementSize(size.compute));
        for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
          const bool is_last = layer + 1 == config.num_layers && !last_layer_needs_all_rows(config);
          const tables::LayerRows rows{size.num_rows,
                                       is_last ? size.num_supervised_rows : size.num_rows, layer};
          std::vector<SavedActivation> want = tables::layer_activations_at(
              tables::BackwardPhase::kBetween, config, policy, rows, element);
          std::erase_if(want, [](const SavedActivation& value) { return value.bytes == 0; });
          EXPECT_EQ(text_of(saved_activations(layer_shapes(config, layer, size), policy)),
                    text_of(want));
        }
        EXPECT_EQ(text_of(layer_saved_activations(config, policy, size)),
                  text_of(tables::layer_saved_activations(config, policy, size.num_rows, element)));
      }
    }
  }
}

// A backend that a model has no kernel for is refused by both.
std::vector<MemoryPeak> peaks_or_none(auto find) {
  try {
    return find();
  } catch (const Error& error) {
    return {{error.message(), 0, {}}};
  }
}

TEST(Estimates, MemoryPeaksAreThoseOfTheTable) {
  for (const auto& [name, config] : all_models()) {
    SCOPED_TRACE(name);
    for (std::size_t policy = 0; policy < kPolicies.size(); ++policy) {
      for (const MicroBatchShape& size : sizes()) {
        SCOPED_TRACE(fmt::format("policy {}, supervised {}", policy, size.num_supervised_rows));
        const auto got =
            peaks_or_none([&] { return memory_peaks(config, kPolicies[policy], size); });
        const auto want =
            peaks_or_none([&] { return tables::memory_peaks(config, kPolicies[policy], size); });
        ASSERT_EQ(got.size(), want.size());
        for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(text_of(got[i]), text_of(want[i]));
      }
    }
  }
}

}  // namespace
}  // namespace packtrain
