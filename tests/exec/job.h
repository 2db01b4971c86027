// A job of several ranks in one thread: executors over a loopback world, cranked in turn. Values are checked against
// the reference kernels. Used by the executor's tests.
#pragma once

#include <catch2/catch.hpp>

#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "algo/registry.h"
#include "exec/executor.h"
#include "exec/request.h"
#include "kernels/kernels.h"
#include "transports/chaos/chaos.h"
#include "transports/loopback/loopback.h"

namespace rondo::test {

struct JobOptions {
  uint32_t world = 2;
  LoopbackOptions loopback;
  bool chaos = false;
  uint64_t seed = 1;
};

class Job {
 public:
  explicit Job(const JobOptions& options, Device* device = nullptr)
      : world_(options.world), host_(kernels::best()), loopback_(options.world, options.loopback) {
    for (Rank rank = 0; rank < world_; ++rank) {
      Transport* transport = &loopback_.transport(rank);
      if (options.chaos) {
        wrapped_.push_back(make_chaos(*transport, {.seed = options.seed * 31 + rank}));
        transport = wrapped_.back().get();
      }
      std::vector<Peer> peers;
      for (Rank peer = 0; peer < world_; ++peer)
        if (peer != rank) peers.push_back({peer, loopback_.transport(peer).address()});
      REQUIRE(transport->connect(peers, Deadline::after_ms(1000)).ok());
      transports_.push_back(transport);
    }
    for (Rank rank = 0; rank < world_; ++rank) {
      auto group = std::make_unique<Group>();
      group->id = 1;
      group->rank = rank;
      for (Rank peer = 0; peer < world_; ++peer)
        group->members.push_back({peer, peer == rank ? nullptr : transports_[rank]->endpoint(peer),
                                  peer == rank ? nullptr : transports_[rank]});
      groups_.push_back(std::move(group));
      executors_.push_back(std::make_unique<Executor>(Executor::Options{
          .device = device ? device : &host_, .transports = {transports_[rank]}, .expose_bytes = 64}));
    }
  }
  ~Job() { executors_.clear(); }

  LoopbackWorld& loopback() { return loopback_; }
  Group& group(Rank rank) { return *groups_[rank]; }
  Executor& executor(Rank rank) { return *executors_[rank]; }

  struct Plan {
    const Algorithm* algorithm = nullptr;
    uint32_t lanes = 1;
    size_t piece = 1;  // elements
    uint32_t window = 1;
    std::function<Schedule(const Schedule&)> rewrite;
  };

  // Starts the request on `rank`; the caller holds the reference.
  Operation* start(Rank rank, const Request& request, const Plan& plan) {
    Shape shape{.collective = request.collective,
                .world = world_,
                .chunks = plan.algorithm->chunks(world_, plan.lanes),
                .lanes = plan.lanes,
                .root = static_cast<uint32_t>(request.root)};
    schedules_.push_back(std::make_unique<Schedule>(plan.algorithm->generate(shape, rank)));
    if (plan.rewrite) *schedules_.back() = plan.rewrite(*schedules_.back());
    auto* operation = new Operation;
    operation->group = groups_[rank].get();
    operation->call = call_of(request, world_);
    operation->seq = groups_[rank]->next_seq++;
    operation->fingerprint = groups_[rank]->chain = chain(groups_[rank]->chain, digest(operation->call));
    operation->schedule = schedules_.back().get();
    operation->binding.piece = plan.piece;
    operation->binding.window = plan.window;
    bind(request, world_, rank, schedules_.back()->chunks, operation->binding);
    executors_[rank]->submit(*operation);
    return operation;
  }

  // Cranks all ranks until `done`; false when nothing moves any more.
  bool crank(const std::function<bool()>& done, uint32_t still_most = 2000) {
    for (uint32_t still = 0; still < still_most; ++still) {
      for (auto& executor : executors_)
        if (executor && executor->progress()) still = 0;
      if (done()) return true;
    }
    return false;
  }

  bool crank(const std::vector<Operation*>& operations) {
    return crank([&] {
      for (Operation* operation : operations)
        if (!operation->ended()) return false;
      return true;
    });
  }

 private:
  uint32_t world_;
  HostDevice host_;
  LoopbackWorld loopback_;
  std::vector<std::unique_ptr<Transport>> wrapped_;
  std::vector<Transport*> transports_;
  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<std::unique_ptr<Schedule>> schedules_;
  std::vector<std::unique_ptr<Executor>> executors_;
};

}  // namespace rondo::test
