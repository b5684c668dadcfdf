#include "models/families/phi.h"

#include <nlohmann/json.hpp>

#include "models/families/llama_layout.h"
#include "models/families/plain_layout.h"
#include "models/families/rotary_config.h"

namespace packtrain {
namespace {

constexpr LlamaLayout kLayoutOfPhi = {.epsilon = 1e-5,
                                      .epsilon_key = "layer_norm_eps",
                                      .activation = "gelu_new",
                                      .gated = false,
                                      .rotary = {.partial_factor = 0.5}};

DecoderConfig parse_phi(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "phi";
  config.norm.kind = NormKind::kLayer;
  config.norm.has_bias = true;
  config.residual = ResidualKind::kParallel;
  config.qkv_bias = true;
  config.attention_output_bias = true;
  config.mlp_bias = true;
  config.head_bias = true;
  read_llama_layout(reader, config, kLayoutOfPhi);
  reader.require("qk_layernorm", false);
  reader.finish(other_names(config));
  return config;
}

std::vector<WeightPiece> weights_of_phi(const DecoderConfig& config) {
  return plain_layout_weights(
      config, {"self_attn.dense", "mlp.fc1", "mlp.fc2", /*final_norm=*/"final_layernorm"});
}

nlohmann::json write_phi(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json["architectures"] = {"PhiForCausalLM"};
  json["model_type"] = "phi";
  json.erase("rms_norm_eps");
  json["layer_norm_eps"] = config.norm.epsilon;
  if (config.activation.kind == ActivationKind::kGeluTanh) json["hidden_act"] = "gelu_new";
  json["partial_rotary_factor"] = partial_rotary_factor(config);
  json["qk_layernorm"] = false;
  json["resid_pdrop"] = 0.0;
  json["embd_pdrop"] = 0.0;
  return json;
}

}  // namespace

Family phi_family() {
  return {"phi", parse_phi, weights_of_phi, write_phi};
}

}  // namespace packtrain
