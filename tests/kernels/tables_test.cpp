// Every table this CPU can run against the reference, bit for bit, with guard bytes around what is written.
#include <catch2/catch.hpp>

#include <cstring>
#include <string>
#include <vector>

#include "kernels/kernels.h"

namespace rondo::kernels {
namespace {

constexpr size_t kGuard = 128;
constexpr uint8_t kGuardByte = 0xa5;

// Small and fast; seeded, so that a failure repeats.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }

 private:
  uint64_t state_;
};

// Patterns worth meeting in any type of that width: zeros, infinities, NaNs with payload and sign, subnormals, largest
// numbers, halves of the range, the integer extremes.
std::vector<uint64_t> specials(size_t size) {
  if (size == 1) {
    return {0x00, 0x80, 0x7f, 0xff, 0x7c, 0xfc, 0x7e, 0xfe, 0x7d, 0x01, 0x81, 0x07, 0x04, 0x08, 0x38, 0x3c, 0x7b, 0xfb};
  }
  if (size == 2) {
    return {0x0000, 0x8000, 0x7c00, 0xfc00, 0x7c01, 0xfe00, 0x7e00, 0x7bff, 0xfbff, 0x0001, 0x8001, 0x03ff, 0x0400,
            0x7f80, 0xff80, 0x7f81, 0xffc0, 0x7fc0, 0x7f7f, 0xff7f, 0x0080, 0x7fff, 0xffff, 0x3c00, 0x3f80, 0x5bff};
  }
  if (size == 4) {
    return {0x00000000, 0x80000000, 0x7f800000, 0xff800000, 0x7f800001, 0xffc12345, 0x7fc00000, 0x7f7fffff, 0xff7fffff,
            0x00000001, 0x80000001, 0x007fffff, 0x00800000, 0x7fffffff, 0xffffffff, 0x3f800000, 0x4f000000, 0xcf000000};
  }
  return {0x0000000000000000, 0x8000000000000000, 0x7ff0000000000000, 0xfff0000000000000, 0x7ff0000000000001,
          0xfff8123456789abc, 0x7ff8000000000000, 0x7fefffffffffffff, 0xffefffffffffffff, 0x0000000000000001,
          0x8000000000000001, 0x000fffffffffffff, 0x0010000000000000, 0x7fffffffffffffff, 0xffffffffffffffff,
          0x3ff0000000000000, 0x43e0000000000000, 0x00000000ffffffff, 0xffffffff00000000};
}

// A third each: specials, any bits, and numbers of like magnitude so that sums round and cancel.
uint64_t value_for(DType dtype, Random& random) {
  const std::vector<uint64_t> few = specials(size_of(dtype));
  const uint64_t choice = random.next() % 3;
  if (choice == 0) return few[random.next() % few.size()];
  if (choice == 1 || !info(dtype).floating) return random.next();
  const uint64_t mantissa_and_sign = random.next();
  switch (dtype) {
    case DType::float16:
      return 0x3800 ^ (mantissa_and_sign & 0x8fff);
    case DType::bfloat16:
      return 0x3f00 ^ (mantissa_and_sign & 0x81ff);
    case DType::float32:
      return 0x3f000000 ^ (mantissa_and_sign & 0x81ffffff);
    case DType::float64:
      return 0x3fe0000000000000 ^ (mantissa_and_sign & 0x803fffffffffffff);
    case DType::float8_e4m3:
      return 0x30 ^ (mantissa_and_sign & 0x9f);
    default:
      return 0x38 ^ (mantissa_and_sign & 0x8f);
  }
}

// An array at a chosen distance from a 64-byte boundary, with guard bytes on both sides.
class Array {
 public:
  Array(size_t bytes, size_t misalignment) : storage_(bytes + 2 * kGuard + 128, kGuardByte), bytes_(bytes) {
    const auto start = reinterpret_cast<uintptr_t>(storage_.data()) + kGuard;
    offset_ = kGuard + (64 - start % 64) % 64 + misalignment;
  }
  uint8_t* data() { return storage_.data() + offset_; }
  size_t bytes() const { return bytes_; }
  bool guards_intact() const {
    for (size_t i = 0; i < storage_.size(); ++i) {
      if ((i < offset_ || i >= offset_ + bytes_) && storage_[i] != kGuardByte) return false;
    }
    return true;
  }

 private:
  std::vector<uint8_t> storage_;
  size_t bytes_, offset_;
};

void fill(Array& array, DType dtype, Random& random) {
  const size_t size = size_of(dtype);
  for (size_t at = 0; at < array.bytes(); at += size) {
    const uint64_t value = value_for(dtype, random);
    std::memcpy(array.data() + at, &value, size);
  }
}

struct Case {
  DType dtype;
  RedOp op;
  uint32_t source_count;
  size_t count;
  size_t source_misalignment, dst_misalignment;
  bool second;        // a dst2
  int in_place = -1;  // the source that is also dst
  uint32_t divisor = 0;
};

std::string text(const Table& table, const Case& c) {
  return std::string(table.isa) + " " + std::string(name(c.dtype)) + " " + std::string(name(c.op)) +
         " n=" + std::to_string(c.source_count) + " count=" + std::to_string(c.count) + " align " +
         std::to_string(c.source_misalignment) + "/" + std::to_string(c.dst_misalignment) + (c.second ? " dst2" : "") +
         " in place " + std::to_string(c.in_place) + " divisor " + std::to_string(c.divisor);
}

// Returns what went wrong, or nothing. Catch's macros are too slow to sit in here.
std::string differs(const Table& table, const Case& c, uint64_t seed) {
  Random random(seed);
  const size_t bytes = c.count * size_of(c.dtype);
  std::vector<Array> arrays;
  std::vector<const void*> sources;
  for (uint32_t i = 0; i < c.source_count; ++i) {
    arrays.emplace_back(bytes, (c.source_misalignment * (i + 1)) % 64);
    fill(arrays.back(), c.dtype, random);
  }
  for (Array& array : arrays) sources.push_back(array.data());
  const std::vector<Array> before = arrays;

  std::vector<uint8_t> expected(bytes + 1);
  const auto row = static_cast<size_t>(c.dtype), column = static_cast<size_t>(c.op);
  reference().reduce[row][column]({sources.data(), c.source_count, expected.data(), nullptr, c.count, c.divisor});

  Array dst(bytes, c.dst_misalignment), dst2(bytes, (c.dst_misalignment * 5) % 64);
  Array& target = c.in_place < 0 ? dst : arrays[static_cast<size_t>(c.in_place)];
  table.reduce[row][column](
      {sources.data(), c.source_count, target.data(), c.second ? dst2.data() : nullptr, c.count, c.divisor});

  if (bytes > 0 && std::memcmp(target.data(), expected.data(), bytes) != 0) return text(table, c) + ": dst differs";
  if (!target.guards_intact() || !dst2.guards_intact()) return text(table, c) + ": wrote outside";
  if (c.second && bytes > 0 && std::memcmp(dst2.data(), expected.data(), bytes) != 0) {
    return text(table, c) + ": dst2 differs";
  }
  for (uint32_t i = 0; i < c.source_count; ++i) {
    if (static_cast<int>(i) == c.in_place || bytes == 0) continue;
    Array old = before[i];
    if (std::memcmp(old.data(), arrays[i].data(), bytes) != 0) return text(table, c) + ": changed a source";
  }
  return "";
}

const uint32_t kSourceCounts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 17, 22, 37};
const size_t kCounts[] = {0, 1, 2, 3, 5, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 129, 200};

// Calls check(case, seed) for every defined pair of element type and operator.
template <class Check>
void for_every_pair(Check check) {
  for (uint32_t dtype = 0; dtype < kDTypeCount; ++dtype) {
    for (uint32_t op = 0; op < kRedOpCount; ++op) {
      if (is_defined(static_cast<DType>(dtype), static_cast<RedOp>(op))) {
        check(static_cast<DType>(dtype), static_cast<RedOp>(op));
      }
    }
  }
}

std::vector<const Table*> vector_tables() {
  std::vector<const Table*> tables = usable();
  tables.erase(tables.begin());
  return tables;
}

void require_same(const Case& c, uint64_t seed) {
  for (const Table* table : vector_tables()) {
    const std::string problem = differs(*table, c, seed);
    if (!problem.empty()) FAIL_CHECK(problem << " seed " << seed);
  }
}

}  // namespace

TEST_CASE("tables: reference is usable, best is the last of the usable ones, and all are full") {
  const std::vector<const Table*> tables = usable();
  REQUIRE(!tables.empty());
  CHECK(tables.front() == &reference());
  CHECK(tables.back() == &best());
  for (const Table* table : tables) {
    CHECK(table->copy != nullptr);
    CHECK(table->copy_stream != nullptr);
    for (uint32_t dtype = 0; dtype < kDTypeCount; ++dtype) {
      for (uint32_t op = 0; op < kRedOpCount; ++op) {
        const bool defined = is_defined(static_cast<DType>(dtype), static_cast<RedOp>(op));
        CHECK((table->reduce[dtype][op] != nullptr) == defined);
      }
    }
  }
  if (tables.size() == 1) WARN("no vector table runs on this CPU: the comparisons have nothing to compare");
}

TEST_CASE("tables: every pair gives the reference's bits for any number of sources and elements") {
  uint64_t seed = 1;
  for_every_pair([&](DType dtype, RedOp op) {
    for (const uint32_t source_count : kSourceCounts) {
      for (const size_t count : kCounts) {
        const bool second = seed % 2 == 0;
        require_same({dtype, op, source_count, count, 0, 0, second, -1, op == RedOp::avg ? source_count : 0}, seed);
        ++seed;
      }
    }
  });
}

TEST_CASE("tables: long arrays at any alignment give the reference's bits and touch nothing else") {
  uint64_t seed = 1000;
  for_every_pair([&](DType dtype, RedOp op) {
    for (const size_t misalignment : {size_t{0}, size_t{1}, size_of(dtype), size_t{24}, size_t{63}}) {
      for (const uint32_t source_count : {2u, 3u, 8u, 9u}) {
        for (const size_t count : {size_t{1000}, size_t{4097}}) {
          if (count == 4097 && source_count != 2) continue;
          const uint32_t divisor = op == RedOp::avg ? 3 : 0;
          require_same({dtype, op, source_count, count, misalignment, misalignment, seed % 2 == 0, -1, divisor}, seed);
          ++seed;
        }
      }
    }
  });
}

TEST_CASE("tables: dst may be any one of the sources") {
  uint64_t seed = 2000;
  for_every_pair([&](DType dtype, RedOp op) {
    for (const uint32_t source_count : {1u, 2u, 3u, 5u, 8u, 13u}) {
      for (const int in_place : {0, static_cast<int>(source_count) / 2, static_cast<int>(source_count) - 1}) {
        for (const size_t count : {size_t{7}, size_t{65}, size_t{2000}}) {
          if (count == 2000 && source_count > 3) continue;
          const uint32_t divisor = op == RedOp::avg ? 2 : 0;
          const size_t misalignment = seed % 3 == 0 ? 1 : size_of(dtype);
          require_same({dtype, op, source_count, count, misalignment, 0, seed % 2 == 0, in_place, divisor}, seed);
          ++seed;
        }
      }
    }
  });
}

TEST_CASE("tables: averages divide by any divisor, and by none for 0 and 1") {
  uint64_t seed = 3000;
  for (uint32_t type = 0; type < kDTypeCount; ++type) {
    for (const uint32_t source_count : {1u, 2u, 5u, 9u}) {
      for (const uint32_t divisor :
           {0u, 1u, 2u, 3u, 7u, 64u, 255u, 256u, 1000u, 65537u, 16777217u, 2147483648u, 4294967295u}) {
        require_same({static_cast<DType>(type), RedOp::avg, source_count, 150, 0, 0, true, -1, divisor}, seed++);
      }
    }
  }
}

TEST_CASE("tables: a single source without a scale is copied bit by bit, NaN payloads included") {
  for (const Table* table : usable()) {
    for_every_pair([&](DType dtype, RedOp op) {
      Random random(4000);
      Array source(100 * size_of(dtype), 0);
      for (size_t i = 0; i < source.bytes(); ++i) source.data()[i] = static_cast<uint8_t>(random.next());
      Array dst(source.bytes(), 1);
      const void* sources[] = {source.data()};
      table->reduce[static_cast<size_t>(dtype)][static_cast<size_t>(op)](
          {sources, 1, dst.data(), nullptr, 100, op == RedOp::avg ? 1u : 7u});
      INFO(table->isa << " " << name(dtype) << " " << name(op));
      CHECK(std::memcmp(dst.data(), source.data(), source.bytes()) == 0);
    });
  }
}

TEST_CASE("tables: nothing is read or written when the count is zero") {
  for (const Table* table : usable()) {
    for_every_pair([&](DType dtype, RedOp op) {
      const void* sources[] = {nullptr, nullptr};
      table->reduce[static_cast<size_t>(dtype)][static_cast<size_t>(op)]({sources, 2, nullptr, nullptr, 0, 2});
      table->reduce[static_cast<size_t>(dtype)][static_cast<size_t>(op)]({sources, 1, nullptr, nullptr, 0, 2});
    });
    table->copy(nullptr, nullptr, nullptr, 0);
    table->copy_stream(nullptr, nullptr, nullptr, 0);
  }
}

TEST_CASE("tables: copies move every length at every alignment and touch nothing else") {
  std::vector<size_t> lengths;
  for (size_t bytes = 0; bytes < 300; ++bytes) lengths.push_back(bytes);
  for (const size_t bytes : {1000, 1023, 1024, 1025, 4096, 5000, 70001}) lengths.push_back(static_cast<size_t>(bytes));
  for (const Table* table : usable()) {
    size_t wrong = 0;
    for (const size_t bytes : lengths) {
      for (const size_t misalignment : {0, 1, 8, 31, 63}) {
        for (int variant = 0; variant < 4; ++variant) {
          Random random(bytes);
          Array source(bytes, (misalignment * 3) % 64), dst(bytes, misalignment);
          Array dst2(bytes, variant == 3 ? misalignment : 17);
          for (size_t i = 0; i < bytes; ++i) source.data()[i] = static_cast<uint8_t>(random.next());
          const CopyFn copy = variant == 0 ? table->copy : table->copy_stream;
          const bool second = variant >= 2;
          copy(dst.data(), second ? dst2.data() : nullptr, source.data(), bytes);
          if (bytes > 0) wrong += std::memcmp(dst.data(), source.data(), bytes) != 0;
          if (bytes > 0 && second) wrong += std::memcmp(dst2.data(), source.data(), bytes) != 0;
          wrong += !dst.guards_intact() + !dst2.guards_intact();
        }
      }
    }
    INFO(table->isa);
    CHECK(wrong == 0);
  }
}

TEST_CASE("tables: scaling gives the reference's bits, in place too, and touches nothing else") {
  uint64_t seed = 4000;
  for (uint32_t type = 0; type < kDTypeCount; ++type) {
    const DType dtype = static_cast<DType>(type);
    CHECK((reference().scale[type] != nullptr) == info(dtype).floating);
    if (!info(dtype).floating) continue;
    for (const double factor : {1.0, 0.5, 0.1, -3.0, 0.0, 1e-30, 1e30}) {
      for (const size_t count : kCounts) {
        Random random(++seed);
        Array source(count * size_of(dtype), seed % 2 == 0 ? size_of(dtype) : 0);
        fill(source, dtype, random);
        std::vector<uint8_t> expected(source.bytes() + 1);
        reference().scale[type](expected.data(), source.data(), count, factor);
        for (const Table* table : vector_tables()) {
          Array apart(source.bytes(), 24), in_place = source;
          table->scale[type](apart.data(), source.data(), count, factor);
          table->scale[type](in_place.data(), in_place.data(), count, factor);
          INFO(table->isa << " " << name(dtype) << " by " << factor << ", count " << count << ", seed " << seed);
          CHECK((count == 0 || std::memcmp(apart.data(), expected.data(), source.bytes()) == 0));
          CHECK((count == 0 || std::memcmp(in_place.data(), expected.data(), source.bytes()) == 0));
          CHECK((apart.guards_intact() && in_place.guards_intact()));
        }
      }
    }
  }
}

}  // namespace rondo::kernels
