#include "training/steps/example_loss_log.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <utility>

#include "framework/core/file.h"
#include "framework/data/group_format.h"

namespace packtrain {
namespace {

constexpr std::string_view kPrefix = "rank-";

std::string ledger_folder(const std::string& run_folder) {
  return run_folder + "/examples";
}

// 12 for "rank-12.jsonl".
std::optional<int> rank_of(const std::filesystem::path& file) {
  const std::string stem = file.stem().string();
  if (file.extension() != ".jsonl" || !stem.starts_with(kPrefix)) return std::nullopt;
  int rank = -1;
  const auto [end, error] =
      std::from_chars(stem.data() + kPrefix.size(), stem.data() + stem.size(), rank);
  if (error != std::errc() || end != stem.data() + stem.size()) return std::nullopt;
  return rank;
}

// "" in a store without groups.
std::string role_of(const TokenStore& store, std::int64_t example) {
  return store.groups() == nullptr ? "" : name_of(store.groups()->role(example));
}

// `role`: of the example in its group, or "". `losses`: of the piece's labels. `weights`: of their
// mask bytes; empty: all 1.
std::string ledger_line(std::int64_t step, std::size_t micro_batch, const ExampleOrigin& origin,
                        const Piece& piece, const std::string& role, std::span<const float> losses,
                        std::span<const float> weights) {
  const std::int32_t begin = piece.after_prefix ? 0 : piece.begin;
  nlohmann::ordered_json line = {{"step", step},
                                 {"micro_batch", micro_batch},
                                 {"store", origin.store},
                                 {"example", origin.example},
                                 {"repeat", origin.repeat},
                                 {"begin", begin},
                                 {"length", piece.begin + piece.length - begin},
                                 {"num_loss_tokens", losses.size()}};
  if (!role.empty()) line["role"] = role;
  line["loss"] = nullptr;
  auto weight = static_cast<double>(losses.size());
  if (!weights.empty()) {
    weight = std::accumulate(weights.begin(), weights.end(), 0.0);
    line["loss_weight"] = weight;
  }
  if (!losses.empty()) {
    const double sum =
        weights.empty()
            ? std::accumulate(losses.begin(), losses.end(), 0.0)
            : std::inner_product(losses.begin(), losses.end(), weights.begin(), 0.0, std::plus{},
                                 [](double loss, double of_row) { return loss * of_row; });
    line["loss"] = sum / weight;
  }
  return line.dump();
}

}  // namespace

ExampleLossLog::ExampleLossLog(const std::string& run_folder, int rank, std::int64_t first_step,
                               const TokenStore& store, Device& device)
    : store_(store),
      file_(
          ledger_folder(run_folder) + "/" + std::string(kPrefix) + std::to_string(rank) + ".jsonl",
          first_step),
      buffers_(device) {}

HostBuffer ExampleLossLog::fetch(const at::Tensor& row_losses) {
  const auto size = static_cast<std::size_t>(row_losses.numel()) * sizeof(float);
  HostBuffer buffer = buffers_.take(std::max(size, sizeof(float)));
  at::from_blob(buffer.data, row_losses.sizes(), at::kFloat)
      .copy_(row_losses, /*non_blocking=*/true);
  return buffer;
}

void ExampleLossLog::write(HostBuffer row_losses, std::int64_t step,
                           std::span<const PackedBatch> micro_batches) {
  const auto* next = reinterpret_cast<const float*>(row_losses.data);
  std::string lines;
  for (std::size_t m = 0; m < micro_batches.size(); ++m) {
    const PackedBatch& batch = micro_batches[m];
    std::span<const float> weights = batch.token_weight;
    for (std::size_t p = 0; p < batch.pieces.size(); ++p) {
      const Piece& piece = batch.pieces[p];
      const std::span losses(next, static_cast<std::size_t>(batch.num_piece_labels[p]));
      next += losses.size();
      const auto own = weights.first(std::min(weights.size(), losses.size()));
      weights = weights.subspan(own.size());
      if (piece.is_prefix) continue;  // the lines of its examples include it
      if (!lines.empty()) lines += '\n';
      lines += ledger_line(step, m, store_.origin(piece.example), piece,
                           role_of(store_, piece.example), losses, own);
    }
  }
  if (!lines.empty()) file_.append(lines);
  buffers_.release(std::move(row_losses));
}

void prepare_example_loss_logs(const std::string& run_folder, int num_ranks,
                               std::int64_t first_step) {
  const std::string folder = ledger_folder(run_folder);
  if (num_ranks > 0) make_folders(folder, ErrorCategory::kConfig);
  if (!std::filesystem::exists(folder)) return;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    const std::optional<int> rank = rank_of(file.path());
    if (rank && *rank >= num_ranks) truncate_after_step(file.path().string(), first_step);
  }
}

}  // namespace packtrain
