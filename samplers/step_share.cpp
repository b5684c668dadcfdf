#include "samplers/step_share.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "samplers/group_units.h"
#include "samplers/step_counts.h"

namespace packtrain {
namespace {

struct ShareUnit {
  std::size_t pack = 0;
  std::span<const Piece> pieces;
};

// A pack ends the units in it.
std::vector<ShareUnit> units_of_step(const StepPieces& step) {
  std::vector<ShareUnit> units;
  if (step.pack_begins.empty()) {
    for_each_unit(step.pieces, [&](std::span<const Piece> unit) { units.push_back({0, unit}); });
    return units;
  }
  for (std::size_t p = 0; p < step.num_packs(); ++p) {
    for_each_unit(step.pack(p), [&](std::span<const Piece> unit) { units.push_back({p, unit}); });
  }
  return units;
}

// The chosen units, by index.
std::vector<bool> choose(const std::vector<ShareUnit>& units, double share,
                         const CounterRandom& random) {
  std::vector<std::pair<std::uint64_t, std::size_t>> places;
  for (std::size_t u = 0; u < units.size(); ++u) {
    const Piece& first = units[u].pieces.front();
    const std::uint64_t token = (static_cast<std::uint64_t>(first.example) << 32U) +
                                static_cast<std::uint64_t>(first.begin);
    places.emplace_back(random.bits(token), u);
  }
  std::ranges::sort(places);
  const auto wanted = std::llround(share * static_cast<double>(units.size()));
  const std::size_t count = std::min(units.size(), static_cast<std::size_t>(std::max(1LL, wanted)));
  std::vector<bool> chosen(units.size(), false);
  for (std::size_t i = 0; i < count; ++i) chosen[places[i].second] = true;
  return chosen;
}

}  // namespace

StepPieces share_of(const StepPieces& step, double share, const CounterRandom& random) {
  const std::vector<ShareUnit> units = units_of_step(step);
  const std::vector<bool> chosen = choose(units, share, random);
  StepPieces result;
  std::size_t newest_pack = step.num_packs();  // of the unit before; none yet
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (!chosen[u]) continue;
    if (!step.pack_begins.empty() && units[u].pack != newest_pack) {
      result.pack_begins.push_back(result.pieces.size());
      newest_pack = units[u].pack;
    }
    result.pieces.insert(result.pieces.end(), units[u].pieces.begin(), units[u].pieces.end());
  }
  return result;
}

StepCounts share_counts(const Selection& selection, const LossCounter& counter,
                        const StepPieces& share) {
  StepPieces counted = share;
  counted.num_examples = std::ranges::count_if(share.pieces, counts_example);
  for (const Piece& piece : share.pieces) {
    counted.num_tokens += piece.length;
    if (!piece.with_previous) ++counted.num_groups;
    if (selection.units() == nullptr) {
      counted.num_loss_tokens += selection.num_loss_tokens(piece);
      continue;
    }
    const TokenStore& store = selection.units()->store();
    const auto example = static_cast<std::size_t>(piece.example);
    if (piece.is_prefix || !is_learned(store.groups()->role(piece.example))) continue;
    counted.num_loss_tokens += store.num_loss_tokens()[example];
  }
  return step_counts(selection, counter, counted);
}

}  // namespace packtrain
