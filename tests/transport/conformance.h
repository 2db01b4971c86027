// The suite that every transport joins. An implementation enrols with a factory for a connected world of transports:
//
//   TEST_CASE("conformance: loopback, like shared memory") {
//     conformance::run([](uint32_t ranks) { … return world; });
//   }
//
// One thread cranks all ranks in turn; every wait has a deadline. cases.h holds what is checked, this file the means.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "transport/contract.h"

namespace rondo::conformance {

inline constexpr int64_t kPatienceMs = 20'000;  // of one wait; only a defect takes so long

// Connected transports, one per rank. A null entry: that rank has ended.
struct World {
  std::vector<std::unique_ptr<Transport>> transports;
  // Ends a rank without a word. Null: its transport is destroyed.
  std::function<void(Rank)> kill;
  std::shared_ptr<void> keep;  // whatever must outlive the transports
};

using Factory = std::function<World(uint32_t ranks)>;

// Connects everyone with everyone, each rank in a thread of its own: connect() waits for the others.
inline void connect_all(World& world) {
  const uint32_t ranks = static_cast<uint32_t>(world.transports.size());
  std::vector<Peer> all;
  for (Rank rank = 0; rank < ranks; ++rank) all.push_back({rank, world.transports[rank]->address()});
  std::vector<Status> results(ranks);
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      std::vector<Peer> peers;
      for (const Peer& peer : all)
        if (peer.rank != rank) peers.push_back(peer);
      results[rank] = world.transports[rank]->connect(peers, Deadline::after_ms(kPatienceMs));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& result : results) {
    INFO(result.text());
    REQUIRE(result.ok());
  }
}

inline std::byte pattern(uint64_t seed, size_t i) {
  return static_cast<std::byte>((seed * 0x9e3779b97f4a7c15u + i * 0x100000001b3u) >> 29);
}
inline std::vector<std::byte> payload(uint64_t seed, size_t bytes) {
  std::vector<std::byte> data(bytes);
  for (size_t i = 0; i < bytes; ++i) data[i] = pattern(seed, i);
  return data;
}
// The first byte that differs, or `bytes`.
inline size_t first_wrong(const std::byte* data, uint64_t seed, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i)
    if (data[i] != pattern(seed, i)) return i;
  return bytes;
}

// A world with the completions that each rank has got.
class Rig {
 public:
  Rig(const Factory& factory, uint32_t ranks) : world_(factory(ranks)), completed_(ranks) {
    REQUIRE(world_.transports.size() == ranks);
  }
  ~Rig() {  // all ranks leave together, as they do in a job
    std::vector<std::thread> threads;
    for (auto& transport : world_.transports)
      if (transport) threads.emplace_back([&transport] { transport.reset(); });
    for (std::thread& thread : threads) thread.join();
  }

  uint32_t ranks() const { return static_cast<uint32_t>(world_.transports.size()); }
  Transport& at(Rank rank) { return *world_.transports[rank]; }
  const Caps& caps() { return at(0).caps(); }
  Endpoint& link(Rank from, Rank to) {
    Endpoint* endpoint = at(from).endpoint(to);
    REQUIRE(endpoint != nullptr);
    return *endpoint;
  }

  // The status of every link that has failed.
  std::string failures() {
    std::string text;
    for (Rank from = 0; from < ranks(); ++from) {
      for (Rank to = 0; to < ranks() && world_.transports[from]; ++to) {
        const Endpoint* endpoint = at(from).endpoint(to);
        if (endpoint != nullptr && !endpoint->status().ok())
          text += fmt::format("; rank {}: {}", from, endpoint->status().text());
      }
    }
    return text;
  }

  bool progress(Rank rank) {
    scratch_.clear();
    const bool moved = at(rank).progress(scratch_);
    for (const Completion& completion : scratch_) ++completed_[rank][completion.token];
    return moved;
  }
  void crank() {
    bool moved = false;
    for (Rank rank = 0; rank < ranks(); ++rank)
      if (world_.transports[rank]) moved |= progress(rank);
    if (!moved) sched_yield();
  }
  // Progresses everyone until `done()`.
  template <class Done>
  void until(const char* what, Done done) {
    const Deadline deadline = Deadline::after_ms(kPatienceMs);
    while (!done()) {
      if (deadline.passed()) FAIL("no end of waiting for: " << what << failures());
      crank();
    }
  }
  // Progresses everyone a few times: enough for whatever is under way here.
  void settle() {
    for (int i = 0; i < 100; ++i) crank();
  }

  // Sends, however often it takes. The payload must live until the completion where this answers `pending`.
  Sent send(Rank from, Rank to, const Frame& frame, const std::byte* data, Token token = 0) {
    Sent sent = Sent::again;
    until("room to send", [&] { return (sent = link(from, to).send(frame, data, token)) != Sent::again; });
    INFO(link(from, to).status().text());
    REQUIRE(sent != Sent::failed);
    return sent;
  }
  Message receive(Rank at, Rank from, const StreamKey& key) {
    Message message;
    until("a message", [&] { return link(at, from).poll(key, &message); });
    return message;
  }
  // Receives, compares with the pattern and releases.
  void expect(Rank at, Rank from, const Frame& frame, uint64_t seed) {
    const Message message = receive(at, from, key_of(frame));
    CHECK(message.frame == frame);
    REQUIRE(message.frame.bytes == frame.bytes);
    CHECK(first_wrong(message.data, seed, frame.bytes) == frame.bytes);
    link(at, from).release(message);
  }
  int completions(Rank rank, Token token) const {
    const auto at = completed_[rank].find(token);
    return at == completed_[rank].end() ? 0 : at->second;
  }
  size_t completions(Rank rank) const { return completed_[rank].size(); }
  // Waits for the completions of `pending` sends of a rank, each with a token of its own.
  void complete(Rank rank, const std::vector<Token>& pending) {
    until("completions", [&] {
      for (const Token token : pending)
        if (completions(rank, token) == 0) return false;
      return true;
    });
  }

  void kill(Rank rank) {
    if (world_.kill) {
      world_.kill(rank);
    } else {
      world_.transports[rank].reset();
    }
  }
  // Destroys a rank's transport, which may wait for its peers, while the others progress.
  void close(Rank rank) {
    std::unique_ptr<Transport> leaving = std::move(world_.transports[rank]);
    std::atomic<bool> gone = false;
    std::thread thread([&] {
      leaving.reset();
      gone.store(true);
    });
    while (!gone.load()) crank();
    thread.join();
  }

 private:
  World world_;
  std::vector<std::map<Token, int>> completed_;
  std::vector<Completion> scratch_;
};

}  // namespace rondo::conformance

#include "conformance_cases.h"
