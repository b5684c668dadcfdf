#include "tests/fuzz/targets.h"

#include <algorithm>
#include <array>

namespace packtrain::fuzz {

std::span<const Target> targets() {
  static constexpr std::array kTargets = {
      Target{"safetensors", read_safetensors},
      Target{"checkpoint_manifest", read_checkpoint_manifest},
      Target{"store_manifest", read_store_manifest},
      Target{"store_shard", read_store_shard},
      Target{"store_pairs", read_store_pairs},
      Target{"store_rollouts", read_store_rollouts},
      Target{"jsonl", read_jsonl},
      Target{"yaml", read_yaml},
      Target{"hf_config", read_hf_config},
      Target{"hf_index", read_hf_index},
  };
  return kTargets;
}

const Target* find_target(std::string_view name) {
  const auto all = targets();
  const auto found = std::ranges::find(all, name, &Target::name);
  return found == all.end() ? nullptr : &*found;
}

}  // namespace packtrain::fuzz
