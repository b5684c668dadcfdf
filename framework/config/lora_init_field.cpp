// The kind of field of adapter.init.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "framework/config/field.h"
#include "framework/core/nearest.h"

namespace packtrain {
namespace {

constexpr std::string_view kPissaNiter = "pissa_niter_";
constexpr std::int64_t kMostIterations = 1000;

const Choices<LoraInit>& plain_inits() {
  static const Choices<LoraInit> inits = {{"default", {LoraInit::Kind::kDefault}},
                                          {"gaussian", {LoraInit::Kind::kGaussian}},
                                          {"pissa", {LoraInit::Kind::kPissa}},
                                          {"loftq", {LoraInit::Kind::kLoftq}}};
  return inits;
}

std::optional<LoraInit> parse_lora_init(std::string_view text) {
  const auto& inits = plain_inits();
  const auto plain = std::ranges::find(inits, text, &std::pair<std::string, LoraInit>::first);
  if (plain != inits.end()) return plain->second;
  if (!text.starts_with(kPissaNiter)) return std::nullopt;
  LoraInit init{LoraInit::Kind::kPissaNiter};
  const char* end = text.data() + text.size();
  const auto [stop, error] =
      std::from_chars(text.data() + kPissaNiter.size(), end, init.num_iterations);
  const bool is_number = error == std::errc{} && stop == end;
  if (!is_number || init.num_iterations < 0 || init.num_iterations > kMostIterations) {
    return std::nullopt;
  }
  return init;
}

std::string lora_init_text(const LoraInit& init) {
  if (init.kind == LoraInit::Kind::kPissaNiter) {
    return std::string(kPissaNiter) + std::to_string(init.num_iterations);
  }
  return std::ranges::find(plain_inits(), init, &std::pair<std::string, LoraInit>::second)->first;
}

}  // namespace

Field lora_init(const char* name, LoraInit& member) {
  std::vector<std::string> names;
  for (const auto& [text, init] : plain_inits()) names.push_back(text);
  const std::string wanted = one_of(names) + ", or pissa_niter_N with N from 0 to 1000";
  const auto read = [=, &member](const Setting& setting) {
    if (!setting.value.is_string()) reject(setting, wanted);
    const auto text = setting.value.get<std::string>();
    const std::optional<LoraInit> init = parse_lora_init(text);
    if (init) {
      member = *init;
      return;
    }
    const std::optional<std::string> near = nearest_name(text, names);
    reject(setting, wanted, near ? "Did you mean " + *near + "?" : "");
  };
  const auto write = [&member] { return lora_init_text(member); };
  return {.name = name, .wanted = wanted, .read = read, .write = write, .choices = names};
}

}  // namespace packtrain
