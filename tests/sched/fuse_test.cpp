// Fusing: what is joined, what is left alone, and that waits still mean the same.
#include <catch2/catch.hpp>

#include <vector>

#include "sched/builder.h"
#include "sched/fuse.h"
#include "sched/verify.h"

using namespace rondo;

namespace {

using List = std::vector<uint32_t>;

Builder build(uint32_t lanes = 1) {
  return Builder({.collective = Collective::allreduce, .world = 4, .chunks = 4, .lanes = lanes}, 0);
}

Schedule finish(Builder& b) { return std::move(b).finish(); }

}  // namespace

TEST_CASE("fuse: a send joins the reception, the reduction or the copy that stored its chunk") {
  Builder apart = build(), joined = build();
  const List all = {0, 1, 2, 3}, to = {2};
  apart.recv(1, output(0))
      .send(output(0), to)
      .reduce_store({.operands = all, .own = input(1), .final = true}, output(1));
  apart.send(output(1), to).copy(input(2), output(2)).send(output(2), to);
  joined.recv_send(1, output(0), to)
      .reduce_store_send({.operands = all, .own = input(1), .final = true}, output(1), to);
  joined.copy_send(input(2), output(2), to);
  const Schedule fused = fuse(finish(apart));
  CHECK(fused == finish(joined));
  CHECK(fuse(fused) == fused);
  CHECK(check_structure(fused).ok());
}

TEST_CASE("fuse: sends of one chunk to different ranks become one") {
  Builder apart = build(), joined = build();
  apart.send(input(0), 3).send(input(0), 1).send(input(0), 2);
  joined.send(input(0), List{3, 1, 2});
  CHECK(fuse(finish(apart)) == finish(joined));
}

TEST_CASE("fuse: two messages to one rank stay two") {
  Builder apart = build();
  apart.send(input(0), 1).send(input(0), 1);
  const Schedule s = finish(apart);
  CHECK(fuse(s) == s);
}

TEST_CASE("fuse: a copy may lie between, unless it writes the chunk") {
  Builder apart = build(), joined = build(), kept = build();
  apart.recv(1, output(0)).copy(input(1), output(1)).send(output(0), 2);
  joined.recv_send(1, output(0), List{2}).copy(input(1), output(1));
  CHECK(fuse(finish(apart)) == finish(joined));
  // In place, the input's chunk is the output's.
  kept.send(input(0), 1).copy(input(1), output(0)).send(input(0), 2);
  const Schedule s = finish(kept);
  CHECK(fuse(s) == s);
}

TEST_CASE("fuse: a send that waits, or that follows a step that may block, stays where it is") {
  Builder waits = build(2);
  waits.recv(1, output(0)).wait(1, 1).send(output(0), 2).lane(1).copy(input(1), output(1));
  const Schedule a = finish(waits);
  CHECK(fuse(a) == a);
  Builder blocks = build();
  blocks.recv(1, output(0)).recv(1, output(1)).send(output(0), 2);
  const Schedule b = finish(blocks);
  CHECK(fuse(b) == b);
}

TEST_CASE("fuse: a wait for steps of a lane that became shorter waits for the same work") {
  Builder apart = build(2), joined = build(2);
  apart.recv(1, output(0)).send(output(0), 2).recv(1, output(1));
  apart.lane(1).wait(0, 2).copy(input(2), output(2)).wait(0, 3).send(output(1), 3);
  joined.recv_send(1, output(0), List{2}).recv(1, output(1));
  joined.lane(1).wait(0, 1).copy(input(2), output(2)).wait(0, 2).send(output(1), 3);
  CHECK(fuse(finish(apart)) == finish(joined));
}
