// Chaos: a transport around another one that does everything the contract allows and nobody expects: it delays and
// reorders what may be reordered, answers `again` and `pending` when it could have moved, hides arrivals, refuses slots
// and exposed memory, delivers completions late, and loses a peer at a chosen message. For tests.
//
// Time is counted in progress() calls, and every choice comes from the seed, so one thread that makes the same calls
// sees the same run. Every refusal is bounded: a caller that keeps progressing always gets on.
#pragma once

#include <cstdint>
#include <memory>

#include "transport/contract.h"

namespace rondo {

struct ChaosOptions {
  static constexpr Rank kNobody = UINT32_MAX;

  uint64_t seed = 1;
  // Chances in percent.
  uint32_t again = 20;         // send() answers `again`
  uint32_t hold = 40;          // a send or commit is accepted and passed on later
  uint32_t hide = 20;          // poll() and peek_user() see nothing
  uint32_t refuse = 25;        // expose(), reserve() and withdraw() say no
  uint32_t idle = 20;          // progress() leaves the transport below alone
  uint32_t late = 30;          // a completion is kept back
  uint32_t delay_most = 6;     // progress() calls that something is kept back
  uint32_t refusals_most = 5;  // refusals in a row
  // Seen from here, this peer dies once so many messages have gone either way on its link.
  Rank lose_peer = kNobody;
  uint64_t lose_after = 0;
};

// The inner transport is owned.
std::unique_ptr<Transport> make_chaos(std::unique_ptr<Transport> inner, const ChaosOptions& options);
// The inner transport is borrowed and must outlive the result.
std::unique_ptr<Transport> make_chaos(Transport& inner, const ChaosOptions& options);

}  // namespace rondo
