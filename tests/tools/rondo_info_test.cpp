// rondo-info: that it prints every knob with value and source, and is readable by programs.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "command.h"

using rondo::test::Outcome;
using rondo::test::run_command;

TEST_CASE("every knob is listed with its value and where it came from") {
  setenv("RONDO_TRANSPORTS", "tcp", 1);
  const Outcome outcome = run_command({RONDO_INFO_PROGRAM, "--json", "--config", "RONDO_TIMEOUT_MS=1234"});
  unsetenv("RONDO_TRANSPORTS");
  REQUIRE(outcome.exit_code == 0);
  const nlohmann::json info = nlohmann::json::parse(outcome.out);
  bool transports = false, timeout = false;
  for (const auto& row : info["configuration"]) {
    if (row["name"] == "RONDO_TRANSPORTS") transports = row["value"] == "tcp" && row["source"] == "environment";
    if (row["name"] == "RONDO_TIMEOUT_MS") timeout = row["value"] == "1234" && row["source"] == "options.config";
  }
  REQUIRE(transports);
  REQUIRE(timeout);
  REQUIRE(info["kernels"]["usable"].size() >= 1);
  REQUIRE(info["transports"].size() >= 2);
  REQUIRE(info["algorithms"].size() >= 1);
}

TEST_CASE("the text names what is usable, and a misspelt variable is warned about") {
  setenv("RONDO_TRANSPORT", "tcp", 1);
  const Outcome outcome = run_command({RONDO_INFO_PROGRAM});
  unsetenv("RONDO_TRANSPORT");
  REQUIRE(outcome.exit_code == 0);
  REQUIRE(outcome.out.find("RONDO_LIVENESS_MS") != std::string::npos);
  REQUIRE(outcome.out.find("warning: ") != std::string::npos);
  REQUIRE(outcome.out.find("RONDO_TRANSPORT") != std::string::npos);
}

TEST_CASE("a value that a knob does not take ends with 2 and is named") {
  const Outcome outcome = run_command({RONDO_INFO_PROGRAM, "--config", "RONDO_TIMEOUT_MS=soon"});
  REQUIRE(outcome.exit_code == 2);
  REQUIRE(outcome.err.find("soon") != std::string::npos);
}
