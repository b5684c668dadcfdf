#include "models/families/rotary_scaling.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/families/config_reader.h"

namespace packtrain {
namespace {

using Kind = RotaryScaling::Kind;

struct KindName {
  Kind kind;
  const char* name;
};
constexpr std::array kKindNames = {KindName{Kind::kNone, "default"},
                                   KindName{Kind::kLinear, "linear"},
                                   KindName{Kind::kDynamic, "dynamic"},
                                   KindName{Kind::kLlama3, "llama3"},
                                   KindName{Kind::kYarn, "yarn"},
                                   KindName{Kind::kLongRope, "longrope"},
                                   KindName{Kind::kProportional, "proportional"}};

const char* name_of(Kind kind) {
  return std::ranges::find(kKindNames, kind, &KindName::kind)->name;
}

Kind read_kind(ConfigReader& rope) {
  const std::string old_name = rope.text("type", "default");  // the old name of rope_type
  std::string type = rope.text("rope_type", old_name);
  if (type == "su") type = "longrope";
  const auto* found = std::ranges::find(kKindNames, type, &KindName::name);
  if (found == kKindNames.end() || found->kind == Kind::kProportional) {
    rope.reject("rope_type",
                "is \"" + type + "\", want default, linear, dynamic, llama3, yarn or longrope");
    rope.ignore_rest();
    return Kind::kNone;
  }
  return found->kind;
}

// Reads an object of scaling parameters.
class ScalingReader {
 public:
  ScalingReader(ConfigReader& rope, const DecoderConfig& config, double base,
                std::int64_t original_max_positions)
      : rope_(rope), config_(config), base_(base), original_(original_max_positions) {}

  RotaryScaling read() {
    scaling_.kind = read_kind(rope_);
    switch (scaling_.kind) {
      case Kind::kNone:
      case Kind::kProportional:  // read_proportional_rotary()
        break;
      case Kind::kLinear:
        read_factor();
        break;
      case Kind::kDynamic:
        read_dynamic();
        break;
      case Kind::kLlama3:
        read_llama3();
        break;
      case Kind::kYarn:
        read_yarn();
        break;
      case Kind::kLongRope:
        read_longrope();
        break;
    }
    return scaling_;
  }

 private:
  void read_factor() {
    scaling_.factor = rope_.number("factor");
    if (scaling_.factor < 1) rope_.fail("factor", "must be at least 1");
  }

  // Without `factor`, the ratio of the two lengths is the factor.
  void read_factor_of_lengths() {
    if (rope_.has("factor")) return read_factor();
    if (config_.max_positions < scaling_.original_max_positions) {
      rope_.fail("original_max_position_embeddings", "must not be above max_position_embeddings");
    }
    scaling_.factor = static_cast<double>(config_.max_positions) /
                      static_cast<double>(scaling_.original_max_positions);
  }

  void read_original() {
    scaling_.original_max_positions = rope_.integer(
        "original_max_position_embeddings", original_ > 0 ? original_ : config_.max_positions);
    if (original_ > 0) scaling_.original_max_positions = original_;  // as in transformers
  }

  void read_dynamic() {
    read_factor();
    scaling_.original_max_positions = config_.max_positions;
    // transformers 5 uses another name only for this kind.
    rope_.require("original_max_position_embeddings", config_.max_positions);
    if (config_.resolved_rotary_dim() < 4)
      rope_.fail("rope_type", "\"dynamic\" needs 4 turned elements");
  }

  void read_llama3() {
    read_factor();
    scaling_.low_frequency_factor = rope_.number("low_freq_factor");
    scaling_.high_frequency_factor = rope_.number("high_freq_factor");
    read_original();
    if (scaling_.low_frequency_factor <= 0 ||
        scaling_.high_frequency_factor < scaling_.low_frequency_factor) {
      rope_.fail("high_freq_factor", "must not be below low_freq_factor, and both positive");
    }
  }

  void read_attention_factor(double fallback) {
    scaling_.attention_factor = rope_.number("attention_factor", fallback);
    if (scaling_.attention_factor <= 0) rope_.fail("attention_factor", "must be positive");
  }

  // transformers replaces 0 by its default.
  double number_or(const char* key, double fallback) {
    const double got = rope_.number(key, 0);
    return got == 0 ? fallback : got;
  }

  void read_yarn() {
    read_original();
    read_factor_of_lengths();
    scaling_.beta_fast = number_or("beta_fast", 32.0);
    scaling_.beta_slow = number_or("beta_slow", 1.0);
    if (scaling_.beta_slow <= 0 || scaling_.beta_fast <= scaling_.beta_slow) {
      rope_.fail("beta_fast", "must be above beta_slow, and both positive");
    }
    if (base_ <= 1) rope_.fail("rope_theta", "must be above 1 with \"yarn\"");
    scaling_.truncate = rope_.boolean("truncate", true);
    const double length = std::log(scaling_.factor);
    const double scale = rope_.number("mscale", 0);
    const double scale_of_all = rope_.number("mscale_all_dim", 0);
    const bool both = scale != 0 && scale_of_all != 0;
    read_attention_factor(both ? (0.1 * scale * length + 1.0) / (0.1 * scale_of_all * length + 1.0)
                               : 0.1 * length + 1.0);
  }

  std::vector<double> read_factors(const char* key) {
    std::vector<double> factors = rope_.numbers(key);
    const auto wanted = static_cast<std::size_t>(config_.resolved_rotary_dim() / 2);
    if (factors.size() != wanted) {
      rope_.fail(key, "has " + std::to_string(factors.size()) + " numbers, want one for each of " +
                          std::to_string(wanted) + " turned pairs of a head");
    }
    if (std::ranges::any_of(factors, [](double factor) { return factor <= 0; })) {
      rope_.fail(key, "must be positive throughout");
    }
    return factors;
  }

  void read_longrope() {
    read_original();
    read_factor_of_lengths();
    scaling_.short_factors = read_factors("short_factor");
    scaling_.long_factors = read_factors("long_factor");
    const double original = static_cast<double>(scaling_.original_max_positions);
    if (original < 2) rope_.fail("original_max_position_embeddings", "must be at least 2");
    read_attention_factor(std::sqrt(1.0 + std::log(scaling_.factor) / std::log(original)));
  }

  ConfigReader& rope_;
  const DecoderConfig& config_;
  double base_;
  std::int64_t original_;
  RotaryScaling scaling_;
};

}  // namespace

RotaryScaling read_rotary_scaling(ConfigReader& rope, const DecoderConfig& config, double base,
                                  std::int64_t original_max_positions) {
  return ScalingReader(rope, config, base, original_max_positions).read();
}

RotaryScaling read_proportional_rotary(ConfigReader& rope) {
  RotaryScaling scaling;
  scaling.kind = Kind::kProportional;
  scaling.factor = rope.number("factor", 1.0);
  scaling.proportion = rope.number("partial_rotary_factor", 1.0);
  if (scaling.factor <= 0) rope.fail("factor", "must be positive");
  if (scaling.proportion < 0 || scaling.proportion > 1) {
    rope.fail("partial_rotary_factor", "must be 0 to 1");
  }
  rope.require("rope_type", "proportional");
  return scaling;
}

nlohmann::json write_rotary_scaling(const RotaryScaling& scaling) {
  nlohmann::json rope = {{"rope_type", name_of(scaling.kind)}};
  if (scaling.kind == Kind::kNone) return rope;
  rope["factor"] = scaling.factor;
  if (scaling.kind == Kind::kProportional) {
    rope["partial_rotary_factor"] = scaling.proportion;
    return rope;
  }
  if (scaling.kind == Kind::kLinear || scaling.kind == Kind::kDynamic) return rope;
  rope["original_max_position_embeddings"] = scaling.original_max_positions;
  if (scaling.kind == Kind::kLlama3) {
    rope["low_freq_factor"] = scaling.low_frequency_factor;
    rope["high_freq_factor"] = scaling.high_frequency_factor;
    return rope;
  }
  rope["attention_factor"] = scaling.attention_factor;
  if (scaling.kind == Kind::kLongRope) {
    rope["short_factor"] = scaling.short_factors;
    rope["long_factor"] = scaling.long_factors;
    return rope;
  }
  rope["beta_fast"] = scaling.beta_fast;
  rope["beta_slow"] = scaling.beta_slow;
  rope["truncate"] = scaling.truncate;
  return rope;
}

}  // namespace packtrain
