// Which algorithm runs a call, with how many lanes, in what pieces. Pure: the same inputs give the same choice on every
// rank, and all inputs are the same on every rank. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "algo/registry.h"
#include "base/status.h"
#include "tune/table.h"

namespace rondo {

// What a user allows: "ring", or "allreduce:ring,tree;broadcast:^chain" (a list of names, or ^ and what is excluded).
class AlgorithmSpec {
 public:
  static Result<AlgorithmSpec> parse(std::string_view text);
  // Ok when `algorithm` may run; `forced` in the answer of restricts() tells whether anything was said of a collective.
  bool allows(const Algorithm& algorithm) const;
  bool restricts(Collective collective) const;
  const std::string& text() const { return text_; }

 private:
  struct Clause {
    bool every = false;  // without a collective
    Collective collective = Collective::allreduce;
    bool exclude = false;
    std::vector<std::string> names;
  };
  std::string text_;
  std::vector<Clause> clauses_;
  const Clause* clause(Collective collective) const;
};

struct CommFacts {
  uint32_t world = 1;
  bool one_memory = false;               // all members share memory
  bool cells = false;                    // the one-shot exchange is there
  bool workspace = false;                // the workspace that all members write is there
  uint32_t ranks_a_cpu = 1;              // of this host, rounded up
  size_t message_bytes = 64 << 10;       // the largest message that every link takes
  size_t piece_bytes = 0;                // wished by the user; 0: chosen
  uint32_t window = 0;                   // the same
  uint32_t determinism = 1;              // 1: A1, 2: A2
  const TuningSection* tuned = nullptr;  // measured choices, the same on all ranks; null: none
};

struct Choice {
  const Algorithm* algorithm = nullptr;
  uint32_t lanes = 1;
  size_t piece_bytes = 64 << 10;
  uint32_t window = 1;
  std::string_view why;

  uint32_t hash() const;  // part of the call's fingerprint
};

// `bytes`: the whole buffer for allreduce, reduce and broadcast; one rank's block for the others. Unsupported, with
// what is possible, when nothing that the spec and the determinism level allow can run the call.
Result<Choice> choose(Collective collective, size_t bytes, const CommFacts& facts, const AlgorithmSpec& spec);

// Whether the two give the same bits. A measured choice replaces the default only by one that does.
bool same_sums(const Algorithm& a, const Algorithm& b);

// An algorithm of the collective and why it cannot run the call; empty: it can.
struct Candidate {
  const Algorithm* algorithm = nullptr;
  std::string obstacle;
};
std::vector<Candidate> candidates(Collective collective, size_t bytes, const CommFacts& facts,
                                  const AlgorithmSpec& spec);

// The payload that a one-shot cell takes.
inline constexpr size_t kOneShotBytes = 16384;

}  // namespace rondo
