// The value of memory.recompute, and its text in configurations and plan headers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace packtrain {

enum class Recompute { kNone, kSelective, kFull };
// Backward recomputes `first` in the first `num_first` layers, and `rest` in the others.
struct RecomputeByLayer {
  constexpr RecomputeByLayer() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): one value is that of all layers.
  constexpr RecomputeByLayer(Recompute all) : rest(all) {}
  constexpr RecomputeByLayer(Recompute of_first, std::int64_t num, Recompute of_rest,
                             std::int64_t rows = 0)
      : rest(of_rest), first(of_first), num_first(num), num_rows(rows) {}

  Recompute rest = Recompute::kNone;
  Recompute first = Recompute::kNone;
  std::int64_t num_first = 0;
  // The layers are those of num_rows rows. Smaller micro-batches recompute in fewer, as many as
  // need no more memory (training/setup/adaptive_recompute.h). 0: all recompute the same.
  std::int64_t num_rows = 0;

  friend bool operator==(const RecomputeByLayer&, const RecomputeByLayer&) = default;
};

// "none", "selective", "full", or for the first layers and the rest: "full:20+selective". A rest of
// none is left out: "selective:12". Rows follow an @: "selective:12@16384".
std::string recompute_text(const RecomputeByLayer& recompute);

// The values in the order of the memory that they save. First norms and activation functions are
// recomputed in more and more of the first layers, then whole layers.
std::vector<RecomputeByLayer> recompute_steps(std::int64_t num_layers);

// Reads such a text. Nothing when it is none: a number of layers is at least 1 and has at most 4
// digits. With rows it is one of recompute_steps(): only those have an order.
std::optional<RecomputeByLayer> parse_recompute(std::string_view text);

// "none", "selective", "full"
std::vector<std::string> recompute_names();

}  // namespace packtrain
