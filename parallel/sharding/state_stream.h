// State in host memory (memory.offload: optimizer), streamed through the device for an update.
// Copies to the device, the update and copies to the host run at the same time on streams of their
// own.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "framework/device/device.h"
#include "parallel/sharding/sharding_streams.h"

namespace packtrain {

// Pieces that are on the device at a time: one is copied there, one is updated and one is copied
// back. The fourth evens out their times.
inline constexpr std::size_t kStateSlots = 4;
// Device memory of a slot, except where a model has less state. Copies of some MiB reach the
// bandwidth of PCIe.
inline constexpr std::int64_t kStateSlotBytes = std::int64_t{64} << 20;
// Tensors in a slot begin at multiples of this many bytes.
inline constexpr std::int64_t kStateAlignment = 256;

struct StreamedTensor {
  at::Tensor on_host;      // 1-D, contiguous, in memory of Device::allocate_host
  bool is_read = true;     // else the device's copy begins with any values
  bool is_written = true;  // else the host's values stay
};
using StreamedPiece = std::vector<StreamedTensor>;
// The pieces of a pass, in its order. They are the same in each step, so copies share them.
using StreamedPieces = std::shared_ptr<const std::vector<StreamedPiece>>;

// Device bytes that a piece needs.
std::int64_t streamed_bytes(const StreamedPiece& piece);

class StateStream {
 public:
  // Allocates kStateSlots slots of `slot_bytes`. Device and streams must outlive it.
  StateStream(Device& device, ShardingStreams& streams, std::int64_t slot_bytes);

  // Begins to copy the first pieces to the device. The copies wait for those of the previous pass,
  // and for nothing on the compute stream. So they run while earlier work computes.
  // Throws Error(kInternal) for a piece that is larger than a slot.
  void start(StreamedPieces pieces);
  // The next piece on the device, for work that is enqueued on the compute stream from now on.
  const std::vector<at::Tensor>& take();
  // That work is enqueued. Copies the piece back after it, and then a later piece in its place.
  void give_back();
  // Work that is enqueued on the compute stream from now on starts when all is in host memory.
  void finish();

 private:
  struct Slot {
    at::Tensor memory;  // bytes
    std::vector<at::Tensor> tensors;
    std::unique_ptr<Event> filled;
    std::unique_ptr<Event> used;
    std::unique_ptr<Event> freed;  // also: its values are in host memory
  };

  Slot& slot_of(std::size_t piece) { return slots_.at(piece % kStateSlots); }
  void fetch(std::size_t piece);

  ShardingStreams& streams_;
  std::int64_t slot_bytes_;
  std::array<Slot, kStateSlots> slots_;
  std::unique_ptr<Stream> to_device_;
  std::unique_ptr<Stream> to_host_;
  StreamedPieces pieces_;
  std::size_t next_ = 0;  // the piece to be taken
};

// Calls `work` with a tensor on the device, or else with copies of parts of it, 1-D. Its work goes
// to the current stream. Values are copied back where it returns true, and the host waits for that.
void for_each_on_device(const at::Tensor& tensor, at::Device device,
                        const std::function<bool(const at::Tensor&)>& work);

}  // namespace packtrain
