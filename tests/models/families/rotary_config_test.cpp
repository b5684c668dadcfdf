// Rotary positions of Hugging Face configs, in and out.
#include "models/families/rotary_config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "framework/core/error.h"
#include "models/families/config_reader.h"

namespace packtrain {
namespace {

using Json = nlohmann::json;
using Kind = RotaryScaling::Kind;

// What a family knows before it reads rotary positions.
DecoderConfig known(std::int64_t head_dim = 16) {
  DecoderConfig config;
  config.max_positions = 4096;
  config.head_dim = head_dim;
  return config;
}

DecoderConfig read(const Json& json, const RotaryDefaults& defaults = {},
                   std::int64_t head_dim = 16) {
  ConfigReader reader(json);
  DecoderConfig config = known(head_dim);
  read_rotary(reader, config, defaults);
  reader.finish();
  return config;
}

DecoderConfig read_layered(const Json& json) {
  ConfigReader reader(json);
  DecoderConfig config = known();
  read_layered_rotary(reader, config, 1e6, 1e4, "rope_local_base_freq");
  reader.finish();
  return config;
}

RotaryScaling scaling_of(const Json& rope) {
  return read({{"rope_parameters", rope}}).rotary.scaling;
}

std::string problem_of(const Json& rope, const RotaryDefaults& defaults = {}) {
  try {
    read({{"rope_parameters", rope}}, defaults);
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::kConfig);
    return error.message();
  }
  return "no error";
}

void expect_refused(const Json& rope, const std::string& key) {
  EXPECT_NE(problem_of(rope).find("'rope_parameters." + key + "'"), std::string::npos)
      << rope.dump() << ": " << problem_of(rope);
}

const Json kFactors = {1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7};

Json longrope() {
  return {{"rope_type", "longrope"},
          {"short_factor", kFactors},
          {"long_factor", {2, 3, 4, 5, 6, 7, 8, 9}},
          {"original_max_position_embeddings", 512}};
}

TEST(RotaryConfig, ReadsDynamic) {
  const RotaryScaling scaling = scaling_of({{"rope_type", "dynamic"}, {"factor", 2.5}});
  EXPECT_EQ(scaling.kind, Kind::kDynamic);
  EXPECT_EQ(scaling.factor, 2.5);
  EXPECT_EQ(scaling.original_max_positions, 4096);
}

TEST(RotaryConfig, ReadsYarnWithItsDefaults) {
  RotaryScaling scaling = scaling_of(
      {{"rope_type", "yarn"}, {"factor", 8.0}, {"original_max_position_embeddings", 512}});
  EXPECT_EQ(scaling.kind, Kind::kYarn);
  EXPECT_EQ(scaling.original_max_positions, 512);
  EXPECT_EQ(scaling.beta_fast, 32.0);
  EXPECT_EQ(scaling.beta_slow, 1.0);
  EXPECT_TRUE(scaling.truncate);
  EXPECT_DOUBLE_EQ(scaling.attention_factor, 1.2079441541679836);
  scaling = scaling_of({{"rope_type", "yarn"},
                        {"factor", 4.0},
                        {"original_max_position_embeddings", 64},
                        {"mscale", 0.7},
                        {"mscale_all_dim", 1.5},
                        {"truncate", false},
                        {"beta_fast", 16},
                        {"beta_slow", 0}});
  EXPECT_DOUBLE_EQ(scaling.attention_factor, 0.9081881819561598);
  EXPECT_FALSE(scaling.truncate);
  EXPECT_EQ(scaling.beta_fast, 16.0);
  EXPECT_EQ(scaling.beta_slow, 1.0) << "transformers makes its default of 0";
}

TEST(RotaryConfig, ReadsLongropeByAnyOfItsNames) {
  RotaryScaling scaling = scaling_of(longrope());
  EXPECT_EQ(scaling.kind, Kind::kLongRope);
  EXPECT_EQ(scaling.factor, 8.0) << "4096 / 512";
  EXPECT_DOUBLE_EQ(scaling.attention_factor, 1.1547005383792515);
  EXPECT_EQ(scaling.long_factors.at(7), 9.0);
  Json old = longrope();
  old.erase("rope_type");
  old["type"] = "su";
  EXPECT_EQ(scaling_of(old), scaling);
  old.erase("original_max_position_embeddings");
  // Phi-3 keeps it next to rope_scaling, not inside.
  EXPECT_EQ(read({{"rope_scaling", old}, {"original_max_position_embeddings", 512}}).rotary.scaling,
            scaling);
  EXPECT_EQ(read({{"rope_scaling", old}}, {.original_max_positions = 512}).rotary.scaling, scaling);
}

TEST(RotaryConfig, ReadsAPartOfAHead) {
  const RotaryDefaults defaults{.base = 500.0, .partial_factor = 0.25};
  EXPECT_EQ(read(Json::object(), defaults).rotary_dim, 4);
  EXPECT_EQ(read(Json::object(), defaults).rotary.base, 500.0);
  EXPECT_EQ(read({{"partial_rotary_factor", 0.5}}, defaults).rotary_dim, 8);
  EXPECT_EQ(read({{"rope_parameters", {{"partial_rotary_factor", 1.0}}}}, defaults).rotary_dim, 0);
  EXPECT_EQ(read({{"partial_rotary_factor", 0.4}}, defaults, 80).resolved_rotary_dim(), 32);
}

TEST(RotaryConfig, WhatIsWrittenReadsBackEqual) {
  const std::vector<Json> cases = {
      {{"rope_type", "default"}, {"rope_theta", 500.0}},
      {{"rope_type", "linear"}, {"factor", 2.0}},
      {{"rope_type", "dynamic"}, {"factor", 3.0}},
      {{"rope_type", "llama3"},
       {"factor", 3.0},
       {"low_freq_factor", 1.0},
       {"high_freq_factor", 4.0},
       {"original_max_position_embeddings", 100}},
      {{"rope_type", "yarn"}, {"factor", 3.0}, {"beta_fast", 20.0}, {"truncate", false}},
      longrope()};
  for (const Json& rope : cases) {
    const DecoderConfig config = read({{"rope_parameters", rope}});
    EXPECT_EQ(read({{"rope_parameters", write_rotary(config)}}), config) << rope.dump();
    EXPECT_EQ(read({{"rope_theta", config.rotary.base}, {"rope_scaling", write_rotary(config)}}),
              config)
        << rope.dump();
  }
}

// transformers goes by rope_scaling alone where both are set.
TEST(RotaryConfig, BothLayoutsMustSayTheSame) {
  const RotaryDefaults defaults{.base = 500.0, .partial_factor = 0.25};
  const auto problem = [&](const Json& fresh, const Json& old) {
    try {
      read({{"rope_parameters", fresh}, {"rope_scaling", old}}, defaults);
    } catch (const Error& error) {
      return error.message();
    }
    return std::string("no error");
  };
  const Json linear = {{"rope_type", "linear"}, {"factor", 2.0}};
  Json other = linear;
  EXPECT_EQ(problem(linear, other), "no error");
  other["rope_theta"] = 700.0;
  EXPECT_EQ(problem(other, other), "no error");
  EXPECT_NE(problem(other, linear).find("'rope_scaling' and rope_parameters"), std::string::npos);
  other = linear;
  other["partial_rotary_factor"] = 0.5;
  EXPECT_NE(problem(linear, other).find("'rope_scaling' and rope_parameters"), std::string::npos);
  other = linear;
  other["mystery"] = 1;
  EXPECT_NE(problem(linear, other).find("'rope_scaling.mystery'"), std::string::npos);
}

TEST(RotaryConfig, EveryPartOfAHeadIsWrittenExactly) {
  for (const std::int64_t head_dim : {16, 48, 80, 96, 100}) {
    for (std::int64_t dim = 2; dim <= head_dim; dim += 2) {
      DecoderConfig config = known(head_dim);
      config.rotary_dim = dim == head_dim ? 0 : dim;
      const Json json = {{"rope_parameters", write_rotary(config)}};
      EXPECT_EQ(read(json, {.partial_factor = 1.0}, head_dim).resolved_rotary_dim(), dim)
          << head_dim;
    }
  }
}

TEST(RotaryConfig, OfKindsOfLayersReadsBothLayouts) {
  DecoderConfig config = read_layered(Json::object());
  EXPECT_EQ(config.rotary.base, 1e6);
  EXPECT_EQ(config.local_rotary.base, 1e4);
  const Json scaling = {{"rope_type", "linear"}, {"factor", 8.0}};
  config =
      read_layered({{"rope_theta", 5e5}, {"rope_local_base_freq", 2e4}, {"rope_scaling", scaling}});
  EXPECT_EQ(config.rotary.base, 5e5);
  EXPECT_EQ(config.rotary.scaling.factor, 8.0);
  EXPECT_EQ(config.local_rotary.base, 2e4);
  EXPECT_EQ(config.local_rotary.scaling.kind, Kind::kNone);
  EXPECT_EQ(read_layered({{"rope_parameters", write_layered_rotary(config)},
                          {"rope_theta", 5e5},
                          {"rope_local_base_freq", 2e4},
                          {"rope_scaling", scaling}}),
            config);
}

// transformers adds rope_scaling to an object whose rope_type is "default": a type does nothing.
TEST(RotaryConfig, OfKindsOfLayersATypeOfTheOldNameIsRefused) {
  EXPECT_THROW(read_layered({{"rope_scaling", {{"type", "linear"}, {"factor", 8.0}}}}), Error);
  EXPECT_EQ(read_layered({{"rope_scaling", {{"type", "default"}}}}), read_layered(Json::object()));
}

TEST(RotaryConfig, RefusesWrongValuesByName) {
  expect_refused({{"rope_type", "mrope"}}, "rope_type");
  expect_refused({{"rope_type", "linear"}, {"factor", 0.5}}, "factor");
  expect_refused({{"rope_type", "dynamic"}}, "factor");
  expect_refused(
      {{"rope_type", "dynamic"}, {"factor", 2}, {"original_max_position_embeddings", 512}},
      "original_max_position_embeddings");
  expect_refused({{"rope_type", "yarn"}, {"factor", 2}, {"beta_fast", 0.5}}, "beta_fast");
  expect_refused({{"rope_type", "yarn"}, {"factor", 2}, {"attention_factor", -1.0}},
                 "attention_factor");
  expect_refused({{"rope_type", "yarn"}, {"original_max_position_embeddings", 8192}},
                 "original_max_position_embeddings");
  expect_refused({{"rope_type", "linear"}, {"factor", 2}, {"mscale", 1.0}}, "mscale");
  expect_refused({{"partial_rotary_factor", 0.5}}, "partial_rotary_factor");
  Json rope = longrope();
  rope["short_factor"] = {1.0, 2.0};
  expect_refused(rope, "short_factor");
  rope["short_factor"] = {0.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7};
  expect_refused(rope, "short_factor");
  rope["short_factor"] = "none";
  expect_refused(rope, "short_factor");
  EXPECT_NE(problem_of({{"partial_rotary_factor", 0.2}}, {.partial_factor = 1.0}).find("3 of the"),
            std::string::npos);
}

}  // namespace
}  // namespace packtrain
