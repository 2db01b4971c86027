// Arrays that end, or begin, exactly at a page that may not be touched: a kernel that reads or writes one byte too far
// dies here with a signal that Catch reports.
#include <catch2/catch.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <vector>

#include "kernels/kernels.h"

namespace rondo::kernels {
namespace {

// Pages for `bytes` bytes between two forbidden ones.
class Fenced {
 public:
  explicit Fenced(size_t bytes) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    inner_ = (bytes + page - 1) / page * page;
    total_ = inner_ + 2 * page;
    void* mapping = mmap(nullptr, total_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(mapping != MAP_FAILED);
    base_ = static_cast<uint8_t*>(mapping);
    begin_ = base_ + page;
    REQUIRE(mprotect(begin_, inner_, PROT_READ | PROT_WRITE) == 0);
  }
  ~Fenced() { munmap(base_, total_); }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;

  uint8_t* first() { return begin_; }
  uint8_t* last(size_t bytes) { return begin_ + inner_ - bytes; }

 private:
  uint8_t* base_;
  uint8_t* begin_;
  size_t inner_, total_;
};

constexpr size_t kMostElements = 600;
constexpr uint32_t kMostSources = 9;
const size_t kCounts[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 17, 31, 33, 63, 65, 100, 129, 257, 511, kMostElements};

void reduce_at_the_fences(const Table& table, DType dtype, RedOp op, std::vector<std::unique_ptr<Fenced>>& arrays) {
  const ReduceFn reduce = table.reduce[static_cast<size_t>(dtype)][static_cast<size_t>(op)];
  for (const uint32_t source_count : {1u, 2u, 5u, 8u, kMostSources}) {
    for (const size_t count : kCounts) {
      const size_t bytes = count * size_of(dtype);
      std::vector<const void*> at_end, at_begin;
      for (uint32_t i = 0; i < source_count; ++i) {
        at_end.push_back(arrays[i]->last(bytes));
        at_begin.push_back(arrays[i]->first());
      }
      Fenced& dst = *arrays[kMostSources];
      Fenced& dst2 = *arrays[kMostSources + 1];
      reduce({at_end.data(), source_count, dst.last(bytes), dst2.last(bytes), count, 3});
      reduce({at_begin.data(), source_count, dst.first(), dst2.first(), count, 3});
    }
  }
}

std::vector<std::unique_ptr<Fenced>> make_arrays() {
  std::vector<std::unique_ptr<Fenced>> arrays;
  for (uint32_t i = 0; i < kMostSources + 2; ++i) arrays.push_back(std::make_unique<Fenced>(kMostElements * 8));
  return arrays;
}

}  // namespace

TEST_CASE("fences: no reduction touches a byte before or behind its arrays") {
  std::vector<std::unique_ptr<Fenced>> arrays = make_arrays();
  for (const Table* table : usable()) {
    for (uint32_t dtype = 0; dtype < kDTypeCount; ++dtype) {
      for (uint32_t op = 0; op < kRedOpCount; ++op) {
        if (!is_defined(static_cast<DType>(dtype), static_cast<RedOp>(op))) continue;
        INFO(table->isa << " " << name(static_cast<DType>(dtype)) << " " << name(static_cast<RedOp>(op)));
        reduce_at_the_fences(*table, static_cast<DType>(dtype), static_cast<RedOp>(op), arrays);
      }
    }
  }
  SUCCEED("nothing died");
}

TEST_CASE("fences: no copy touches a byte before or behind its arrays") {
  std::vector<std::unique_ptr<Fenced>> arrays = make_arrays();
  size_t wrong = 0;
  for (const Table* table : usable()) {
    for (const CopyFn copy : {table->copy, table->copy_stream}) {
      for (size_t bytes = 0; bytes < 2100; bytes += bytes < 300 ? 1 : 61) {
        std::memset(arrays[0]->last(bytes), static_cast<int>(bytes % 251), bytes);
        copy(arrays[1]->last(bytes), arrays[2]->first(), arrays[0]->last(bytes), bytes);
        wrong += std::memcmp(arrays[1]->last(bytes), arrays[0]->last(bytes), bytes) != 0;
        copy(arrays[1]->first(), arrays[2]->last(bytes), arrays[2]->first(), 0);
        copy(arrays[1]->first(), arrays[3]->last(bytes), arrays[2]->first(), bytes);
        wrong += std::memcmp(arrays[3]->last(bytes), arrays[0]->last(bytes), bytes) != 0;
      }
    }
  }
  CHECK(wrong == 0);
}

}  // namespace rondo::kernels
