#include "models/families/activation_config.h"

#include <algorithm>
#include <array>

#include "models/families/config_reader.h"

namespace packtrain {
namespace {

struct Name {
  const char* name;
  ActivationKind kind;
};
// The first name of a kind is the one that is written.
constexpr std::array kNames = {Name{"silu", ActivationKind::kSilu},
                               Name{"swish", ActivationKind::kSilu},
                               Name{"gelu", ActivationKind::kGeluErf},
                               Name{"gelu_pytorch_tanh", ActivationKind::kGeluTanh},
                               Name{"gelu_new", ActivationKind::kGeluTanh},
                               Name{"gelu_fast", ActivationKind::kGeluTanh}};

}  // namespace

ActivationKind read_activation(ConfigReader& reader, const std::string& key,
                               const std::string& fallback) {
  const std::string name = reader.text(key, fallback);
  const auto* found =
      std::ranges::find_if(kNames, [&](const Name& known) { return name == known.name; });
  if (found == kNames.end()) {
    reader.reject(key, "is \"" + name + "\", want silu, gelu or gelu_pytorch_tanh");
    return ActivationKind::kSilu;  // a placeholder: finish() throws
  }
  return found->kind;
}

std::string activation_name(ActivationKind kind) {
  const auto* found = std::ranges::find(kNames, kind, &Name::kind);
  return found == kNames.end() ? "" : found->name;
}

}  // namespace packtrain
