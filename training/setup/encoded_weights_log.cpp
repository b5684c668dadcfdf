#include "training/setup/encoded_weights_log.h"

#include <cstdint>
#include <string>
#include <vector>

#include "framework/core/logging.h"
#include "models/block/encoded_layout.h"

namespace packtrain {

namespace {

// Why the format cannot store the others.
const char* reason_of(ParameterEncoding::Format format) {
  return format == ParameterEncoding::Format::kNf4
             ? "because a Hugging Face tensor of them is not one run of whole blocks of 64 elements"
             : "because precision.keep_bf16 names them or their elements are not whole 16 bytes";
}

}  // namespace

void log_encoded_weights(std::span<const std::unique_ptr<Block>> blocks,
                         ParameterEncoding::Format format) {
  const char* name = format == ParameterEncoding::Format::kNf4 ? "NF4" : "8-bit floats";
  std::int64_t encoded = 0;
  std::int64_t bytes = 0;
  std::vector<std::string> others;
  for (const std::unique_ptr<Block>& block : blocks) {
    for (const ParameterSpec& spec : block->parameters()) {
      if (!spec.encoding.is_plain()) {
        encoded += spec.numel();
        bytes += spec.encoding.size_bytes(stored_numel(spec));
      } else if (spec.decodable && !spec.trainable) {
        others.push_back(spec.name);
      }
    }
  }
  log_info("model.base: {:.1f} million frozen weights are stored as {}, in {:.2f} bits each",
           static_cast<double>(encoded) / 1e6, name,
           8.0 * static_cast<double>(bytes) / static_cast<double>(encoded));
  if (others.empty()) return;
  log_warning("model.base: {} weights are not stored as {}, {}: {}{}", others.size(), name,
              reason_of(format), others.front(), others.size() > 1 ? " and others" : "");
}

}  // namespace packtrain
