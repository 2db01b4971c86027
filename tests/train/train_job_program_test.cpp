// rondo-train as a program: exit codes, what it prints, and its JSON.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace {

struct Outcome {
  int exit_code;
  std::string text;  // both streams
};

// Without a launcher the program is a job of one rank. The variables a surrounding job may have set are taken away.
Outcome run_program(const std::string& arguments) {
  const std::string command = "env -i PATH=/usr/bin:/bin timeout 120 " RONDO_TRAIN_PROGRAM " " + arguments + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  Outcome outcome;
  std::array<char, 4096> part;
  while (const size_t got = fread(part.data(), 1, part.size(), pipe)) outcome.text.append(part.data(), got);
  const int status = pclose(pipe);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("rondo-train: a missing data set exits with 2 and names the package") {
  const Outcome outcome = run_program("--data /no/such/folder");
  CHECK(outcome.exit_code == 2);
  CHECK(contains(outcome.text, "apt-get install dataset-fashion-mnist"));
}

TEST_CASE("rondo-train: a synthetic run is labelled as one, and its JSON says what was printed") {
  const std::string json =
      (std::filesystem::temp_directory_path() / ("rondo-train-" + std::to_string(getpid()) + ".json")).string();
  const Outcome outcome = run_program("--synthetic 400 --epochs 2 --batch 20 --json " + json);
  INFO(outcome.text);
  REQUIRE(outcome.exit_code == 0);
  CHECK(contains(outcome.text, "data: SYNTHETIC (generated images, no real data set)"));
  CHECK(contains(outcome.text, " on SYNTHETIC data"));
  std::ifstream file(json);
  const nlohmann::json root = nlohmann::json::parse(file, nullptr, false);
  std::filesystem::remove(json);
  REQUIRE_FALSE(root.is_discarded());
  CHECK(root["synthetic"] == true);
  CHECK(root["world"] == 1);
  CHECK(root["epochs"].size() == 2);
  CHECK(root["steps_per_epoch"] == 20);
  const std::string hash = root["weights_hash"];
  CHECK(contains(outcome.text, "weights: identical on 1 ranks (hash " + hash + ")"));
}

TEST_CASE("rondo-train: accuracy below what is required exits with 1") {
  const Outcome outcome = run_program("--synthetic 100 --epochs 1 --lr 0 --require-accuracy 0.99");
  CHECK(outcome.exit_code == 1);
  CHECK(contains(outcome.text, "is below the required 0.9900"));
}

TEST_CASE("rondo-train: options that do not fit exit with 4, unknown ones with more than 100") {
  CHECK(run_program("--synthetic 10 --batch 64").exit_code == 4);
  CHECK(run_program("--synthetic 100 --model transformer").exit_code == 4);
  CHECK(run_program("--synthetic 400 --epochs 1 --json /no/such/folder/file").exit_code == 4);
  CHECK(run_program("--bogus").exit_code > 100);
  CHECK(run_program("--epochs 0").exit_code > 100);
}
