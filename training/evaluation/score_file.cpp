#include "training/evaluation/score_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <system_error>
#include <vector>

#include "framework/core/descriptor.h"
#include "framework/core/error.h"
#include "framework/core/file.h"
#include "framework/core/safetensors.h"
#include "parallel/communicators/collectives.h"

namespace packtrain {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kChunkTokens = std::int64_t{1} << 20;  // that ranks exchange together

// The values of some examples, zeros for those of other ranks.
struct ScoreChunk {
  std::vector<float> log_probs;
  std::vector<std::int32_t> greedy;

  void add(const ExampleScores& scores, std::int64_t count) {
    log_probs.insert(log_probs.end(), scores.log_probs.begin(), scores.log_probs.end());
    greedy.insert(greedy.end(), scores.greedy.begin(), scores.greedy.end());
    const auto missing = static_cast<std::size_t>(count) - scores.log_probs.size();
    log_probs.insert(log_probs.end(), missing, 0.0F);
    greedy.insert(greedy.end(), missing, 0);
  }
  // A sum of one value and zeros is that value.
  void sum_over(Communicator& control) {
    control.all_reduce(log_probs.data(), log_probs.size(), DataType::kFloat32, ReduceOp::kSum,
                       nullptr);
    control.all_reduce(greedy.data(), greedy.size(), DataType::kInt32, ReduceOp::kSum, nullptr);
  }
};

// Values of all examples, on rank 0.
class AllScores {
 public:
  explicit AllScores(Communicator& control) : control_(control) {}

  void add(const ExampleScores& own, std::int64_t count) {
    chunk_.add(own, count);
    offsets_.push_back(offsets_.back() + count);
    if (std::ssize(chunk_.log_probs) >= kChunkTokens) exchange();
  }
  void exchange() {
    if (chunk_.log_probs.empty()) return;
    chunk_.sum_over(control_);
    if (control_.rank() == 0) {
      log_probs_.insert(log_probs_.end(), chunk_.log_probs.begin(), chunk_.log_probs.end());
      greedy_.insert(greedy_.end(), chunk_.greedy.begin(), chunk_.greedy.end());
    }
    chunk_ = {};
  }
  // Tensors PREFIXoffsets, PREFIXlog_probs and PREFIXgreedy, valid as long as this object.
  void add_to(std::vector<TensorToWrite>& tensors, const std::string& prefix) const {
    const auto add_one = [&](const char* name, DataType dtype, const auto& values) {
      tensors.push_back(
          {prefix + name, dtype, {std::ssize(values)}, std::as_bytes(std::span(values))});
    };
    add_one("offsets", DataType::kInt64, offsets_);
    add_one("log_probs", DataType::kFloat32, log_probs_);
    add_one("greedy", DataType::kUInt8, greedy_);
  }

 private:
  Communicator& control_;
  ScoreChunk chunk_;
  std::vector<std::int64_t> offsets_ = {0};
  std::vector<float> log_probs_;
  std::vector<std::uint8_t> greedy_;
};

void write(const std::string& path, std::span<const TensorToWrite> tensors,
           const ScoreIdentity& identity) {
  const std::string folder = fs::path(path).parent_path().string();
  if (!folder.empty()) make_folders(folder, ErrorCategory::kData);
  const std::string unfinished = path + ".tmp";
  write_safetensors(unfinished, tensors, identity, ErrorCategory::kData);
  std::error_code fault;
  fs::rename(unfinished, path, fault);
  if (fault) fail_on(path, "rename", fault.value(), ErrorCategory::kData);
  sync_folder(folder.empty() ? "." : folder, ErrorCategory::kData);
}

}  // namespace

std::string scored_data(const TokenStore& store) {
  const std::string content = store.content_digest();
  return content.empty() ? store.fingerprint() : content;
}

bool has_scores(const std::string& path, const ScoreIdentity& identity, Communicator& control) {
  const auto look = [&]() -> std::string {
    if (!fs::exists(path)) return "";
    const auto file = SafetensorsFile::open(path, ErrorCategory::kData);
    for (const auto& [key, wanted] : identity) {
      const auto found = file->metadata().find(key);
      const std::string got = found == file->metadata().end() ? "" : found->second;
      if (got == wanted) continue;
      throw Error(
          ErrorCategory::kData,
          fmt::format("{}: exists with another {}: got '{}', wanted '{}'", path, key, got, wanted),
          "Give another --out, or remove the file.");
    }
    return "same";
  };
  return !run_on_first_rank(control, look).empty();
}

void write_scores(const std::string& path, const TokenStore& store, const TokenScores& scores,
                  const ScoreIdentity& identity, Communicator& control) {
  AllScores labels(control);
  AllScores candidates(control);
  const ExampleCounts counts = store.num_loss_tokens();
  for (std::int64_t e = 0; e < store.info().num_examples; ++e) {
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
    write(path, tensors, identity);
    return "";
  });
}

}  // namespace packtrain
