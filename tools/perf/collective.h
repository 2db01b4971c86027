// The collectives that rondo-perf measures: their names, shapes, calls, and what each rank must hold afterwards. Pure
// except for run() and make_persistent().
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "rondo/rondo.h"

namespace rondo::perf {

enum class Kind : uint8_t {
  allreduce,
  reduce,
  broadcast,
  allgather,
  reduce_scatter,
  alltoall,
  gather,
  scatter,
  barrier,
  sendrecv,
};
inline constexpr size_t kKindCount = 10;

struct KindInfo {
  Kind kind;
  const char* name;
  bool reduces;
  bool rooted;
  bool divided;  // the size is that of world parts of `count` elements
  bool has_out_of_place, has_in_place;
};
const KindInfo& info(Kind kind);
// nullptr when there is none of that name.
const KindInfo* kind_named(std::string_view name);

// One call, seen from one rank.
struct Call {
  Kind kind;
  rondo_dtype dtype;
  rondo_redop redop;
  int32_t root;
  uint32_t rank, world;
  size_t count;  // as the C function takes it: per rank or per pair where the collective is divided
};

// Elements of the whole `in` and `out` buffers on the rank that uses most.
size_t in_elements(const Call& call);
size_t out_elements(const Call& call);
// Where the part that a rank passes as the other buffer begins, in place: `in` inside `out` for allgather, `out` inside
// `in` for reduce_scatter; 0 for all others.
size_t in_place_offset(const Call& call);

// Bytes moved over the busiest link for each byte of size: the factor from algorithm to bus bandwidth.
double bus_factor(Kind kind, uint32_t world);

// A run of `count` elements of the result at `at` in `out`: the reduction over all ranks, or the input of rank `from`,
// beginning with element `first` of that input.
struct Expectation {
  static constexpr uint32_t kReduced = UINT32_MAX;
  size_t at, count;
  uint32_t from;
  size_t first;
};
std::vector<Expectation> expectations(const Call& call);

// Makes the blocking call.
rondo_status run(rondo_comm* comm, const Call& call, const void* in, void* out);
// Makes the call's persistent operation. UNSUPPORTED where there is none.
rondo_status make_persistent(rondo_comm* comm, const Call& call, const void* in, void* out, rondo_op** op);

}  // namespace rondo::perf
