#include "parallel/sharding/state_stream.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "framework/core/error.h"
#include "framework/device/tensor_device.h"

namespace packtrain {
namespace {

std::int64_t aligned_state_bytes(const at::Tensor& tensor) {
  const auto bytes = static_cast<std::int64_t>(tensor.nbytes());
  return (bytes + kStateAlignment - 1) / kStateAlignment * kStateAlignment;
}

}  // namespace

std::int64_t streamed_bytes(const StreamedPiece& piece) {
  std::int64_t bytes = 0;
  for (const StreamedTensor& tensor : piece) bytes += aligned_state_bytes(tensor.on_host);
  return bytes;
}

StateStream::StateStream(Device& device, ShardingStreams& streams, std::int64_t slot_bytes)
    : streams_(streams),
      slot_bytes_(slot_bytes),
      to_device_(device.make_stream(StreamKind::kCopy)),
      to_host_(device.make_stream(StreamKind::kCopy)) {
  for (Slot& slot : slots_) {
    slot.memory =
        at::empty({slot_bytes}, at::TensorOptions(at::kByte).device(tensor_device(device)));
    slot.filled = device.make_event();
    slot.used = device.make_event();
    slot.freed = device.make_event();
  }
}

void StateStream::start(StreamedPieces pieces) {
  for (const StreamedPiece& piece : *pieces) {
    if (streamed_bytes(piece) <= slot_bytes_) continue;
    throw Error(ErrorCategory::kInternal,
                fmt::format("a piece of the optimizer's state has {} bytes, a slot has {}",
                            streamed_bytes(piece), slot_bytes_));
  }
  pieces_ = std::move(pieces);
  next_ = 0;
  for (const Slot& slot : slots_) to_device_->wait(*slot.freed);
  for (std::size_t p = 0; p < std::min(pieces_->size(), kStateSlots); ++p) fetch(p);
}

void StateStream::fetch(std::size_t piece) {
  Slot& slot = slot_of(piece);
  slot.tensors.clear();
  std::int64_t begin = 0;
  for (const StreamedTensor& tensor : pieces_->at(piece)) {
    const auto bytes = static_cast<std::int64_t>(tensor.on_host.nbytes());
    slot.tensors.push_back(slot.memory.narrow(0, begin, bytes).view(tensor.on_host.scalar_type()));
    begin += aligned_state_bytes(tensor.on_host);
  }
  to_device_->wait(*slot.freed);
  to_device_->run([pieces = pieces_, piece, to = slot.tensors](StreamHandle) {
    const at::NoGradGuard no_grad;
    const StreamedPiece& from = (*pieces)[piece];
    for (std::size_t t = 0; t < from.size(); ++t) {
      if (from[t].is_read) to[t].copy_(from[t].on_host, /*non_blocking=*/true);
    }
  });
  to_device_->record(*slot.filled);
}

const std::vector<at::Tensor>& StateStream::take() {
  Slot& slot = slot_of(next_);
  streams_.compute->wait(*slot.filled);
  return slot.tensors;
}

void StateStream::give_back() {
  Slot& slot = slot_of(next_);
  streams_.compute->record(*slot.used);
  to_host_->wait(*slot.used);
  to_host_->run([pieces = pieces_, piece = next_, from = slot.tensors](StreamHandle) {
    const at::NoGradGuard no_grad;
    const StreamedPiece& to = (*pieces)[piece];
    for (std::size_t t = 0; t < to.size(); ++t) {
      if (to[t].is_written) to[t].on_host.copy_(from[t], /*non_blocking=*/true);
    }
  });
  to_host_->record(*slot.freed);
  if (next_ + kStateSlots < pieces_->size()) fetch(next_ + kStateSlots);
  ++next_;
}

void StateStream::finish() {
  for (const Slot& slot : slots_) streams_.compute->wait(*slot.freed);
}

void for_each_on_device(const at::Tensor& tensor, at::Device device,
                        const std::function<bool(const at::Tensor&)>& work) {
  if (tensor.numel() == 0) return;
  if (tensor.device() == device) {
    work(tensor);
    return;
  }
  const std::int64_t most = kStateSlotBytes / static_cast<std::int64_t>(tensor.element_size());
  for (std::int64_t begin = 0; begin < tensor.numel(); begin += most) {
    const at::Tensor on_host = tensor.narrow(0, begin, std::min(most, tensor.numel() - begin));
    const at::Tensor copy = on_host.to(device, /*non_blocking=*/true);
    if (work(copy)) on_host.copy_(copy);
  }
}

}  // namespace packtrain
