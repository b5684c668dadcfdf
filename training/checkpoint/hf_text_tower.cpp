#include "training/checkpoint/hf_text_tower.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "framework/core/error.h"
#include "models/families/family.h"

namespace packtrain {
namespace {

constexpr const char* kHeads = "lm_head.";

// The parameter's tensor name without the family's prefix.
std::string bare_name(const std::vector<WeightPiece>& pieces, const std::string& parameter,
                      const std::string& prefix) {
  const auto piece = std::ranges::find(pieces, parameter, &WeightPiece::parameter);
  if (piece == pieces.end()) return "";
  const std::string& name = piece->hf_name;
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

// Whether `name` is equal to `whole`, or follows a point at its end.
bool ends_in_name(const std::string& whole, const std::string& name) {
  return whole == name || whole.ends_with("." + name);
}

std::vector<std::string> places_of(const HfTensors& tensors, const std::string& embedding,
                                   const std::string& norm) {
  std::vector<std::string> places;
  for (const auto& [name, tensor] : tensors) {
    if (!ends_in_name(name, embedding)) continue;
    std::string place = name.substr(0, name.size() - embedding.size());
    if (norm.empty() || tensors.contains(place + norm)) places.push_back(std::move(place));
  }
  return places;
}

bool has_head(const HfTensors& tensors, const std::string& before) {
  return tensors.contains(before + kHeads + "weight");
}

}  // namespace

HfTensors without_prefix(const HfTensors& tensors, const std::string& prefix,
                         const std::string& folder) {
  HfTensors renamed;
  for (const auto& [name, tensor] : tensors) {
    if (!name.starts_with(prefix) || name.size() == prefix.size()) {
      throw Error(ErrorCategory::kCheckpoint,
                  fmt::format("{}: tensor '{}' does not begin with model.prefix '{}'", folder, name,
                              prefix),
                  "model.prefix is what all tensors begin with: correct it, or remove it.");
    }
    renamed[name.substr(prefix.size())] = tensor;
  }
  return renamed;
}

TextTower::TextTower(const HfTensors& tensors, const DecoderConfig& config,
                     const std::string& folder)
    : prefix_(find_family(config.family).prefix) {
  const std::vector<WeightPiece> pieces = weight_layouts(config).front();
  const std::string embedding = bare_name(pieces, "embed.weight", prefix_);
  const auto places =
      places_of(tensors, embedding, bare_name(pieces, "final_norm.weight", prefix_));
  if (places.size() != 1) {
    throw Error(
        ErrorCategory::kCheckpoint,
        fmt::format("{}: has {} text models ('...{}'), want one{}", folder, places.size(),
                    embedding, places.empty() ? "" : fmt::format(": {}", fmt::join(places, ", "))),
        "Its config.json and its weights do not belong together.");
  }
  body_ = places.front();
  // The head of "language_model.model." is next to it: "language_model.lm_head.weight".
  const bool has_prefix = ends_in_name(body_, prefix_);
  const std::string outer_prefix = has_prefix ? body_.substr(0, body_.size() - prefix_.size()) : "";
  head_ = has_head(tensors, "") && !has_head(tensors, outer_prefix) ? "" : outer_prefix;
  const std::string heads = head_ + kHeads;
  for (const auto& [name, tensor] : tensors) {
    if (name.starts_with(heads)) {
      text_[name.substr(head_.size())] = tensor;
    } else if (name.starts_with(body_)) {
      text_[prefix_ + name.substr(body_.size())] = tensor;
    } else {
      others_[name] = tensor;
    }
  }
}

std::string TextTower::folder_name(const std::string& name) const {
  return name.starts_with(prefix_) ? body_ + name.substr(prefix_.size()) : head_ + name;
}

}  // namespace packtrain
