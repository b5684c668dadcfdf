#include "models/ops/attention/backends.h"

#include <ATen/Context.h>

#include <string>

#include "framework/core/error.h"
#include "models/ops/attention/cudnn/attention.h"
#include "models/ops/attention/wide/attention.h"
#include "models/ops/attention/wide/launch.h"

namespace packtrain {
namespace {

constexpr std::int64_t kMaxHeadDim = 256;

bool flash_serves(const AttentionShape& shape) {
  return shape.soft_cap == 0 && shape.head_dim % 8 == 0 && shape.head_dim <= kMaxHeadDim;
}

bool cudnn_serves(const AttentionShape& shape) {
  return cudnn_trains(shape.head_dim, cudnn_capability_major());
}

bool wide_serves(const AttentionShape& shape, int shared_bytes) {
  return shape.soft_cap == 0 && shape.head_dim == kWideHeadDim &&
         wide_shared_bytes() >= shared_bytes;
}

[[noreturn]] void reject_shape(const AttentionShape& shape, const std::string& wanted) {
  throw Error(ErrorCategory::kConfig,
              std::string("attention: backend ") + attention_backend_name(shape.backend) + ", " +
                  std::to_string(shape.num_heads) + "/" + std::to_string(shape.num_kv_heads) +
                  " heads of head_dim " + std::to_string(shape.head_dim) + ", want " + wanted,
              "Set precision.compute: fp32, or change the model's head_dim.");
}

// Chunks are sequences for the libraries (chunks.h).
bool is_plainly_causal(const AttentionShape& shape) {
  return shape.soft_cap == 0 && shape.pattern.window == 0;
}

AttentionBackend fastest(const AttentionShape& shape) {
  const bool deterministic = at::globalContext().deterministicAlgorithms();
  if (shape.soft_cap != 0) {
    return deterministic || !cudnn_serves(shape) ? AttentionBackend::kPlain
                                                 : AttentionBackend::kCudnn;
  }
  if (wide_serves(shape, kSmallWideSharedBytes)) {
    return wide_serves(shape, kWideSharedBytes) ? AttentionBackend::kWide
                                                : AttentionBackend::kWideSmall;
  }
  // No fused kernel has other such wide heads.
  if (shape.head_dim > kMaxHeadDim && shape.head_dim % 8 == 0) return AttentionBackend::kPlain;
  if (!flash_serves(shape)) {
    reject_shape(shape, "a head_dim that is a multiple of 8 in bfloat16 on CUDA");
  }
  return deterministic || !cudnn_serves(shape) ? AttentionBackend::kFlash
                                               : AttentionBackend::kCudnn;
}

}  // namespace

bool cudnn_trains(std::int64_t head_dim, int capability_major) {
  constexpr int kHopper = 9;
  constexpr std::int64_t kMaxBeforeHopper = 128;
  return head_dim % 16 == 0 &&
         head_dim <= (capability_major < kHopper ? kMaxBeforeHopper : kMaxHeadDim);
}

const char* attention_backend_name(AttentionBackend backend) {
  constexpr const char* kNames[] = {"auto",  "cudnn", "flash",     "reference",
                                    "plain", "wide",  "wide_small"};
  return kNames[static_cast<int>(backend)];
}

AttentionBackend choose_attention_backend(const AttentionShape& shape, at::Device device,
                                          at::ScalarType dtype, bool has_prefixes) {
  const bool fused = device.is_cuda() && dtype == at::kBFloat16;
  const bool reference_serves = !has_prefixes || device.is_cpu();
  switch (shape.backend) {
    case AttentionBackend::kAuto:
      if (fused) return fastest(shape);
      return is_plainly_causal(shape) && reference_serves ? AttentionBackend::kReference
                                                          : AttentionBackend::kPlain;
    case AttentionBackend::kCudnn:
      if (!fused || !cudnn_serves(shape)) {
        reject_shape(
            shape,
            "bfloat16 on CUDA and a head_dim that is a multiple of 16 up to 256, 128 before "
            "Hopper");
      }
      if (at::globalContext().deterministicAlgorithms()) {
        reject_shape(shape, "another backend with precision.deterministic (its backward is not)");
      }
      return AttentionBackend::kCudnn;
    case AttentionBackend::kFlash:
      if (!fused || !flash_serves(shape)) {
        reject_shape(
            shape,
            "bfloat16 on CUDA, no soft-cap and a head_dim that is a multiple of 8 up to 256");
      }
      return AttentionBackend::kFlash;
    case AttentionBackend::kWide:
    case AttentionBackend::kWideSmall:
      if (!fused ||
          !wide_serves(shape, shape.backend == AttentionBackend::kWide ? kWideSharedBytes
                                                                       : kSmallWideSharedBytes)) {
        reject_shape(shape,
                     "bfloat16 on CUDA of 8.0, 9.0 or 10.0, no soft-cap and a head_dim of 512");
      }
      return shape.backend;
    case AttentionBackend::kReference:
      if (!is_plainly_causal(shape)) reject_shape(shape, "neither window nor soft-cap");
      if (!reference_serves) reject_shape(shape, "segments without prefixes on CUDA");
      return AttentionBackend::kReference;
    case AttentionBackend::kPlain:
      break;
  }
  return AttentionBackend::kPlain;
}

}  // namespace packtrain
