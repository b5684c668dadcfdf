#include "models/families/rotary_config.h"

#include <nlohmann/json.hpp>

#include "models/families/config_reader.h"

namespace packtrain {
namespace {

RotaryScaling read_scaling(ConfigReader& rope, const DecoderConfig& config) {
  RotaryScaling scaling;
  const std::string old_name = rope.text("type", "default");  // as rope_type was called once
  const std::string type = rope.text("rope_type", old_name);
  if (type == "default") {
    return scaling;
  }
  if (type != "linear" && type != "llama3") {
    rope.fail("rope_type", "is \"" + type + "\", want default, linear or llama3");
  }
  scaling.factor = rope.number("factor");
  if (scaling.factor <= 0) {
    rope.fail("factor", "must be positive");
  }
  if (type == "linear") {
    scaling.kind = RotaryScaling::Kind::kLinear;
    return scaling;
  }
  scaling.kind = RotaryScaling::Kind::kLlama3;
  scaling.low_frequency_factor = rope.number("low_freq_factor");
  scaling.high_frequency_factor = rope.number("high_freq_factor");
  scaling.original_max_positions =
      rope.integer("original_max_position_embeddings", config.max_positions);
  if (scaling.low_frequency_factor <= 0 ||
      scaling.high_frequency_factor <= scaling.low_frequency_factor) {
    rope.fail("high_freq_factor", "must be above low_freq_factor, and both positive");
  }
  return scaling;
}

}  // namespace

void read_rotary(ConfigReader& reader, DecoderConfig& config) {
  const double old_base = reader.number("rope_theta", 10000.0);
  const bool is_new = reader.has("rope_parameters");
  const bool is_old = reader.has("rope_scaling");
  ConfigReader rope = reader.object(is_new ? "rope_parameters" : "rope_scaling");
  config.rotary.base = rope.number("rope_theta", old_base);
  config.rotary.scaling = read_scaling(rope, config);
  rope.require("partial_rotary_factor", 1.0);
  rope.ignore({"type", "original_max_position_embeddings"});
  rope.finish();
  if (config.rotary.base <= 0) {
    reader.fail("rope_theta", "must be positive");
  }
  if (is_new && is_old) {  // we write both, for old and new readers: they must agree
    ConfigReader other = reader.object("rope_scaling");
    const RotaryScaling scaling = read_scaling(other, config);
    if (scaling != config.rotary.scaling ||
        other.number("rope_theta", config.rotary.base) != config.rotary.base) {
      reader.fail("rope_scaling", "and rope_parameters are both set and differ");
    }
  }
}

nlohmann::json write_rotary(const DecoderConfig& config) {
  const RotaryScaling& scaling = config.rotary.scaling;
  nlohmann::json rope = {{"rope_type", "default"}, {"rope_theta", config.rotary.base}};
  if (scaling.kind == RotaryScaling::Kind::kNone) {
    return rope;
  }
  rope["factor"] = scaling.factor;
  if (scaling.kind == RotaryScaling::Kind::kLinear) {
    rope["rope_type"] = "linear";
    return rope;
  }
  rope["rope_type"] = "llama3";
  rope["low_freq_factor"] = scaling.low_frequency_factor;
  rope["high_freq_factor"] = scaling.high_frequency_factor;
  rope["original_max_position_embeddings"] = scaling.original_max_positions;
  return rope;
}

}  // namespace packtrain
