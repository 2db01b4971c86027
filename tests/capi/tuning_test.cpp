// Measured choices from a file: what it changes, on which ranks, and what is said of a file that is none.
#include <sys/stat.h>
#include <catch2/catch.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "ranks.h"

using namespace rondo_test;

namespace {

constexpr size_t kBytes = 4096;

std::string explained(const rondo_comm* comm) {
  std::string text(rondo_explain(comm, "allreduce", kBytes, RONDO_FLOAT32, nullptr, 0), '\0');
  rondo_explain(comm, "allreduce", kBytes, RONDO_FLOAT32, text.data(), text.size() + 1);
  return text;
}

bool chosen(const std::string& text, const std::string& name) { return text.find(": " + name) < text.find('\n'); }

std::string value_after(const std::string& text, const std::string& mark) {
  const size_t at = text.find(mark);
  return at == std::string::npos ? "" : text.substr(at + mark.size(), text.find('\n', at) - at - mark.size());
}

// A file that is gone with its holder.
class File {
 public:
  explicit File(const std::string& text) : path_(std::filesystem::temp_directory_path() / name()) {
    std::ofstream(path_) << text;
  }
  ~File() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  std::string path() const { return path_.string(); }

 private:
  static std::string name() {
    static int number = 0;
    return fmt::format("rondo-tuning-test-{}-{}", getpid(), number++);
  }
  std::filesystem::path path_;
};

// What every rank's init says, by rank.
std::vector<std::string> init_texts(const JobSettings& job) {
  const std::string name = fresh_name();
  std::vector<Notes> notes(job.world);
  std::vector<std::thread> threads;
  for (int32_t rank = 0; rank < job.world; ++rank)
    threads.emplace_back([&, rank] { rondo_destroy(join(job, name, rank, notes[rank])); });
  for (std::thread& thread : threads) thread.join();
  std::vector<std::string> texts;
  for (const Notes& note : notes) texts.push_back(note.all());
  return texts;
}

}  // namespace

TEST_CASE("tuning: rank 0's rows choose on all ranks, and the sum stays as it was") {
  for (const int32_t world : {2, 3}) {
    std::string section;
    CHECK(run_ranks({.world = world, .config = "RONDO_TUNE=off"}, [&](rondo_comm* comm, int32_t rank, Notes& notes) {
            const std::string text = explained(comm);
            if (rank == 0) section = value_after(text, "tuning section: ");
            notes.expect(chosen(text, "oneshot"), text);
            notes.expect(value_after(text, "tuning rows: ") == "none", text);
            notes.expect(value_after(text, "tuning may take: ").find("owners") != std::string::npos, text);
          }) == "");
    REQUIRE(section.starts_with("["));
    const File file(
        fmt::format("rondo tuning 1\n{}\nallreduce {} owners\n[another]\nallreduce 9 ring\n", section, kBytes));
    const std::string config = "RONDO_TUNE=" + file.path();
    CHECK(run_ranks({.world = world, .config = config}, [&](rondo_comm* comm, int32_t rank, Notes& notes) {
            const std::string text = explained(comm);
            notes.expect(chosen(text, "owners"), text);
            notes.expect(value_after(text, "tuning rows: ") == fmt::format("{} owners", kBytes), text);
            notes.expect(text.find("measured to be quicker than the default") != std::string::npos, text);
            std::vector<float> in(kBytes / sizeof(float), static_cast<float>(rank + 1)), out(in.size());
            const rondo_status status =
                rondo_allreduce(comm, in.data(), out.data(), in.size(), RONDO_FLOAT32, RONDO_SUM, nullptr);
            const float sum = static_cast<float>(world * (world + 1) / 2);
            notes.expect(status == RONDO_OK && out.front() == sum && out.back() == sum, error_text(comm));
          }) == "");
  }
}

TEST_CASE("tuning: a named file that is missing or no table fails init on every rank, with its place") {
  const File file("rondo tuning 1\n[a]\nallreduce 8 teleport\n"), pipe("");
  std::filesystem::remove(pipe.path());
  REQUIRE(mkfifo(pipe.path().c_str(), 0600) == 0);  // nobody writes: who waited for it would wait for ever
  const std::pair<std::string, std::string> cases[] = {
      {file.path(), file.path() + ":3: allreduce has no algorithm 'teleport'; expected one of: default, "},
      {file.path() + "/none", "cannot read " + file.path() + "/none: Not a directory"},
      {std::filesystem::temp_directory_path().string(), "expected a file"},
      {pipe.path(), "expected a file"},
  };
  for (const auto& [path, expected] : cases) {
    const std::vector<std::string> texts = init_texts({.world = 3, .config = "RONDO_TUNE=" + path});
    for (const std::string& text : texts) {
      INFO(text);
      CHECK(text.find("INVALID") != std::string::npos);
      CHECK(text.find(expected) != std::string::npos);
    }
    CHECK(texts[1].find("rank 0: RONDO_TUNE: ") != std::string::npos);
    CHECK(init_texts({.world = 1, .config = "RONDO_TUNE=" + path})[0].find(expected) != std::string::npos);
  }
}

TEST_CASE("tuning: the largest file that is taken reaches all ranks, a larger one none") {
  const std::string head = "rondo tuning 1\n";
  const File largest(head + std::string((32 << 10) - head.size(), '#'));
  const File larger(head + std::string((32 << 10) - head.size() + 1, '#'));
  for (const std::string& text : init_texts({.world = 3, .config = "RONDO_TUNE=" + largest.path()})) CHECK(text == "");
  for (const std::string& text : init_texts({.world = 3, .config = "RONDO_TUNE=" + larger.path()}))
    CHECK(text.find(larger.path() + ": 32769 bytes, expected at most 32768") != std::string::npos);
}
