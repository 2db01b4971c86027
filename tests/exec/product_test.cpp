// The full product over loopback: every algorithm x world 1..4 x count x alignment x dtype x op, in place and not.
// Two halves, so that they run side by side: reductions of floating and of integer types; then what does not reduce.
#include "cases_run.h"

using namespace rondo;
using namespace rondo::test;

namespace {

// Sanitizers make each case some twenty times slower: they see every kSample-th.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint32_t kSample = 41;
#else
constexpr uint32_t kSample = 1;
#endif

constexpr size_t kAlignments[] = {0, 1, SIZE_MAX /* one element */, 63};

std::string words(const Case& c) {
  return fmt::format("{} {} world {} count {} {} {} misalign {} {}", name(c.collective), c.algorithm->name, c.world,
                     c.count, name(c.dtype), name(c.op), c.misalign, c.in_place ? "in place" : "out of place");
}

bool has_in_place(Collective c) {
  return c == Collective::allreduce || c == Collective::reduce || c == Collective::allgather ||
         c == Collective::reduce_scatter;
}

template <class Wanted>
void run_product(Wanted&& wanted) {
  uint32_t met = 0, ran = 0;
  for (uint32_t world = 1; world <= 4; ++world) {
    Job job({.world = world, .loopback = LoopbackOptions::like_shm()});
    for (const Algorithm& algorithm : algorithms()) {
      if (algorithm.generate == nullptr) continue;
      for (const size_t count : {size_t{0}, size_t{1}, size_t{2}, size_t{world - 1}, size_t{world}, size_t{world + 1},
                                 size_t{1000}, size_t{65537}}) {
        for (uint32_t d = 0; d < kDTypeCount; ++d) {
          const uint32_t ops = reduces(algorithm.collective) ? kRedOpCount : 1;
          for (uint32_t o = 0; o < ops; ++o) {
            const DType dtype = static_cast<DType>(d);
            const RedOp op = static_cast<RedOp>(o);
            if (!is_defined(dtype, op) || !wanted(algorithm, dtype)) continue;
            for (const size_t alignment : kAlignments) {
              for (const bool in_place : {false, true}) {
                if (in_place && !has_in_place(algorithm.collective)) continue;
                Case c{.collective = algorithm.collective,
                       .algorithm = &algorithm,
                       .world = world,
                       .count = count,
                       .dtype = dtype,
                       .op = op,
                       .root = world - 1,
                       .lanes = algorithm.name == "tree" ? 2u : 1u,
                       .piece = 8000,
                       .window = 3,
                       .misalign = alignment == SIZE_MAX ? size_of(dtype) : alignment,
                       .in_place = in_place,
                       .seed = met};
                if (met++ % kSample != 0) continue;
                INFO(words(c));
                run_case(job, c);
                ++ran;
              }
            }
          }
        }
      }
    }
  }
  WARN("cases: " << ran << " of " << met);
}

}  // namespace

TEST_CASE("product: reductions of floating types") {
  run_product([](const Algorithm& a, DType d) { return reduces(a.collective) && info(d).floating; });
}
TEST_CASE("product: reductions of integers") {
  run_product([](const Algorithm& a, DType d) { return reduces(a.collective) && !info(d).floating; });
}
TEST_CASE("product: what does not reduce") {
  run_product([](const Algorithm& a, DType) { return !reduces(a.collective); });
}
