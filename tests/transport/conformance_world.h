// The cases of the conformance suite that are about whole worlds: loss, farewells, shared memory, random traffic; and
// the list of all cases. Included by conformance.h only.
#pragma once

#include "conformance_cases.h"

namespace rondo::conformance {

inline void only_peers_have_endpoints(const Factory& factory) {
  Rig rig(factory, 3);
  for (Rank rank = 0; rank < 3; ++rank) {
    CHECK(rig.at(rank).endpoint(rank) == nullptr);
    CHECK(rig.at(rank).endpoint(3) == nullptr);
    for (Rank peer = 0; peer < 3; ++peer) {
      CHECK(rig.at(rank).reaches(rig.at(peer).address()).ok());
      if (peer != rank) CHECK(rig.link(rank, peer).status().ok());
    }
    const Status odd = rig.at(rank).reaches("no such address");
    CHECK_FALSE(odd.ok());
    CHECK_FALSE(odd.text().empty());
  }
}

inline void a_lost_peer_is_reported_behind_its_data(const Factory& factory) {
  Rig rig(factory, 3);
  const size_t bytes = std::min<size_t>(rig.caps().inject_bytes, 300);
  for (uint64_t i = 0; i < 5; ++i) rig.send(1, 0, step_frame(bytes, i), payload(i, bytes).data());
  for (int i = 0; i < 100; ++i) rig.progress(1);
  rig.kill(1);
  for (uint64_t i = 0; i < 5; ++i) rig.expect(0, 1, step_frame(bytes, i), i);
  Message none;
  rig.until("the loss of rank 1", [&] {
    CHECK_FALSE(rig.link(0, 1).poll(key_of(step_frame(0)), &none));
    return !rig.link(0, 1).status().ok();
  });
  const Status first = rig.link(0, 1).status();
  CHECK(first.code() == Code::peer);
  CHECK_THAT(first.text(), Catch::Matchers::Contains("rank 1"));
  const std::byte word[8] = {};
  CHECK(rig.link(0, 1).send(step_frame(8), word, 1) == Sent::failed);
  rig.settle();
  CHECK(rig.link(0, 1).status().text() == first.text());
  rig.until("the loss of rank 1 at rank 2", [&] { return !rig.link(2, 1).status().ok(); });
  REQUIRE(rig.link(0, 2).status().ok());
  rig.send(0, 2, step_frame(8), payload(8, 8).data());
  rig.expect(2, 0, step_frame(8), 8);
}

inline void an_awaited_message_of_a_lost_peer_is_not_waited_for(const Factory& factory) {
  Rig rig(factory, 2);
  rig.send(1, 0, step_frame(8), payload(1, 8).data());
  for (int i = 0; i < 100; ++i) rig.progress(1);
  rig.kill(1);
  // The other stream's message stays where it is, and does not hide the loss from who waits here.
  StreamKey awaited = key_of(step_frame(0));
  awaited.seq = 1;
  Message none;
  rig.until("the loss", [&] { return !rig.link(0, 1).poll(awaited, &none) && !rig.link(0, 1).status().ok(); });
}

inline void a_lost_peer_wakes_who_is_armed(const Factory& factory) {
  Rig rig(factory, 2);
  if (rig.at(0).wait_fd() < 0) return;
  rig.settle();
  REQUIRE(fall_asleep(rig, 0));
  rig.kill(1);
  REQUIRE(wakes(rig, 0, {}));
  rig.at(0).disarm();
  rig.until("the loss", [&] { return !rig.link(0, 1).status().ok(); });
}

inline void a_lost_peer_completes_what_was_pending(const Factory& factory) {
  Rig rig(factory, 2);
  const std::vector<std::byte> data = payload(1, rig.caps().message_bytes);
  std::vector<Token> pending;
  for (Token token = 0; token < 200; ++token) {
    const Sent sent = rig.link(0, 1).send(step_frame(data.size(), token), data.data(), token);
    REQUIRE(sent != Sent::failed);
    if (sent == Sent::pending) pending.push_back(token);
    rig.progress(0);
  }
  rig.kill(1);
  rig.until("the loss", [&] {
    return !rig.link(0, 1).status().ok() || rig.link(0, 1).send(step_frame(1), data.data(), 0) == Sent::failed;
  });
  rig.complete(0, pending);
  rig.settle();
  for (const Token token : pending) CHECK(rig.completions(0, token) == 1);
}

inline void an_orderly_end_loses_nothing(const Factory& factory) {
  Rig rig(factory, 2);
  std::deque<std::vector<std::byte>> kept;
  std::vector<Token> pending;
  for (uint64_t i = 0; i < 20; ++i) {
    kept.push_back(payload(i, i % 5 == 0 ? rig.caps().message_bytes : i));
    if (rig.send(1, 0, step_frame(kept.back().size(), i), kept.back().data(), i) == Sent::pending) pending.push_back(i);
  }
  rig.complete(1, pending);
  rig.close(1);
  for (uint64_t i = 0; i < 20; ++i) rig.expect(0, 1, step_frame(kept[i].size(), i), i);
  rig.until("the end of rank 1", [&] { return !rig.link(0, 1).status().ok(); });
}

inline void areas_are_shared_by_their_members(const Factory& factory) {
  Rig rig(factory, 3);
  const std::vector<Rank> members = {2, 0, 1};
  for (int round = 0; round < 3; ++round) {
    auto first = rig.at(0).share(7, members, 256, Writers::owner);
    REQUIRE(first.ok());
    if (*first == nullptr) return;
    CHECK((*first)->of(0) == nullptr);
    std::vector<std::unique_ptr<SharedArea>> areas(3);
    areas[0] = std::move(*first);
    for (Rank rank = 1; rank < 3; ++rank) {
      auto area = rig.at(rank).share(7, members, 256, Writers::owner);
      REQUIRE(area.ok());
      areas[rank] = std::move(*area);
    }
    for (Rank rank = 0; rank < 3; ++rank) {
      std::byte* mine = areas[rank]->mine();
      REQUIRE(mine != nullptr);
      CHECK(reinterpret_cast<uintptr_t>(mine) % 128 == 0);
      CHECK(std::all_of(mine, mine + 256, [](std::byte b) { return b == std::byte{0}; }));
      const std::vector<std::byte> data = payload(rank + 1, 256);
      std::copy(data.begin(), data.end(), mine);
    }
    for (Rank reader = 0; reader < 3; ++reader) {
      for (uint32_t i = 0; i < 3; ++i) {
        const std::byte* piece = nullptr;
        rig.until("a piece", [&] { return (piece = areas[reader]->of(i)) != nullptr; });
        CHECK(first_wrong(piece, members[i] + 1, 256) == 256);
      }
    }
  }
}

inline void areas_can_be_written_by_all_members(const Factory& factory) {
  Rig rig(factory, 3);
  const std::vector<Rank> members = {1, 2, 0};
  for (int round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<SharedArea>> areas;
    for (Rank rank = 0; rank < 3; ++rank) {
      auto area = rig.at(rank).share(11, members, 3000, Writers::members);
      REQUIRE(area.ok());
      if (*area == nullptr) return;
      CHECK(reinterpret_cast<uintptr_t>((*area)->mine()) % 128 == 0);
      CHECK(std::all_of((*area)->mine(), (*area)->mine() + 3000, [](std::byte b) { return b == std::byte{0}; }));
      areas.push_back(std::move(*area));
    }
    for (Rank writer = 0; writer < 3; ++writer) {
      for (uint32_t i = 0; i < 3; ++i) {
        std::byte* piece = nullptr;
        rig.until("a piece", [&] { return (piece = areas[writer]->open(i)) != nullptr; });
        CHECK(areas[writer]->of(i) == piece);
        piece[writer] = static_cast<std::byte>(10 * round + i + 1);
      }
    }
    for (uint32_t i = 0; i < 3; ++i)
      for (Rank writer = 0; writer < 3; ++writer)
        CHECK(areas[members[i]]->mine()[writer] == static_cast<std::byte>(10 * round + i + 1));
    if (round > 0)
      for (auto& area : areas) area->settled();
  }
  auto read_only = rig.at(0).share(12, members, 128, Writers::owner);
  REQUIRE(read_only.ok());
  CHECK((*read_only)->open(0) == nullptr);
}

inline void a_store_to_an_area_wakes_who_is_armed(const Factory& factory) {
  Rig rig(factory, 3);
  const std::vector<Rank> members = {0, 1, 2};
  std::vector<std::unique_ptr<SharedArea>> areas;
  for (const Rank rank : members) {
    auto area = rig.at(rank).share(9, members, 128, Writers::owner);
    REQUIRE(area.ok());
    if (*area == nullptr || rig.at(rank).wait_fd() < 0) return;
    areas.push_back(std::move(*area));
  }
  for (int i = 0; i < 20; ++i) {
    rig.settle();
    areas[0]->wake();  // nobody sleeps: nothing happens
    REQUIRE(fall_asleep(rig, 1));
    REQUIRE(fall_asleep(rig, 2));
    *areas[0]->mine() = static_cast<std::byte>(i);
    areas[0]->wake();
    areas[0]->wake();
    REQUIRE(wakes(rig, 1, {0}));
    REQUIRE(wakes(rig, 2, {0}));
    CHECK(*areas[1]->of(0) == static_cast<std::byte>(i));
    rig.at(1).disarm();
    rig.at(2).disarm();
  }
}

inline void allocated_memory_is_aligned_zeroed_and_given_back(const Factory& factory) {
  Rig rig(factory, 2);
  for (const size_t bytes : {size_t{1}, size_t{4096}, size_t{1} << 20}) {
    auto memory = rig.at(0).alloc(bytes);
    if (!memory.ok()) {
      CHECK(memory.status().code() == Code::unsupported);
      return;
    }
    auto* data = static_cast<std::byte*>(*memory);
    CHECK(reinterpret_cast<uintptr_t>(data) % 128 == 0);
    CHECK(std::all_of(data, data + bytes, [](std::byte b) { return b == std::byte{0}; }));
    std::fill(data, data + bytes, std::byte{1});
    CHECK(rig.at(0).free(data).ok());
    CHECK(rig.at(0).free(data).code() == Code::invalid);
  }
}

// Random traffic between all pairs, with everything a receiver may do in between.
class Storm {
 public:
  Storm(Rig& rig, uint32_t seed) : rig_(rig), random_(seed), links_(rig.ranks() * rig.ranks()) {}

  void run(uint64_t messages) {
    const Deadline deadline = Deadline::after_ms(kPatienceMs);
    for (uint64_t left = messages; left > 0 || waiting_ > 0;) {
      if (deadline.passed()) FAIL("the storm does not end: " << waiting_ << " messages under way");
      const Rank from = pick(rig_.ranks()), to = (from + 1 + pick(rig_.ranks() - 1)) % rig_.ranks();
      if (left > 0 && waiting_ < 40 && pick(2) == 0 && send(from, to)) --left;
      if (pick(3) == 0) offer(to, from);
      receive(to, from);
      if (pick(2) == 0) rig_.progress(pick(rig_.ranks()));
      if (!loans_.empty() && (loans_.size() > 6 || pick(3) == 0)) release(pick(static_cast<uint32_t>(loans_.size())));
    }
    while (!loans_.empty()) release(0);
    rig_.until("completions", [&] { return outstanding() == 0; });
  }

 private:
  static constexpr uint32_t kKeys = 3;
  struct Sending {
    Frame frame;
    std::vector<std::byte> data;
  };
  struct Stream {
    std::deque<Sending> under_way;
    std::vector<std::byte> memory;
    bool exposed = false;
  };
  struct LinkState {
    Stream streams[kKeys];
  };
  struct Loan {
    Rank at, from;
    uint32_t key;
    Message message;
    uint64_t seed;
  };

  uint32_t pick(uint32_t bound) { return static_cast<uint32_t>(random_() % bound); }
  Stream& stream(Rank from, Rank to, uint32_t key) { return links_[from * rig_.ranks() + to].streams[key]; }
  static StreamKey stream_key(uint32_t key) { return key_of(Frame{.lane = static_cast<uint8_t>(key)}); }
  size_t outstanding() {
    size_t count = 0;
    for (const auto& [rank, token] : pending_) count += rig_.completions(rank, token) == 0;
    return count;
  }

  bool send(Rank from, Rank to) {
    const uint32_t key = pick(kKeys);
    const size_t bytes = pick(4) == 0 ? pick(static_cast<uint32_t>(rig_.caps().message_bytes) + 1) : pick(200);
    const uint64_t seed = ++sent_;
    Sending sending{{.lane = static_cast<uint8_t>(key), .bytes = bytes, .fingerprint = seed}, payload(seed, bytes)};
    const Sent sent = rig_.link(from, to).send(sending.frame, sending.data.data(), seed);
    REQUIRE(sent != Sent::failed);
    if (sent == Sent::again) return false;
    if (sent == Sent::pending) {
      pending_.emplace_back(from, seed);
      memory_.push_back(std::move(sending.data));
    }
    stream(from, to, key).under_way.push_back({sending.frame, {}});
    ++waiting_;
    return true;
  }

  void offer(Rank at, Rank from) {
    const uint32_t key = pick(kKeys);
    Stream& s = stream(from, at, key);
    if (s.exposed) {
      if (pick(2) == 0 && rig_.link(at, from).withdraw(stream_key(key))) s.exposed = false;
      return;
    }
    for (const Loan& loan : loans_)
      if (loan.at == at && loan.from == from && loan.key == key && loan.message.placed) return;
    s.memory.resize(rig_.caps().message_bytes);
    s.exposed = rig_.link(at, from).expose(stream_key(key), s.memory.data(), s.memory.size());
  }

  void receive(Rank at, Rank from) {
    const uint32_t key = pick(kKeys);
    Stream& s = stream(from, at, key);
    Loan loan{at, from, key, {}, 0};
    if (!rig_.link(at, from).poll(stream_key(key), &loan.message)) return;
    REQUIRE_FALSE(s.under_way.empty());
    CHECK(loan.message.frame == s.under_way.front().frame);
    if (loan.message.placed) CHECK(loan.message.data == s.memory.data());
    s.under_way.pop_front();
    if (loan.message.placed || s.exposed) {
      // The offer went with this message, placed or not; an offer withdrawn too late may have been used as well.
      if (s.exposed && !loan.message.placed)
        rig_.until("withdraw", [&] { return rig_.link(at, from).withdraw(stream_key(key)); });
      s.exposed = false;
    }
    loan.seed = loan.message.frame.fingerprint;
    --waiting_;
    loans_.push_back(loan);
  }

  void release(uint32_t index) {
    const Loan loan = loans_[index];
    CHECK(first_wrong(loan.message.data, loan.seed, loan.message.frame.bytes) == loan.message.frame.bytes);
    rig_.link(loan.at, loan.from).release(loan.message);
    loans_.erase(loans_.begin() + index);
  }

  Rig& rig_;
  std::mt19937 random_;
  std::vector<LinkState> links_;
  std::vector<Loan> loans_;
  std::vector<std::pair<Rank, Token>> pending_;
  std::deque<std::vector<std::byte>> memory_;  // of pending sends, until the end
  uint64_t sent_ = 0, waiting_ = 0;
};

inline void random_traffic_arrives_unchanged(const Factory& factory) {
  for (uint32_t ranks = 2; ranks <= 5; ++ranks) {
    const uint32_t seed = 1000 + ranks;
    INFO("ranks " << ranks << ", seed " << seed);
    Rig rig(factory, ranks);
    Storm(rig, seed).run(300);
  }
}

// Progresses one rank until `done()`, asleep whenever there is nothing to do. False: the deadline passed.
template <class Done>
bool sleep_until(Transport& transport, std::vector<Completion>& completions, Done done) {
  const Deadline deadline = Deadline::after_ms(kPatienceMs);
  while (!done()) {
    if (deadline.passed()) return false;
    if (transport.progress(completions) || !transport.arm()) continue;
    pollfd entry{.fd = transport.wait_fd(), .events = POLLIN};
    ::poll(&entry, 1, deadline.poll_ms(kPatienceMs));
    transport.disarm();
  }
  return true;
}

inline void ranks_that_sleep_miss_no_wake_up(const Factory& factory) {
  Rig rig(factory, 2);
  if (rig.at(0).wait_fd() < 0 || rig.at(1).wait_fd() < 0) return;
  constexpr uint64_t kMessages = 40;
  const std::vector<std::byte> data = payload(1, rig.caps().message_bytes);
  const auto frame = [&](uint64_t i, uint8_t lane) {
    return Frame{.lane = lane, .bytes = i % 3 == 0 ? 8 : data.size() - i, .fingerprint = i};
  };
  Endpoint& out = rig.link(0, 1);
  Endpoint& in = rig.link(1, 0);
  bool sent_all = true;
  std::atomic<bool> left = false;
  std::thread sender([&] {
    std::vector<Completion> completions;
    size_t pending = 0;
    for (uint64_t i = 0; i < kMessages && sent_all; ++i) {
      for (uint8_t lane = 0; lane < 2 && sent_all; ++lane) {
        Sent sent = Sent::again;
        sent_all = sleep_until(rig.at(0), completions,
                               [&] { return (sent = out.send(frame(i, lane), data.data(), i)) != Sent::again; });
        pending += sent == Sent::pending;
      }
    }
    sent_all = sent_all && sleep_until(rig.at(0), completions, [&] { return completions.size() == pending; });
    // What is sent may still need progress here: this rank stays until the other has got everything.
    Message last;
    sent_all = sent_all && sleep_until(rig.at(0), completions, [&] { return out.poll(key_of(frame(0, 2)), &last); });
    if (sent_all) out.release(last);
    left.store(true);
  });
  // One lane after the other: the messages of the first have to wait.
  size_t intact = 0;
  bool bye = false;
  std::vector<Completion> none;
  for (const uint8_t lane : {1, 0}) {
    for (uint64_t i = 0; i < kMessages; ++i) {
      Message message;
      if (!sleep_until(rig.at(1), none, [&] { return in.poll(key_of(frame(i, lane)), &message); })) break;
      intact +=
          message.frame == frame(i, lane) && first_wrong(message.data, 1, message.frame.bytes) == message.frame.bytes;
      in.release(message);
    }
  }
  while (!left.load()) {
    if (!bye && in.send(frame(0, 2), data.data(), 0) == Sent::done) bye = true;
    rig.at(1).progress(none);
  }
  sender.join();
  CHECK(sent_all);
  CHECK(intact == 2 * kMessages);
}

struct Case {
  const char* name;
  void (*check)(const Factory&);
};

inline constexpr Case kCases[] = {
    {"only peers have endpoints", only_peers_have_endpoints},
    {"messages of one key keep their order", messages_of_one_key_keep_their_order},
    {"keys do not wait for each other", keys_do_not_wait_for_each_other},
    {"payloads of every size arrive unchanged", payloads_of_every_size_arrive_unchanged},
    {"small payloads are free at once", small_payloads_are_free_at_once},
    {"a full link says again and recovers", a_full_link_says_again_and_recovers},
    {"an arrival wakes who is armed", an_arrival_wakes_who_is_armed},
    {"who was told again is woken when there is room", who_was_told_again_is_woken_when_there_is_room},
    {"pending sends complete exactly once", pending_sends_complete_exactly_once},
    {"detached sends do not need their memory", detached_sends_do_not_need_their_memory},
    {"a slot reaches all its readers", a_slot_reaches_all_its_readers},
    {"cancelled slots come back", cancelled_slots_come_back},
    {"slots run out and come back", slots_run_out_and_come_back},
    {"exposed memory gets the next message or none", exposed_memory_gets_the_next_message_or_none},
    {"withdrawn and too small memory is not written", withdrawn_and_too_small_memory_is_not_written},
    {"loans end in any order", loans_end_in_any_order},
    {"user messages can be peeked", user_messages_can_be_peeked},
    {"a lost peer is reported behind its data", a_lost_peer_is_reported_behind_its_data},
    {"an awaited message of a lost peer is not waited for", an_awaited_message_of_a_lost_peer_is_not_waited_for},
    {"a lost peer wakes who is armed", a_lost_peer_wakes_who_is_armed},
    {"a lost peer completes what was pending", a_lost_peer_completes_what_was_pending},
    {"an orderly end loses nothing", an_orderly_end_loses_nothing},
    {"areas are shared by their members", areas_are_shared_by_their_members},
    {"areas can be written by all members", areas_can_be_written_by_all_members},
    {"a store to an area wakes who is armed", a_store_to_an_area_wakes_who_is_armed},
    {"allocated memory is aligned, zeroed and given back", allocated_memory_is_aligned_zeroed_and_given_back},
    {"ranks that sleep miss no wake-up", ranks_that_sleep_miss_no_wake_up},
    {"random traffic arrives unchanged", random_traffic_arrives_unchanged},
};

// Every case in a section of its own, on fresh worlds.
inline void run(const Factory& factory) {
  for (const Case& one : kCases) {
    DYNAMIC_SECTION(one.name) { one.check(factory); }
  }
}

}  // namespace rondo::conformance
