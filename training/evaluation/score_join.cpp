#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>

#include "framework/core/safetensors.h"
#include "parallel/communicators/collectives.h"
#include "training/evaluation/score_parts.h"

namespace packtrain {
namespace {

// Writes a tensor of the parts, one part after the other.
void append_parts(SafetensorsWriter& writer, const std::string& tensor, const std::string& path,
                  const std::vector<ScorePart>& parts) {
  for (const ScorePart& part : parts) {
    const auto file = SafetensorsFile::open(score_part_name(path, part), ErrorCategory::kData);
    writer.append(file->tensor(tensor).data);
  }
}

// Writes the first value of each example, and the number of all.
void append_offsets(SafetensorsWriter& writer, std::int64_t num_examples,
                    const std::function<std::int64_t(std::int64_t)>& count) {
  constexpr std::int64_t kBlock = std::int64_t{1} << 16U;
  std::vector<std::int64_t> block;
  std::int64_t next = 0;
  for (std::int64_t e = 0; e <= num_examples; ++e) {
    block.push_back(next);
    if (e < num_examples) next += count(e);
    if (std::ssize(block) < kBlock && e < num_examples) continue;
    writer.append(std::as_bytes(std::span(block)));
    block.clear();
  }
}

// Wide types first, as write_safetensors() stores them.
std::vector<TensorHeader> tensors_of(const TokenStore& store, const CandidateTokens* candidates) {
  const std::int64_t num_examples = store.info().num_examples;
  const std::int64_t num_labels = store.info().num_loss_tokens;
  const std::int64_t num_candidates = candidates == nullptr ? 0 : candidates->offsets().back();
  std::vector<TensorHeader> tensors;
  const auto add = [&](const char* name, const char* of_candidates, DataType dtype,
                       std::int64_t count, std::int64_t candidate_count) {
    tensors.push_back({name, dtype, {count}});
    if (candidates != nullptr) tensors.push_back({of_candidates, dtype, {candidate_count}});
  };
  add("offsets", "candidate_offsets", DataType::kInt64, num_examples + 1, num_examples + 1);
  add("log_probs", "candidate_log_probs", DataType::kFloat32, num_labels, num_candidates);
  add("greedy", "candidate_greedy", DataType::kUInt8, num_labels, num_candidates);
  return tensors;
}

}  // namespace

void join_score_parts(const std::string& path, const std::vector<ScorePart>& parts,
                      const TokenStore& store, const CandidateTokens* candidates,
                      const ScoreIdentity& identity, Communicator& control) {
  run_on_first_rank(control, [&]() -> std::string {
    const std::int64_t num_examples = store.info().num_examples;
    const std::vector<TensorHeader> tensors = tensors_of(store, candidates);
    SafetensorsWriter writer(path + ".tmp", tensors, identity, ErrorCategory::kData);
    const ExampleCounts counts = store.num_loss_tokens();
    for (const TensorHeader& tensor : tensors) {
      if (tensor.name == "offsets") {
        append_offsets(writer, num_examples,
                       [&](std::int64_t e) { return counts[static_cast<std::size_t>(e)]; });
      } else if (tensor.name == "candidate_offsets") {
        append_offsets(writer, num_examples,
                       [&](std::int64_t e) { return std::ssize(candidates->of(e)); });
      } else {
        append_parts(writer, tensor.name, path, parts);
      }
    }
    writer.finish();
    put_score_file(path + ".tmp", path);
    for (const ScorePart& part : parts) std::filesystem::remove(score_part_name(path, part));
    return "";
  });
}

}  // namespace packtrain
