#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "framework/core/error.h"
#include "launch/cli/arguments.h"
#include "launch/cli/output.h"
#include "launch/cli/program.h"
#include "models/families/family.h"

namespace packtrain {
namespace {

struct PublishedModels {
  std::string_view model_type;
  std::string_view names;
};

constexpr std::array kPublished = {
    PublishedModels{"afmoe", "Trinity Nano and Mini"},
    PublishedModels{"apertus", "Apertus 8B and 70B"},
    PublishedModels{"arcee", "AFM-4.5B"},
    PublishedModels{"bamba", "Bamba-9B v1 and v2"},
    PublishedModels{"cohere", "Command R, Command R+, Aya 23 and Expanse"},
    PublishedModels{"cohere2", "Command R7B, Command A"},
    PublishedModels{"dbrx", "DBRX"},
    PublishedModels{"deepseek_v2", "DeepSeek-V2, V2-Lite, V2.5, Coder-V2"},
    PublishedModels{"deepseek_v3", "DeepSeek-V3, V3.1 and R1, Moonlight-16B-A3B"},
    PublishedModels{"dots1", "dots.llm1"},
    PublishedModels{"ernie4_5", "ERNIE 4.5 0.3B"},
    PublishedModels{"ernie4_5_moe", "ERNIE 4.5 21B-A3B and 300B-A47B"},
    PublishedModels{"exaone4", "EXAONE 4.0 1.2B and 32B"},
    PublishedModels{"exaone_moe", "K-EXAONE-236B-A23B"},
    PublishedModels{"falcon", "Falcon 7B, 11B, 40B and 180B"},
    PublishedModels{"falcon_h1", "Falcon-H1 0.5B to 34B"},
    PublishedModels{"flex_olmo", "FlexOlmo 7x7B"},
    PublishedModels{"gemma", "Gemma 2B and 7B"},
    PublishedModels{"gemma2", "Gemma 2 2B, 9B and 27B"},
    PublishedModels{"gemma3_text", "Gemma 3 1B, the text model of 4B, 12B and 27B"},
    PublishedModels{"gemma3n_text", "the text model of Gemma 3n E2B and E4B"},
    PublishedModels{"gemma4_text", "the text model of Gemma 4 E2B, E4B, 31B and 26B-A4B"},
    PublishedModels{"glm", "GLM-4-9B, GLM-Edge"},
    PublishedModels{"glm4", "GLM-4-9B-0414, GLM-4-32B-0414"},
    PublishedModels{"glm4_moe", "GLM-4.5, GLM-4.5-Air, GLM-4.6"},
    PublishedModels{"glm4_moe_lite", "GLM-4.7-Flash"},
    PublishedModels{"gpt2", "GPT-2 124M to 1.5B, DistilGPT2"},
    PublishedModels{"gpt_neox", "Pythia, GPT-NeoX-20B"},
    PublishedModels{"gpt_oss", "gpt-oss-20b and 120b"},
    PublishedModels{"granite", "Granite 3.x 2B and 8B"},
    PublishedModels{"granite_swa", "Granite Swash 2B"},
    PublishedModels{"granitemoe", "Granite 3.x 1B-A400M and 3B-A800M"},
    PublishedModels{"granitemoe_swa", "Granite Swash 3B-A600M"},
    PublishedModels{"granitemoehybrid", "Granite 4.0 H-Micro, H-Tiny, H-Small and Micro"},
    PublishedModels{"granitemoeshared", "Granite MoE with a shared expert"},
    PublishedModels{"helium", "Helium 1 2B"},
    PublishedModels{"hunyuan_v1_dense", "Hunyuan 0.5B, 1.8B, 4B and 7B"},
    PublishedModels{"hunyuan_v1_moe", "Hunyuan-A13B"},
    PublishedModels{"hy_v3", "Hy3"},
    PublishedModels{"hyperclovax", "HyperCLOVA X SEED Think 14B"},
    PublishedModels{"jais2", "Jais 2 8B and 70B"},
    PublishedModels{"lfm2", "LFM2 350M, 700M, 1.2B and 2.6B"},
    PublishedModels{"lfm2_moe", "LFM2-8B-A1B"},
    PublishedModels{"llama", "Llama 2, 3, 3.1, 3.2 and 3.3, SmolLM2, Vicuna"},
    PublishedModels{"llama4_text", "the text model of Llama 4 Scout and Maverick"},
    PublishedModels{"minimax_m2", "MiniMax-M2 and M2.1"},
    PublishedModels{"ministral3", "the text model of Ministral 3, Devstral 2"},
    PublishedModels{"mistral", "Mistral 7B, NeMo and Small 24B"},
    PublishedModels{"mixtral", "Mixtral 8x7B and 8x22B"},
    PublishedModels{"nemotron", "Nemotron-3-8B, Minitron 4B and 8B"},
    PublishedModels{"nemotron_h", "Nemotron-H 4B to 56B, Nemotron Nano 2, Nemotron 3 Nano 30B-A3B"},
    PublishedModels{"olmo", "OLMo 1B and 7B"},
    PublishedModels{"olmo2", "OLMo 2 1B, 7B, 13B and 32B"},
    PublishedModels{"olmo3", "OLMo 3 7B and 32B"},
    PublishedModels{"olmo_hybrid", "Olmo-Hybrid-7B"},
    PublishedModels{"olmoe", "OLMoE-1B-7B"},
    PublishedModels{"phi", "Phi-1, Phi-1.5, Phi-2"},
    PublishedModels{"phi3", "Phi-3 and 3.5 mini and medium, Phi-4, Phi-4-mini"},
    PublishedModels{"phimoe", "Phi-3.5-MoE"},
    PublishedModels{"qwen2", "Qwen2, Qwen2.5, QwQ, the text model of Qwen2.5-VL"},
    PublishedModels{"qwen2_moe", "Qwen1.5-MoE-A2.7B, Qwen2-57B-A14B"},
    PublishedModels{"qwen3", "Qwen3 0.6B to 32B, the text model of Qwen3-VL"},
    PublishedModels{"qwen3_5_text", "the text model of Qwen3.5 0.8B to 27B"},
    PublishedModels{"qwen3_5_moe_text",
                    "the text model of Qwen3.5-35B-A3B, 122B-A10B and 397B-A17B"},
    PublishedModels{"qwen3_moe", "Qwen3-30B-A3B and 235B-A22B, Qwen3-Coder"},
    PublishedModels{"qwen3_next", "Qwen3-Next-80B-A3B, Qwen3-Coder-Next"},
    PublishedModels{"seed_oss", "Seed-OSS-36B"},
    PublishedModels{"smollm3", "SmolLM3-3B"},
    PublishedModels{"solar_open", "Solar Open 100B"},
    PublishedModels{"stablelm", "StableLM 2 1.6B and 12B, StableLM-3B-4E1T"},
    PublishedModels{"starcoder2", "StarCoder2 3B, 7B and 15B"},
    PublishedModels{"vaultgemma", "VaultGemma 1B"},
    PublishedModels{"youtu", "Youtu-LLM-2B"},
};

std::string_view published_models(std::string_view model_type) {
  const auto* found = std::ranges::find(kPublished, model_type, &PublishedModels::model_type);
  if (found != kPublished.end()) return found->names;
  throw Error(ErrorCategory::kInternal,
              fmt::format("no published model is listed for the family '{}'", model_type),
              "Add a line to launch/cli/families.cpp.");
}

}  // namespace

int run_families(int argc, char** argv) {
  CLI::App app("Lists the families of models: model_type of config.json, and published models.",
               "packtrain families");
  bool as_json = false;
  app.add_flag("--json", as_json, "as one JSON object");
  if (!parse_arguments(app, argc, argv)) return 0;
  nlohmann::json document = nlohmann::json::object();
  std::string text = fmt::format("{:<18} {}\n", "model_type", "published models");
  for (const Family& family : families()) {
    document[family.model_type] = published_models(family.model_type);
    text += fmt::format("{:<18} {}\n", family.model_type, published_models(family.model_type));
  }
  print_result(as_json ? document.dump(2) + "\n" : text);
  return 0;
}

}  // namespace packtrain
