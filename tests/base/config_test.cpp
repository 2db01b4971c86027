#include <stdlib.h>

#include <initializer_list>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "base/config.h"

using namespace rondo;

namespace {

Result<Config> made(std::initializer_list<const char*> environment, const char* override_string = nullptr) {
  const std::vector<const char*> variables(environment);
  return Config::from(variables, override_string);
}

std::string failure(std::initializer_list<const char*> environment, const char* override_string = nullptr) {
  const auto config = made(environment, override_string);
  REQUIRE_FALSE(config.ok());
  CHECK(config.status().code() == Code::invalid);
  return config.status().text();
}

}  // namespace

TEST_CASE("config: an empty environment gives every default, and says so") {
  const Config config = made({}).value();
  CHECK(config.integer(Key::rank) == -1);
  CHECK(config.integer(Key::world) == -1);
  CHECK(config.milliseconds(Key::timeout_ms) == 600000);
  CHECK(config.milliseconds(Key::liveness_ms) == 5000);
  CHECK(config.milliseconds(Key::join_timeout_ms) == 60000);
  CHECK(config.bytes(Key::shm_bytes) == 64 << 20);
  CHECK(config.choice(Key::log) == 1);
  CHECK(config.choice(Key::determinism) == 0);
  CHECK(config.ports(Key::port_range) == PortRange{0, 0});
  CHECK_FALSE(config.flag(Key::require_key));
  CHECK(config.text(Key::rendezvous).empty());
  for (const ConfigRow& row : config.describe()) CHECK(row.source == "default");
  CHECK(config.warnings().empty());
}

TEST_CASE("config: every row has a unique RONDO_ name, a doc line and a default that can be read") {
  std::set<std::string> names;
  for (const ConfigRow& row : Config().describe()) {
    CHECK(row.name.rfind("RONDO_", 0) == 0);
    CHECK_FALSE(row.doc.empty());
    CHECK(row.value == row.initial);
    CHECK(names.insert(row.name).second);
  }
  CHECK(names.size() == kKeyCount);
}

TEST_CASE("config: values come from the environment and remember it") {
  const Config config =
      made({"RONDO_RANK=3", "RONDO_WORLD=4", "RONDO_SHM_BYTES=1g", "RONDO_REQUIRE_KEY=yes", "RONDO_LOG=DEBUG",
            "RONDO_DETERMINISM=a3", "RONDO_PORT_RANGE=4000-4010", "RONDO_TIMEOUT_MS=-1", "PATH=/bin"})
          .value();
  CHECK(config.integer(Key::rank) == 3);
  CHECK(config.source(Key::rank) == Source::environment);
  CHECK(config.given(Key::world));
  CHECK_FALSE(config.given(Key::local_rank));
  CHECK(config.bytes(Key::shm_bytes) == int64_t{1} << 30);
  CHECK(config.flag(Key::require_key));
  CHECK(config.choice(Key::log) == 3);
  CHECK(config.choice(Key::determinism) == 2);
  CHECK(config.ports(Key::port_range) == PortRange{4000, 4010});
  CHECK(config.milliseconds(Key::timeout_ms) == -1);
}

TEST_CASE("config: an empty variable counts as not set, and the first of two counts") {
  const Config config = made({"RONDO_RANK=", "RONDO_WORLD=4", "RONDO_WORLD=5"}).value();
  CHECK_FALSE(config.given(Key::rank));
  CHECK(config.integer(Key::world) == 4);
}

TEST_CASE("config: the override string wins over the environment, options over both") {
  Config config = made({"RONDO_WINDOW=2", "RONDO_RANK=1"}, " RONDO_WINDOW=4 ; RONDO_LOG=info;").value();
  CHECK(config.integer(Key::window) == 4);
  CHECK(config.source(Key::window) == Source::options_config);
  CHECK(config.source(Key::log) == Source::options_config);
  REQUIRE(config.set(Key::window, "8", Source::options).ok());
  CHECK(config.integer(Key::window) == 8);
  CHECK(config.describe()[static_cast<size_t>(Key::window)].source == "options");
  REQUIRE(config.set(Key::window, "", Source::options).ok());
  CHECK(config.integer(Key::window) == 0);
  CHECK_FALSE(config.given(Key::window));
}

TEST_CASE("config: an algorithm list keeps its semicolons inside the override string") {
  const Config config = made({}, "RONDO_ALGORITHM=allreduce:tree;broadcast:^chain;RONDO_RANK=2").value();
  CHECK(config.text(Key::algorithm) == "allreduce:tree;broadcast:^chain");
  CHECK(config.integer(Key::rank) == 2);
}

TEST_CASE("config: a wrong value is refused with its name, the value and what was expected") {
  CHECK(failure({"RONDO_RANK=two"}) == "RONDO_RANK=two (from environment): expected a whole number from 0 to 16777215");
  CHECK(failure({}, "RONDO_LOG=loud") == "RONDO_LOG=loud (from options.config): expected one of error|warn|info|debug");
  CHECK(failure({"RONDO_REQUIRE_KEY=maybe"}).find("expected 0 or 1") != std::string::npos);
}

TEST_CASE("config: values out of range, with trailing text or overflowing are refused") {
  const char* wrong =
      GENERATE("RONDO_RANK=-1", "RONDO_RANK=1x", "RONDO_RANK=0x10", "RONDO_RANK=99999999999999999999", "RONDO_WORLD=0",
               "RONDO_WINDOW=65", "RONDO_SHM_BYTES=-1", "RONDO_SHM_BYTES=64MB", "RONDO_SHM_BYTES=M",
               "RONDO_SHM_BYTES=9999999999G", "RONDO_SHM_BYTES=1K", "RONDO_PORT_RANGE=10-9", "RONDO_PORT_RANGE=1-65536",
               "RONDO_PORT_RANGE=0-9", "RONDO_PORT_RANGE=-5", "RONDO_TIMEOUT_MS=-2", "RONDO_TIMEOUT_MS=10s",
               "RONDO_DETERMINISM=A4", "RONDO_JOIN_TIMEOUT_MS=0");
  CAPTURE(wrong);
  const std::string text = failure({wrong});
  CHECK(text.rfind(std::string(wrong) + " (from environment): expected ", 0) == 0);
}

TEST_CASE("config: a refused set changes nothing") {
  Config config = made({"RONDO_RANK=3"}).value();
  CHECK_FALSE(config.set(Key::rank, "-7", Source::options).ok());
  CHECK(config.integer(Key::rank) == 3);
  CHECK(config.source(Key::rank) == Source::environment);
}

TEST_CASE("config: a wrong environment value that the override replaces does no harm") {
  const Config config = made({"RONDO_RANK=two"}, "RONDO_RANK=2").value();
  CHECK(config.integer(Key::rank) == 2);
}

TEST_CASE("config: an unknown name in the environment is a warning that names the nearest one") {
  const Config config = made({"RONDO_TIMEOUT=5", "RONDO_SOMETHING_ELSE=1", "rondo_rank=1", "RONDOX=1"}).value();
  REQUIRE(config.warnings().size() == 2);
  CHECK(config.warnings()[0] == "unknown environment variable RONDO_SOMETHING_ELSE");
  CHECK(config.warnings()[1] == "unknown environment variable RONDO_TIMEOUT (nearest known name: RONDO_TIMEOUT_MS)");
}

TEST_CASE("config: an unknown name or a stray word in the override string is an error") {
  CHECK(failure({}, "RONDO_RANKS=1") == "config string: unknown name RONDO_RANKS (nearest known name: RONDO_RANK)");
  CHECK(failure({}, "PATH=/bin") == "config string: unknown name PATH");
  CHECK(failure({}, "ring") == "config string: 'ring' is not NAME=value");
  CHECK(failure({}, "=1") == "config string: '=1' is not NAME=value");
}

TEST_CASE("config: variables of other launchers are read from the captured environment") {
  const Config config = made({"OMPI_COMM_WORLD_RANK=5", "PMI_RANK=", "BROKEN"}).value();
  CHECK(config.foreign("OMPI_COMM_WORLD_RANK") == "5");
  CHECK_FALSE(config.foreign("PMI_RANK").has_value());
  CHECK_FALSE(config.foreign("BROKEN").has_value());
  CHECK_FALSE(config.foreign("SLURM_PROCID").has_value());
  const Config copy = config;
  CHECK(copy.foreign("OMPI_COMM_WORLD_RANK") == "5");
}

TEST_CASE("config: the process environment is captured once") {
  REQUIRE(setenv("RONDO_WINDOW", "7", 1) == 0);
  const auto config = Config::from_environment(nullptr);
  REQUIRE(unsetenv("RONDO_WINDOW") == 0);
  REQUIRE(config.ok());
  CHECK(config.value().integer(Key::window) == 7);
}
