// The executor over loopback: every algorithm gives the reference's result, for both flavours of transport, with and
// without chaos.
#include "cases_run.h"

using namespace rondo;
using namespace rondo::test;

namespace {

std::string words(const Case& c) {
  return fmt::format("{} {} world {} count {} {} {} root {} lanes {} piece {} window {} misalign {} {}{} seed {}",
                     name(c.collective), c.algorithm->name, c.world, c.count, name(c.dtype), name(c.op), c.root,
                     c.lanes, c.piece, c.window, c.misalign, c.in_place ? "in place" : "out of place",
                     c.vector_form ? " v" : "", c.seed);
}

bool has_in_place(Collective c) {
  return c == Collective::allreduce || c == Collective::reduce || c == Collective::allgather ||
         c == Collective::reduce_scatter;
}

bool has_vector_form(Collective c) {
  return c == Collective::allgather || c == Collective::reduce_scatter || c == Collective::alltoall;
}

// A covering walk over the parameters: each case takes the next value of every list, the lists have coprime lengths.
void run_covering(bool plain, bool chaos, uint32_t cases_each) {
  uint32_t ran = 0;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.generate == nullptr) continue;
    for (uint32_t world = 1; world <= 9; ++world) {
      Job job({.world = world,
               .loopback = plain ? LoopbackOptions::like_tcp() : LoopbackOptions::like_shm(),
               .chaos = chaos,
               .seed = world});
      for (uint32_t i = 0; i < cases_each; ++i, ++ran) {
        const size_t counts[] = {0, 1, 2, world - 1, world, world + 1, 1000};
        const size_t pieces[] = {1 << 20, 7, 64, 333};
        const size_t offsets[] = {0, 1, 63};
        const uint32_t step = i + world * 3 + ran;
        Case c{.collective = algorithm.collective,
               .algorithm = &algorithm,
               .world = world,
               .count = counts[step % 7],
               .dtype = static_cast<DType>(step % kDTypeCount),
               .op = reduces(algorithm.collective) ? static_cast<RedOp>((step / 3) % kRedOpCount) : RedOp::sum,
               .root = rooted(algorithm.collective) ? step % world : 0,
               .lanes = 1 + step % 3,
               .piece = pieces[step % 4],
               .window = 1 + step % 5,
               .misalign = offsets[(step / 2) % 3],
               .in_place = has_in_place(algorithm.collective) && step % 2 == 0,
               .vector_form = has_vector_form(algorithm.collective) && step % 5 < 2,
               .seed = step};
        if (!is_defined(c.dtype, c.op)) c.op = RedOp::max;
        if (algorithm.name == "tree") c.lanes = 2;
        INFO(words(c));
        run_case(job, c);
      }
    }
  }
  WARN("cases: " << ran);
}

}  // namespace

TEST_CASE("executor: every algorithm, worlds 1 to 9, over a transport that lends slots") {
  run_covering(false, false, 24);
}
TEST_CASE("executor: every algorithm, worlds 1 to 9, over a transport that only sends") {
  run_covering(true, false, 24);
}
TEST_CASE("executor: every algorithm, worlds 1 to 9, under chaos, with slots") { run_covering(false, true, 8); }
TEST_CASE("executor: every algorithm, worlds 1 to 9, under chaos, without slots") { run_covering(true, true, 8); }
