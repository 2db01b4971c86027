#include <cerrno>
#include <memory>
#include <string>

#include <catch2/catch.hpp>

#include "base/clock.h"
#include "base/status.h"
#include "base/types.h"

using namespace rondo;

namespace {

Status passes_on(Status inner) {
  RONDO_TRY(inner);
  return fail(Code::internal, "went on");
}

}  // namespace

TEST_CASE("status: ok has no text, a failure keeps its code and text in every copy") {
  CHECK(Status().ok());
  CHECK(Status().code() == Code::ok);
  CHECK(Status().text().empty());
  const Status failed = fail(Code::peer, "rank {} exited without destroy", 3);
  const Status copy = failed;
  CHECK(copy.code() == Code::peer);
  CHECK(copy.text() == "rank 3 exited without destroy");
}

TEST_CASE("status: the try macro returns the failure and goes on after ok") {
  CHECK(passes_on(fail(Code::timeout, "late")).text() == "late");
  CHECK(passes_on({}).text() == "went on");
}

TEST_CASE("status: a system error names the errno, and a lack of memory has its own code") {
  const Status denied = system_error(EACCES, "tcp: bind 127.0.0.1:80");
  CHECK(denied.code() == Code::system);
  CHECK(denied.text() == "tcp: bind 127.0.0.1:80: Permission denied (errno 13)");
  CHECK(system_error(ENOMEM, "shm: map").code() == Code::no_memory);
}

TEST_CASE("status: a result moves its value out, or gives its failure") {
  Result<std::unique_ptr<int>> made(std::make_unique<int>(7));
  REQUIRE(made.ok());
  const std::unique_ptr<int> taken = std::move(made).value();
  CHECK(*taken == 7);
  const Result<int> failed = fail(Code::invalid, "no");
  CHECK_FALSE(failed.ok());
  CHECK(failed.status().text() == "no");
}

TEST_CASE("types: every name leads back to its value") {
  for (uint32_t i = 0; i < kDTypeCount; ++i) CHECK(dtype_named(name(static_cast<DType>(i))) == static_cast<DType>(i));
  for (uint32_t i = 0; i < kRedOpCount; ++i) CHECK(redop_named(name(static_cast<RedOp>(i))) == static_cast<RedOp>(i));
  for (uint32_t i = 0; i < kCollectiveCount; ++i)
    CHECK(collective_named(name(static_cast<Collective>(i))) == static_cast<Collective>(i));
  CHECK_FALSE(dtype_named("float").has_value());
  CHECK_FALSE(redop_named("").has_value());
}

TEST_CASE("types: bit operations are defined for integers only") {
  CHECK(is_defined(DType::uint8, RedOp::bxor));
  CHECK_FALSE(is_defined(DType::float16, RedOp::band));
  CHECK(is_defined(DType::float8_e4m3, RedOp::avg));
}

TEST_CASE("clock: a deadline of never does not pass, one in the past has passed") {
  CHECK_FALSE(Deadline::never().passed());
  CHECK(Deadline::never().poll_ms(250) == 250);
  const Deadline past{now_ns() - 1};
  CHECK(past.passed());
  CHECK(past.poll_ms(250) == 0);
  CHECK(Deadline::after_ms(60000).poll_ms(250) == 250);
}
