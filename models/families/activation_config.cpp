#include "models/families/activation_config.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "models/families/config_reader.h"

namespace packtrain {
namespace {

constexpr std::string_view kSquaredReluName = "relu2";

struct Name {
  std::string_view name;
  ActivationKind kind;
};
// The first name of a kind is the one that is written.
constexpr std::array kNames = {Name{"silu", ActivationKind::kSilu},
                               Name{"swish", ActivationKind::kSilu},
                               Name{"gelu", ActivationKind::kGeluErf},
                               Name{"gelu_pytorch_tanh", ActivationKind::kGeluTanh},
                               Name{"gelu_new", ActivationKind::kGeluTanh},
                               Name{"gelu_fast", ActivationKind::kGeluTanh},
                               Name{kSquaredReluName, ActivationKind::kSquaredRelu}};

}  // namespace

ActivationKind read_activation(ConfigReader& reader, const std::string& key,
                               const std::string& fallback) {
  const std::string name = reader.text(key, fallback);
  const auto* found =
      std::ranges::find_if(kNames, [&](const Name& known) { return name == known.name; });
  const bool is_own = name == fallback || name != kSquaredReluName;
  if (found == kNames.end() || !is_own) {
    reader.reject(key, "is \"" + name + "\", want silu, gelu or gelu_pytorch_tanh");
    return ActivationKind::kSilu;  // a placeholder: finish() throws
  }
  return found->kind;
}

std::string activation_name(ActivationKind kind) {
  const auto* found = std::ranges::find(kNames, kind, &Name::kind);
  return found == kNames.end() ? "" : std::string(found->name);
}

}  // namespace packtrain
