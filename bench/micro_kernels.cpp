// micro_kernels: GB/s of every kernel, per instruction set, element type, operator and number of sources.
//
//   micro_kernels                          the hot pairs, every table
//   micro_kernels all                      every pair
//   micro_kernels float32 sum              one element type, one operator ("all" for any)
//   micro_kernels float32 sum 65536 8      ... with bytes per array and number of sources
//
// "in" is bytes read per second over all sources; "in+out" adds what is written, which is what compares with copy.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "kernels/kernels.h"

namespace {

using rondo::DType;
using rondo::RedOp;
using rondo::kernels::Table;
using Clock = std::chrono::steady_clock;

constexpr double kRoundSeconds = 0.004;
constexpr int kRounds = 5;

// The fastest of a few rounds, each long enough that reading the clock does not count.
template <class Call>
double seconds_per_call(Call call) {
  call();
  size_t repeat = 1;
  double best = 1e9;
  for (int round = 0; round < kRounds;) {
    const auto start = Clock::now();
    for (size_t i = 0; i < repeat; ++i) call();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (seconds < kRoundSeconds && repeat < (size_t{1} << 30)) {
      repeat *= 2;
      continue;
    }
    best = std::min(best, seconds / static_cast<double>(repeat));
    ++round;
  }
  return best;
}

struct Arrays {
  std::vector<std::vector<uint8_t>> storage;
  std::vector<const void*> sources;
  uint8_t* dst;
};

// Ordinary numbers in every type: all bytes of an element are small, so nothing overflows or is NaN.
Arrays make_arrays(DType dtype, uint32_t source_count, size_t bytes) {
  constexpr size_t kAlignment = 64;
  Arrays arrays;
  const size_t size = rondo::size_of(dtype);
  for (uint32_t i = 0; i <= source_count; ++i) {
    arrays.storage.emplace_back(bytes + kAlignment);
    uint8_t* data = arrays.storage.back().data();
    data += (kAlignment - reinterpret_cast<uintptr_t>(data) % kAlignment) % kAlignment;
    for (size_t at = 0; at < bytes; ++at) {
      data[at] = at % size == size - 1 ? uint8_t{0x3c} : static_cast<uint8_t>(at * 7 + i);
    }
    if (i == source_count) {
      arrays.dst = data;
    } else {
      arrays.sources.push_back(data);
    }
  }
  return arrays;
}

void time_reduce(const Table& table, DType dtype, RedOp op, uint32_t source_count, size_t bytes) {
  Arrays arrays = make_arrays(dtype, source_count, bytes);
  const size_t count = bytes / rondo::size_of(dtype);
  const rondo::kernels::ReduceFn reduce = table.reduce[static_cast<size_t>(dtype)][static_cast<size_t>(op)];
  const double seconds = seconds_per_call([&] {
    reduce({arrays.sources.data(), source_count, arrays.dst, nullptr, count, source_count});
  });
  const double in = static_cast<double>(bytes) * source_count / seconds * 1e-9;
  const double all = static_cast<double>(bytes) * (source_count + 1) / seconds * 1e-9;
  std::printf("%-10s %-12s %-5s %3u %10zu %12.3f %9.2f %9.2f\n", table.isa.data(), name(dtype).data(), name(op).data(),
              source_count, bytes, seconds * 1e6, in, all);
}

void time_copy(const Table& table, std::string_view what, rondo::kernels::CopyFn copy, size_t bytes) {
  Arrays arrays = make_arrays(DType::uint8, 1, bytes);
  const double seconds = seconds_per_call([&] { copy(arrays.dst, nullptr, arrays.sources[0], bytes); });
  const double in = static_cast<double>(bytes) / seconds * 1e-9;
  std::printf("%-10s %-12s %-5s %3u %10zu %12.3f %9.2f %9.2f\n", table.isa.data(), what.data(), "", 1u, bytes,
              seconds * 1e6, in, 2 * in);
}

bool is_hot(DType dtype, RedOp op) {
  const bool hot_type = dtype == DType::float32 || dtype == DType::bfloat16 || dtype == DType::float16;
  return hot_type && (op == RedOp::sum || op == RedOp::avg || op == RedOp::max);
}

struct Selection {
  std::string_view dtype = "hot", op = "all";
  size_t bytes = 0;           // 0: a size in each of the caches
  uint32_t source_count = 0;  // 0: 2 and 8

  bool has(DType d, RedOp o) const {
    if (!rondo::is_defined(d, o)) return false;
    if (dtype == "hot") return is_hot(d, o);
    return (dtype == "all" || dtype == name(d)) && (op == "all" || op == name(o));
  }
};

void run(const Table& table, const Selection& selection) {
  std::vector<size_t> sizes = {16384, 1 << 20};
  if (selection.bytes != 0) sizes = {selection.bytes};
  std::vector<uint32_t> source_counts = {2, 8};
  if (selection.source_count != 0) source_counts = {selection.source_count};
  for (const size_t bytes : sizes) {
    time_copy(table, "copy", table.copy, bytes);
    time_copy(table, "copy_stream", table.copy_stream, bytes);
    for (uint32_t dtype = 0; dtype < rondo::kDTypeCount; ++dtype) {
      for (uint32_t op = 0; op < rondo::kRedOpCount; ++op) {
        if (!selection.has(static_cast<DType>(dtype), static_cast<RedOp>(op))) continue;
        for (const uint32_t source_count : source_counts) {
          time_reduce(table, static_cast<DType>(dtype), static_cast<RedOp>(op), source_count, bytes);
        }
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  Selection selection;
  if (argc > 1) selection.dtype = argv[1];
  if (argc > 2) selection.op = argv[2];
  if (argc > 3) selection.bytes = std::strtoull(argv[3], nullptr, 10);
  if (argc > 4) selection.source_count = static_cast<uint32_t>(std::strtoul(argv[4], nullptr, 10));
  const bool known = selection.dtype == "hot" || selection.dtype == "all" || rondo::dtype_named(selection.dtype);
  if (!known || (selection.op != "all" && !rondo::redop_named(selection.op))) {
    std::fprintf(stderr, "micro_kernels: no element type %s or operator %s\n", argv[1], argc > 2 ? argv[2] : "");
    return 2;
  }
  std::printf("%-10s %-12s %-5s %3s %10s %12s %9s %9s\n", "isa", "type", "op", "n", "bytes", "us", "in GB/s", "in+out");
  for (const Table* table : rondo::kernels::usable()) run(*table, selection);
  return 0;
}
