// Tests every family in the table. Its weight map is complete. Its config is written as it is read.
// Users may change it as documented. The folder families has a file for each type with small
// configs, one for each kind of map.
#include "models/families/weight_map.h"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "framework/core/error.h"
#include "framework/core/file.h"
#include "models/families/config_changes.h"
#include "models/families/family.h"

namespace packtrain {
namespace {

class EveryFamily : public ::testing::TestWithParam<const Family*> {
 protected:
  static std::vector<nlohmann::json> samples() {
    const std::string path = std::string(FAMILY_SAMPLES) + "/" + GetParam()->model_type + ".json";
    return nlohmann::json::parse(read_text(path, ErrorCategory::kInternal));
  }
};

// How often each element of the tensor at hand is used.
using Uses = std::map<std::string, std::vector<int>>;

Uses uses_of_tensors(const std::vector<WeightPiece>& pieces) {
  Uses uses;
  for (const WeightPiece& piece : pieces) {
    std::vector<int>& of_tensor = uses[piece.hf_name];
    of_tensor.resize(static_cast<std::size_t>(piece.hf_numel()));
    for (std::int64_t r = 0; r < piece.rows; ++r) {
      for (std::int64_t c = 0; c < piece.columns; ++c) {
        const std::int64_t element =
            piece.hf_begin + r * piece.hf_row_stride + c * piece.hf_column_stride;
        ++of_tensor.at(static_cast<std::size_t>(element));
      }
    }
  }
  return uses;
}

TEST_P(EveryFamily, MapsEveryElementOfItsTensorsAndParametersOnce) {
  for (const nlohmann::json& sample : samples()) {
    const DecoderConfig config = parse_decoder_config(sample.dump());
    for (const auto& layout : weight_layouts(config)) {  // which checks parameters exactly
      for (const auto& [name, uses] : uses_of_tensors(layout)) {
        EXPECT_EQ(uses, std::vector<int>(uses.size(), 1)) << name << " of " << sample;
      }
    }
  }
}

TEST_P(EveryFamily, WritesTheConfigThatItReads) {
  for (const nlohmann::json& sample : samples()) {
    const DecoderConfig config = parse_decoder_config(sample.dump());
    EXPECT_EQ(config.family, GetParam()->model_type);
    const nlohmann::json written = GetParam()->write(config);
    EXPECT_EQ(parse_decoder_config(written.dump()), config) << written;
  }
}

TEST_P(EveryFamily, RefusesDropoutsByNameUntilTheyAreLeftOut) {
  for (nlohmann::json sample : samples()) {
    const DecoderConfig config = parse_decoder_config(sample.dump());
    sample["attention_dropout"] = 0.25;
    try {
      parse_decoder_config(sample.dump());
      ADD_FAILURE() << "not refused: " << sample;
    } catch (const Error& error) {
      EXPECT_NE(error.message().find("'attention_dropout' is 0.25"), std::string::npos);
      EXPECT_NE(error.advice().find("model.dropout: 0"), std::string::npos);
    }
    EXPECT_EQ(parse_decoder_config(without_dropouts(sample.dump())), config);
  }
}

TEST_P(EveryFamily, HasAsManyTokensAsAreAskedFor) {
  for (const nlohmann::json& sample : samples()) {
    DecoderConfig config = parse_decoder_config(sample.dump());
    config.vocab_size += 7;
    config.layer_input_vocab = 0;  // the embedding of layers' inputs has as many
    EXPECT_EQ(parse_decoder_config(with_vocabulary(sample.dump(), config.vocab_size)), config);
  }
}

TEST(ConfigChanges, DropoutsInsideOfObjectsAreLeftOutToo) {
  const std::string changed =
      without_dropouts(R"({"resid_pdrop": 0.1, "attn_config": {"attn_pdrop": 0.2, "clip": 8}})");
  EXPECT_EQ(
      nlohmann::json::parse(changed),
      (nlohmann::json{{"resid_pdrop", 0.0}, {"attn_config", {{"attn_pdrop", 0.0}, {"clip", 8}}}}));
  EXPECT_EQ(without_dropouts("{no json"), "{no json");  // for its parser to say
}

std::vector<const Family*> all_families() {
  std::vector<const Family*> all;
  for (const Family& family : families()) all.push_back(&family);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Table, EveryFamily, ::testing::ValuesIn(all_families()),
                         [](const auto& info) { return std::string(info.param->model_type); });

DecoderConfig llama() {
  return parse_decoder_config(
      R"({"model_type": "llama", "vocab_size": 10, "hidden_size": 8, "intermediate_size": 6,
          "num_hidden_layers": 1, "num_attention_heads": 2})");
}

std::string fault_after(const std::function<void(std::vector<WeightPiece>&)>& change) {
  std::vector<WeightPiece> pieces = find_family("llama").weights(llama());
  change(pieces);
  try {
    check_weight_map(llama(), pieces);
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::kInternal);
    EXPECT_NE(error.message().find("family 'llama'"), std::string::npos);
    return error.message();
  }
  return "none";
}

void expect_fault(const std::string& wanted,
                  const std::function<void(std::vector<WeightPiece>&)>& change) {
  const std::string message = fault_after(change);
  EXPECT_NE(message.find(wanted), std::string::npos) << message;
}

using Pieces = std::vector<WeightPiece>;

TEST(WeightMapCheck, FindsWhatIsMissingTwiceOrOutside) {
  EXPECT_EQ(fault_after([](Pieces&) {}), "none");
  expect_fault("no piece, or two, for its element 0", [](Pieces& all) { all.pop_back(); });
  expect_fault("two pieces for the same elements", [](Pieces& all) { all.push_back(all[0]); });
  expect_fault("no parameter 'extra'", [](Pieces& all) {
    all.push_back(all[0]);
    all.back().parameter = "extra";
  });
  expect_fault("160 of the 80 elements of 'model.embed_tokens.weight'", [](Pieces& all) {
    all.back().hf_name = all[0].hf_name;  // the head is no embedding's
  });
  expect_fault("lies outside of 'model.embed_tokens.weight'",
               [](Pieces& all) { all[0].hf_begin = 1; });
  expect_fault("has two shapes", [](Pieces& all) {
    all.back().hf_name = all[0].hf_name;
    all.back().hf_shape = {8, 10};
  });
}

TEST(WeightMap, AFileWithoutThePrefixIsTheSameMapUnderOtherNames) {
  const auto layouts = weight_layouts(llama());
  ASSERT_EQ(layouts.size(), 2U);
  EXPECT_EQ(layouts[1][0].hf_name, "embed_tokens.weight");
  EXPECT_EQ(layouts[1].back().hf_name, "lm_head.weight");
  EXPECT_EQ(layouts[1].size(), layouts[0].size());
}

}  // namespace
}  // namespace packtrain
