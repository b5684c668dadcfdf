// Where the arrays of a packed batch are.
#include <gtest/gtest.h>

#include <span>
#include <utility>
#include <vector>

#include "collators/flattening.h"
#include "framework/core/error.h"
#include "tests/collators/pieces.h"
#include "tests/samplers/memory_store.h"

namespace packtrain::packed_batch_memory_test {
namespace {

using test::Ints;
using test::MemoryStore;
using test::store_of;
using test::values;
using test::whole;

TEST(PackedBatchMemory, LaysEveryArrayAtAMultipleOf256BytesInOneBuffer) {
  const MemoryStore store = store_of({4, 8, 5, 11});
  const PackedBatch batch = flatten(store, whole(store), {}, {.row_multiple = 32, .sources = true});
  std::ptrdiff_t end = 0;
  const auto check = [&](const auto& array) {
    const auto bytes = std::as_bytes(array);
    const std::ptrdiff_t offset = bytes.data() - batch.bytes.data();
    EXPECT_EQ(offset % 256, 0);
    EXPECT_GE(offset, end);
    end = offset + std::ssize(bytes);
    EXPECT_LE(end, std::ssize(batch.bytes));
  };
  check(batch.input_ids);
  check(batch.labels);
  check(batch.position_ids);
  check(batch.cu_seqlens);
  check(batch.loss_index);
  check(batch.loss_weight);
  check(batch.loss_source);
  EXPECT_EQ(batch.bytes.data(), batch.storage.data());
}

TEST(PackedBatchMemory, WritesIntoTheCallersMemory) {
  const MemoryStore store = store_of({4, 8});
  std::vector<std::byte> memory(1 << 16, std::byte{0xff});  // as dirty as reused pinned memory
  int calls = 0;
  const PackedBatch batch =
      flatten(store, whole(store), {}, {.row_multiple = 16}, [&](std::size_t) {
        ++calls;
        return std::span(memory);
      });
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(batch.storage.empty());
  EXPECT_EQ(batch.bytes.data(), memory.data());
  EXPECT_LT(batch.bytes.size(), memory.size());
  const PackedBatch reference = flatten(store, whole(store), {}, {.row_multiple = 16});
  EXPECT_EQ(values(batch.input_ids), values(reference.input_ids));
  EXPECT_EQ(values(batch.labels), values(reference.labels));
  EXPECT_EQ(values(batch.position_ids), values(reference.position_ids));
  EXPECT_EQ(values(batch.cu_seqlens), values(reference.cu_seqlens));
  EXPECT_EQ(values(batch.loss_index), values(reference.loss_index));
  EXPECT_EQ(values(batch.loss_weight), values(reference.loss_weight));
}

TEST(PackedBatchMemory, RejectsMemorySmallerThanAskedFor) {
  const MemoryStore store = store_of({4});
  std::vector<std::byte> memory(16);
  EXPECT_THROW(flatten(store, whole(store), {}, {}, [&](std::size_t) { return std::span(memory); }),
               Error);
}

TEST(PackedBatchMemory, StaysValidWhenTheBatchIsMoved) {
  const MemoryStore store = store_of({4});
  PackedBatch batch = flatten(store, whole(store), {}, {.row_multiple = 1});
  const PackedBatch moved = std::move(batch);
  EXPECT_EQ(values(moved.input_ids), (Ints{0, 1, 2, 3}));
  EXPECT_EQ(moved.bytes.data(), moved.storage.data());
}

}  // namespace
}  // namespace packtrain::packed_batch_memory_test
