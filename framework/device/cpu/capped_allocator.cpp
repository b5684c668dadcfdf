#include "framework/device/cpu/capped_allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <memory>
#include <utility>

namespace packtrain {
namespace {

std::atomic<std::size_t> in_use = 0;  // bytes of the allocator below

struct Block {
  c10::DataPtr memory;
  std::size_t size = 0;
};

void free_block(void* context) {
  const std::unique_ptr<Block> block(static_cast<Block*>(context));
  in_use -= block->size;
}

// Counts the bytes of another allocator and fails above the cap.
class CappedAllocator final : public c10::Allocator {
 public:
  explicit CappedAllocator(c10::Allocator& allocator) : allocator_(allocator) {}

  c10::DataPtr allocate(std::size_t size) override {
    const std::size_t after = in_use += size;
    if (after > cap) {
      in_use -= size;
      TORCH_CHECK_WITH(OutOfMemoryError, false, "tried to allocate ", size, " bytes; ",
                       after - size, " are in use and debug.memory_cap_gib is ", cap.load(),
                       " bytes");
    }
    auto block = std::make_unique<Block>(Block{allocator_.allocate(size), size});
    void* data = block->memory.get();
    return {data, block.release(), &free_block, c10::Device(c10::DeviceType::CPU)};
  }

  void copy_data(void* to, const void* from, std::size_t count) const override {
    default_copy_data(to, from, count);
  }

  std::atomic<std::size_t> cap = 0;

 private:
  c10::Allocator& allocator_;
};

}  // namespace

void cap_cpu_tensors(std::size_t bytes) {
  // Blocks can be freed during process exit, so the allocator is never destroyed.
  static auto* const allocator = new CappedAllocator(*c10::GetCPUAllocator());
  allocator->cap = bytes;
  c10::SetCPUAllocator(allocator, /*priority=*/1);
}

}  // namespace packtrain
