#include "training/checkpoint/hf_quantization.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "framework/core/error.h"
#include "framework/core/logging.h"
#include "training/checkpoint/hf_block_fp8.h"
#include "training/checkpoint/hf_files.h"

namespace packtrain {
namespace {

// The quantization's name in config.json, or "".
std::string method_of(const std::string& config_json, const std::string& key) {
  const auto config = nlohmann::json::parse(config_json, nullptr, /*allow_exceptions=*/false);
  const auto& settings = config.at(key);
  const auto method = settings.is_object() ? settings.find("quant_method") : settings.end();
  const bool is_named = settings.is_object() && method != settings.end() && method->is_string();
  return is_named ? fmt::format(" (quant_method \"{}\")", method->get<std::string>()) : "";
}

std::optional<std::string> quantization_key(const std::string& config_json) {
  const auto config = nlohmann::json::parse(config_json, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object() || config.value("model_type", nlohmann::json()) == "gpt_oss") return {};
  for (const char* key : {"quantization_config", "compression_config"}) {
    const auto found = config.find(key);
    if (found != config.end() && !found->is_null() && !found->empty()) return key;
  }
  return {};
}

bool has_weights(const std::string& folder) {
  std::error_code ignored;
  const std::filesystem::path path = folder;
  return std::filesystem::exists(path / kHfWeightsName, ignored) ||
         std::filesystem::exists(path / kHfIndexName, ignored);
}

bool is_number(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kFloat16 || type == DataType::kBFloat16;
}

// Codes and scales of a tensor in NF4, which import reads.
bool is_nf4(const std::map<std::string, HfTensor>& tensors, const std::string& name) {
  if (name.ends_with(kNf4StateSuffix)) return true;
  const std::string state(kNf4StateSuffix);
  return tensors.contains(name + state) ||
         (name.ends_with(".absmax") && tensors.contains(name.substr(0, name.rfind('.')) + state));
}

// Returns why the weights are neither plain numbers, NF4 nor 8-bit floats in blocks, or "".
std::string find_code(const std::string& folder) {
  try {
    const auto tensors = open_hf_tensors(folder);
    for (const auto& [name, tensor] : tensors) {
      const bool is_code = is_nf4(tensors, name) || is_block_fp8(tensors, name);
      if (!is_number(tensor.view->dtype) && !is_code) {
        return fmt::format("tensor '{}' is not float32, float16 or bfloat16", name);
      }
    }
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

}  // namespace

void check_quantization(const std::string& folder, const std::string& config_json) {
  const auto key = quantization_key(config_json);
  if (!key) return;
  if (!has_weights(folder)) {
    return log_warning(
        "{}: '{}' in config.json, and no weights to judge it by: taken as a model "
        "of plain weights",
        folder, *key);
  }
  const std::string code = find_code(folder);
  if (code.empty()) return;
  throw Error(
      ErrorCategory::kConfig,
      fmt::format("{}: key '{}' of config.json says that the weights are quantized{}, and {}",
                  folder, *key, method_of(config_json, *key), code),
      "Quantized weights cannot be trained: use the unquantized model. packtrain decodes "
      "NF4 of bitsandbytes, and 8-bit floats in blocks of 128 x 128 (quant_method fp8). It "
      "reads neither NVFP4 nor compressed-tensors.");
}

}  // namespace packtrain
