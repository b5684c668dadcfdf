#include "training/evaluation/score_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/hash.h"
#include "framework/core/logging.h"
#include "framework/core/safetensors.h"
#include "parallel/communicators/collectives.h"
#include "training/evaluation/score_values.h"

namespace packtrain {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFirstKey = "first_example";
constexpr const char* kEndKey = "end_example";
constexpr const char* kLossKey = "loss_sum";
constexpr const char* kWeightKey = "loss_weight";
constexpr const char* kDigestKey = "digest";

std::string digest_of(const std::map<std::string, std::span<const std::byte>>& tensors) {
  Hasher hasher;
  for (const auto& [name, data] : tensors) hasher.update(data);
  return hasher.hex();
}

// Digits of a double that read back as the same one.
std::string exact(double value) {
  return nlohmann::json(value).dump();
}

// A part that can be used, or nothing for a damaged one. Throws for another identity.
std::optional<ScorePart> read_part(const std::string& name, const ScoreIdentity& identity) {
  std::shared_ptr<const SafetensorsFile> file;
  try {
    file = SafetensorsFile::open(name, ErrorCategory::kData);
  } catch (const Error&) {
    return {};
  }
  check_identity(name, *file, identity);
  std::map<std::string, std::span<const std::byte>> tensors;
  for (const auto& [tensor, view] : file->tensors()) tensors.emplace(tensor, view.data);
  const auto& found = file->metadata();
  const auto digest = found.find(kDigestKey);
  if (digest == found.end() || digest->second != digest_of(tensors)) return {};
  try {
    return ScorePart{std::stoll(found.at(kFirstKey)), std::stoll(found.at(kEndKey)),
                     std::stod(found.at(kLossKey)), std::stod(found.at(kWeightKey))};
  } catch (const std::exception&) {
    return {};
  }
}

std::vector<std::string> part_names(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  const std::string begin = fs::path(path).filename().string() + kScorePartMark;
  std::vector<std::string> names;
  std::error_code fault;
  for (const auto& entry : fs::directory_iterator(folder.empty() ? "." : folder, fault)) {
    if (entry.path().filename().string().starts_with(begin)) {
      names.push_back((folder / entry.path().filename()).string());
    }
  }
  std::ranges::sort(names);
  return names;
}

std::vector<ScorePart> usable_parts(const std::string& path, const ScoreIdentity& identity) {
  std::map<std::int64_t, std::pair<ScorePart, std::string>> by_first;
  for (const std::string& name : part_names(path)) {
    const auto part = read_part(name, identity);
    if (part && part->end > part->first) {
      by_first.emplace(part->first, std::pair{*part, name});
      continue;
    }
    log_warning("{}: is damaged or incomplete: its examples are scored again", name);
    fs::remove(name);
  }
  std::vector<ScorePart> parts;
  std::int64_t next = 0;
  for (const auto& [first, found] : by_first) {
    if (first == next) {
      parts.push_back(found.first);
      next = found.first.end;
    } else {
      fs::remove(found.second);
    }
  }
  return parts;
}

std::string text_of(const std::vector<ScorePart>& parts) {
  nlohmann::json json = nlohmann::json::array();
  for (const ScorePart& part : parts) {
    json.push_back({part.first, part.end, part.loss_sum, part.loss_weight});
  }
  return json.dump();
}

std::vector<ScorePart> parts_in(const std::string& text) {
  std::vector<ScorePart> parts;
  for (const auto& one : nlohmann::json::parse(text)) {
    parts.push_back({one[0], one[1], one[2], one[3]});
  }
  return parts;
}

}  // namespace

std::string score_part_name(const std::string& path, const ScorePart& part) {
  return fmt::format("{}{}{}-{}", path, kScorePartMark, part.first, part.end);
}

std::vector<ScorePart> find_score_parts(const std::string& path, const ScoreIdentity& identity,
                                        Communicator& control) {
  return parts_in(
      run_on_first_rank(control, [&] { return text_of(usable_parts(path, identity)); }));
}

void write_score_part(const std::string& path, const ScorePart& part, const TokenStore& store,
                      const TokenScores& scores, const ScoreIdentity& identity,
                      Communicator& control) {
  ScoreValues labels(control);
  ScoreValues candidates(control);
  const ExampleCounts counts = store.num_loss_tokens();
  for (std::int64_t e = part.first; e < part.end; ++e) {
    labels.add(scores.of_labels(e), counts[static_cast<std::size_t>(e)]);
    if (scores.candidates() != nullptr)
      candidates.add(scores.of_candidates(e), std::ssize(scores.candidates()->of(e)));
  }
  labels.exchange();
  candidates.exchange();
  run_on_first_rank(control, [&]() -> std::string {
    std::vector<TensorToWrite> tensors;
    labels.add_to(tensors, "");
    if (scores.candidates() != nullptr) candidates.add_to(tensors, "candidate_");
    std::map<std::string, std::span<const std::byte>> data;
    for (const TensorToWrite& tensor : tensors) data.emplace(tensor.name, tensor.data);
    ScoreIdentity metadata = identity;
    metadata[kFirstKey] = std::to_string(part.first);
    metadata[kEndKey] = std::to_string(part.end);
    metadata[kLossKey] = exact(part.loss_sum);
    metadata[kWeightKey] = exact(part.loss_weight);
    metadata[kDigestKey] = digest_of(data);
    const std::string folder = fs::path(path).parent_path().string();
    if (!folder.empty()) make_folders(folder, ErrorCategory::kData);
    write_safetensors(path + ".tmp", tensors, metadata, ErrorCategory::kData);
    put_score_file(path + ".tmp", score_part_name(path, part));
    return "";
  });
}

}  // namespace packtrain
