// The C++ face, in a job of one rank: what it owns, deduces, checks and throws. What the calls do among many ranks is
// the C face's business and tested there.
#include <array>
#include <catch2/catch.hpp>
#include <numeric>
#include <type_traits>
#include <vector>

#include "rondo/rondo.hpp"

namespace {

rondo::Comm alone() {
  rondo_options options = RONDO_OPTIONS_INIT;
  options.rank = 0;
  options.world = 1;
  return rondo::Comm(options);
}

rondo_status status_of(const rondo::Error& error) { return error.status(); }

template <class Call>
rondo_status thrown(Call call) {
  try {
    call();
  } catch (const rondo::Error& error) {
    return status_of(error);
  }
  return RONDO_OK;
}

}  // namespace

static_assert(rondo::dtype_of<signed char> == RONDO_INT8);
static_assert(rondo::dtype_of<unsigned short> == RONDO_UINT16);
static_assert(rondo::dtype_of<long> == RONDO_INT64);
static_assert(rondo::dtype_of<long long> == RONDO_INT64);
static_assert(rondo::dtype_of<const float> == RONDO_FLOAT32);
static_assert(!std::is_copy_constructible_v<rondo::Op> && std::is_nothrow_move_constructible_v<rondo::Op>);
static_assert(!std::is_copy_constructible_v<rondo::Buffer<int>>);

TEST_CASE("a communicator of one rank does every collective on ranges") {
  const rondo::Comm comm = alone();
  REQUIRE(comm.rank() == 0);
  REQUIRE(comm.world() == 1);
  std::vector<double> in = {1, 2, 3};
  std::array<double, 3> out{};
  comm.allreduce(in, out);
  REQUIRE(out[2] == 3);
  comm.allreduce(in, in, RONDO_AVG);
  comm.broadcast(in, 0);
  comm.allgather(in, out);
  comm.reduce_scatter(in, out, RONDO_MAX);
  comm.alltoall(in, out);
  comm.barrier();
  REQUIRE(in == std::vector<double>{1, 2, 3});
  REQUIRE(out[0] == 1);
}

TEST_CASE("lengths that do not fit are refused before anything is started") {
  const rondo::Comm comm = alone();
  std::vector<float> three(3), two(2);
  REQUIRE(thrown([&] { comm.allreduce(three, two); }) == RONDO_ERR_INVALID);
  REQUIRE(thrown([&] { comm.allgather(three, two); }) == RONDO_ERR_INVALID);
  REQUIRE(thrown([&] { comm.reduce_scatter(three, two); }) == RONDO_ERR_INVALID);
  REQUIRE(thrown([&] { comm.alltoall(three, two); }) == RONDO_ERR_INVALID);
  comm.allreduce(three, three);
}

TEST_CASE("a failure is thrown with its status, name and cause") {
  const rondo::Comm comm = alone();
  std::vector<float> data(4);
  try {
    comm.broadcast(data, 7);
    FAIL("root 7 of 1 was accepted");
  } catch (const rondo::Error& error) {
    REQUIRE(error.status() == RONDO_ERR_INVALID);
    REQUIRE(std::string(error.what()).find("INVALID: ") == 0);
    REQUIRE(std::string(error.what()).find('7') != std::string::npos);
  }
  rondo_options options = RONDO_OPTIONS_INIT;
  options.rank = 3;
  options.world = 2;
  REQUIRE(thrown([&] { rondo::Comm bad(options); }) == RONDO_ERR_INVALID);
}

TEST_CASE("operations complete, move, and outlive their handle's scope safely") {
  const rondo::Comm comm = alone();
  std::vector<int> in(1000), out(1000);
  std::iota(in.begin(), in.end(), 0);
  rondo::Op op = comm.allreduce_start(in.data(), out.data(), in.size());
  rondo::Op moved = std::move(op);
  REQUIRE_FALSE(op);
  moved.wait();
  REQUIRE(moved.test());
  REQUIRE(moved.wait_for(std::chrono::seconds(1)));
  REQUIRE(out == in);
  moved = comm.barrier_start();
  { const rondo::Op dropped = comm.broadcast_start(in.data(), in.size(), 0); }
  moved.detach();
  REQUIRE_FALSE(moved);
}

TEST_CASE("persistent operations start again and again, and throw what is refused") {
  const rondo::Comm comm = alone();
  std::vector<float> in(100, 1), out(100);
  rondo_call_options options = RONDO_CALL_OPTIONS_INIT;
  options.postscale = 3;
  rondo::Op op = comm.allreduce_init(in.data(), out.data(), in.size(), RONDO_SUM, options);
  for (float value : {1.0f, 2.0f}) {
    std::fill(in.begin(), in.end(), value);
    op.start();
    op.wait();
    REQUIRE(out == std::vector<float>(100, 3 * value));
  }
  const rondo::Op once = comm.barrier_start();
  REQUIRE(thrown([&] { once.start(); }) == RONDO_ERR_INVALID);
  REQUIRE(thrown([&] { (void)comm.broadcast_init(in.data(), in.size(), 7); }) == RONDO_ERR_INVALID);
}

TEST_CASE("shared buffers are zeroed, usable as ranges, and keep their communicator") {
  rondo::Buffer<float> buffer;
  {
    const rondo::Comm comm = alone();
    buffer = comm.alloc<float>(100);
    REQUIRE(buffer.size() == 100);
    REQUIRE(std::accumulate(buffer.begin(), buffer.end(), 0.0f) == 0);
    buffer[3] = 5;
    comm.allreduce(buffer, buffer);
  }
  REQUIRE(buffer[3] == 5);
  rondo::Buffer<float> moved = std::move(buffer);
  REQUIRE(moved[3] == 5);
  REQUIRE(thrown([] { alone().alloc<double>(SIZE_MAX / 2); }) != RONDO_OK);
}

TEST_CASE("a group starts sends and receives together") {
  const rondo::Comm comm = alone();
  std::vector<int> sent = {4, 5, 6}, received(3);
  rondo::Group group = comm.group();
  comm.send(sent, 0);
  comm.recv(received, 0);
  group.end();
  REQUIRE(received == sent);
  REQUIRE(thrown([&] { group.end(); }) == RONDO_ERR_INVALID);
}

TEST_CASE("a split without a color is empty, one with a color works") {
  const rondo::Comm comm = alone();
  REQUIRE_FALSE(comm.split(-1));
  const rondo::Comm part = comm.split(2);
  REQUIRE(part);
  REQUIRE(part.world() == 1);
  part.barrier();
}

TEST_CASE("after an abort calls throw ABORTED with the reason") {
  const rondo::Comm comm = alone();
  comm.abort("the disk is full");
  std::vector<float> data(4);
  try {
    comm.allreduce(data, data);
    FAIL("an aborted communicator was used");
  } catch (const rondo::Error& error) {
    REQUIRE(error.status() == RONDO_ERR_ABORTED);
    REQUIRE(std::string(error.what()).find("the disk is full") != std::string::npos);
  }
  REQUIRE(comm.health() == RONDO_ERR_ABORTED);
}
