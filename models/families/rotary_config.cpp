#include "models/families/rotary_config.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "models/families/config_reader.h"
#include "models/families/rotary_scaling.h"

namespace packtrain {
namespace {

void set_rotary_dim(double factor, ConfigReader& reader, DecoderConfig& config) {
  if (factor <= 0 || factor > 1) {
    reader.fail("partial_rotary_factor", "must be above 0 and at most 1");
  }
  const auto dim = static_cast<std::int64_t>(static_cast<double>(config.head_dim) * factor);
  if (dim < 2 || dim % 2 != 0) {
    reader.fail("partial_rotary_factor",
                "makes " + std::to_string(dim) + " of the " + std::to_string(config.head_dim) +
                    " elements of a head turn, want an even number (they turn in pairs)");
  }
  config.rotary_dim = dim == config.head_dim ? 0 : dim;
}

double read_base(ConfigReader& reader, const char* key, double fallback) {
  const double base = reader.number(key, fallback);
  if (base <= 0) reader.fail(key, "must be positive");
  return base;
}

// Reads one object of rotary parameters. `original` is RotaryDefaults::original_max_positions.
RotaryConfig read_object(ConfigReader& rope, const DecoderConfig& config, double base,
                         std::int64_t original) {
  RotaryConfig rotary;
  rotary.base = read_base(rope, "rope_theta", base);
  rotary.scaling = read_rotary_scaling(rope, config, rotary.base, original);
  rope.ignore({"type", "original_max_position_embeddings"});
  return rotary;
}

void read_temperature(ConfigReader& rope, DecoderConfig& config) {
  config.query_temperature = {.beta = rope.number("llama_4_scaling_beta"),
                              .num_positions = rope.integer("original_max_position_embeddings")};
  if (config.query_temperature.beta < 0) {
    rope.fail("llama_4_scaling_beta", "must not be negative");
  }
  rope.ignore({"max_position_embeddings"});  // the same as outside
}

// The two factors are of short and of long examples.
void read_length_factors(ConfigReader& rope, RotaryScaling& scaling) {
  if (scaling.kind == RotaryScaling::Kind::kNone) {
    rope.ignore({"short_mscale", "long_mscale"});
    return;
  }
  rope.integer("original_max_position_embeddings");
  rope.require("original_max_position_embeddings", scaling.original_max_positions);
  scaling.attention_factor = rope.number("short_mscale");
  if (scaling.attention_factor <= 0) rope.fail("short_mscale", "must be positive");
  if (const double factor = rope.number("long_mscale"); factor != scaling.attention_factor) {
    rope.reject("long_mscale", "differs from short_mscale, which is not computed");
  }
}

// Returns false where the object has no alpha, or another type.
bool read_base_of_alpha(ConfigReader& rope, double base, DecoderConfig& config) {
  const double alpha = rope.number_or_none("alpha", 0);
  const std::string type = rope.text("rope_type", rope.text("type", "default"));
  if (alpha == 0 || type != "dynamic") return false;
  if (alpha < 0) rope.fail("alpha", "must be positive");
  if (config.head_dim < 4) rope.fail("alpha", "needs heads of 4 elements or more");
  const auto dim = static_cast<double>(config.head_dim);
  config.rotary = {.base = read_base(rope, "rope_theta", base) * std::pow(alpha, dim / (dim - 2))};
  // The models' own code reads none of these with alpha.
  rope.ignore({"factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim",
               "original_max_position_embeddings"});
  return true;
}

// rope_parameters or rope_scaling of a family whose layers all rotate equally.
struct Layout {
  const RotaryDefaults& defaults;
  double base;
  std::int64_t original;
};

void read_layout(ConfigReader& reader, const char* key, const Layout& layout,
                 DecoderConfig& config) {
  ConfigReader rope = reader.object(key);
  if (layout.defaults.partial_factor) {
    const double factor = reader.number("partial_rotary_factor", *layout.defaults.partial_factor);
    set_rotary_dim(rope.number("partial_rotary_factor", factor), rope, config);
  } else {
    rope.require("partial_rotary_factor", 1.0);
  }
  const bool is_read =
      layout.defaults.dynamic_alpha && read_base_of_alpha(rope, layout.base, config);
  if (!is_read) config.rotary = read_object(rope, config, layout.base, layout.original);
  const bool is_yarn = config.rotary.scaling.kind == RotaryScaling::Kind::kYarn;
  if (layout.defaults.scores_mscale && is_yarn) {
    config.latent.mscale_all_dim = rope.number("mscale_all_dim", 0);
  }
  if (layout.defaults.position_parts) rope.ignore({"mrope_section", "mrope_interleaved"});
  if (layout.defaults.query_temperature) read_temperature(rope, config);
  if (layout.defaults.length_factors) read_length_factors(rope, config.rotary.scaling);
  rope.finish();
}

nlohmann::json write_object(const RotaryConfig& rotary, const DecoderConfig& config) {
  nlohmann::json rope = write_rotary_scaling(rotary.scaling);
  rope["rope_theta"] = rotary.base;
  if (config.has_latent_attention()) {
    if (config.latent.mscale_all_dim != 0) rope["mscale_all_dim"] = config.latent.mscale_all_dim;
  } else if (config.rotary_dim != 0) {
    rope["partial_rotary_factor"] = partial_rotary_factor(config);
  }
  return rope;
}

}  // namespace

void read_rotary(ConfigReader& reader, DecoderConfig& config, const RotaryDefaults& defaults) {
  const double old_base = read_base(reader, "rope_theta", defaults.base);
  const std::int64_t original =
      reader.integer("original_max_position_embeddings",
                     std::max<std::int64_t>(defaults.original_max_positions, 1));
  const bool has_original =
      defaults.original_max_positions > 0 || reader.has("original_max_position_embeddings");
  const bool is_new = reader.has("rope_parameters");
  const bool is_old = reader.has("rope_scaling");
  const Layout layout{defaults, old_base, has_original ? original : 0};
  read_layout(reader, is_new ? "rope_parameters" : "rope_scaling", layout, config);
  if (!is_new || !is_old) return;
  // Export writes both, for old and new readers. transformers reads only rope_scaling then.
  DecoderConfig other = config;
  read_layout(reader, "rope_scaling", layout, other);
  if (other != config) reader.reject("rope_scaling", "and rope_parameters are both set and differ");
}

void read_layered_rotary(ConfigReader& reader, DecoderConfig& config, double base,
                         double local_base, const char* local_key) {
  const double old_base = read_base(reader, "rope_theta", base);
  const double old_local =
      local_key != nullptr ? read_base(reader, local_key, local_base) : local_base;
  ConfigReader rope = reader.object("rope_parameters");
  ConfigReader full = rope.object("full_attention");
  ConfigReader sliding = rope.object("sliding_attention");
  const bool has_scaling = reader.has("rope_scaling");
  for (ConfigReader* object : {&full, &sliding}) {
    object->require("partial_rotary_factor", 1.0);
    object->require("truncate", true);  // transformers reads it one level up, where it is not set
  }
  config.rotary = read_object(full, config, old_base, 0);
  config.local_rotary = read_object(sliding, config, old_local, 0);
  full.finish();
  sliding.finish();
  rope.finish();
  if (!has_scaling) return;
  ConfigReader old = reader.object("rope_scaling");
  old.require("truncate", true);
  const RotaryConfig scaled = read_object(old, config, config.rotary.base, 0);
  if (scaled.scaling.kind != RotaryScaling::Kind::kNone && !old.has("rope_type")) {
    old.reject("type", "is not what transformers goes by in this family: call it rope_type");
  }
  old.finish();
  if (rope.has("full_attention") && scaled != config.rotary) {
    reader.reject("rope_scaling", "and rope_parameters are both set and differ");
  }
  config.rotary = scaled;
}

nlohmann::json write_rotary(const DecoderConfig& config) {
  return write_object(config.rotary, config);
}

nlohmann::json write_layered_rotary(const DecoderConfig& config) {
  return {{"full_attention", write_object(config.rotary, config)},
          {"sliding_attention", write_object(config.local_rotary, config)}};
}

nlohmann::json write_rope_scaling(const DecoderConfig& config) {
  const bool is_scaled = config.rotary.scaling.kind != RotaryScaling::Kind::kNone;
  return is_scaled ? write_rotary(config) : nlohmann::json(nullptr);
}

double partial_rotary_factor(const DecoderConfig& config) {
  const auto head_dim = static_cast<double>(config.head_dim);
  const double factor = static_cast<double>(config.resolved_rotary_dim()) / head_dim;
  const bool exact = static_cast<std::int64_t>(head_dim * factor) == config.resolved_rotary_dim();
  return exact ? factor : std::nextafter(factor, std::numeric_limits<double>::infinity());
}

}  // namespace packtrain
