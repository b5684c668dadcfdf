#include <fmt/format.h>

#include "framework/config/offload.h"
#include "framework/config/recompute.h"
#include "framework/core/units.h"
#include "training/plan/memory_fit.h"

namespace packtrain {

std::string settings_text(const MemorySettings& settings) {
  return fmt::format(
      "memory.recompute={} parallel.gather_slots={} batch.max_tokens_per_micro_batch={}{}",
      recompute_text(settings.recompute), settings.gather_slots, settings.max_tokens,
      settings.offload == Offload::kNone ? ""
                                         : " memory.offload=" + offload_text(settings.offload));
}

std::string choice_text(const MemoryChoice& choice, const MemoryLimit& limit) {
  const FitCandidate& chosen = choice.chosen;
  std::string text = fmt::format("memory.fit: {}\n  planned {:.4g} of {:.4g} GiB ({})",
                                 settings_text(chosen.settings), to_gibibytes(chosen.bytes),
                                 to_gibibytes(limit.bytes), limit.basis);
  if (!choice.next) return text + "; nothing else fits";
  const double more = 100 * (choice.next->seconds / chosen.seconds - 1);
  return text + fmt::format("\n  next: {}, planned {:.4g} GiB, estimated time {:+.1f} %",
                            settings_text(choice.next->settings), to_gibibytes(choice.next->bytes),
                            more);
}

}  // namespace packtrain
