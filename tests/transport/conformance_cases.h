// What the conformance suite checks. Included by conformance.h only.
#pragma once

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <random>
#include <tuple>

#include "conformance.h"

namespace rondo::conformance {

inline Frame step_frame(size_t bytes, uint64_t number = 0) { return {.bytes = bytes, .fingerprint = number}; }

inline void messages_of_one_key_keep_their_order(const Factory& factory) {
  Rig rig(factory, 2);
  std::deque<std::vector<std::byte>> kept;
  std::vector<Token> pending;
  constexpr uint64_t kMessages = 60;
  for (uint64_t i = 0; i < kMessages; ++i) {
    const size_t bytes = i % 7 == 0 ? rig.caps().message_bytes / (1 + i % 3) : i * 13;
    kept.push_back(payload(i, bytes));
    if (rig.send(0, 1, step_frame(bytes, i), kept.back().data(), i) == Sent::pending) pending.push_back(i);
    if (i >= 4) {
      const size_t j = i - 4;
      rig.expect(1, 0, step_frame(kept[j].size(), j), j);
    }
  }
  for (uint64_t j = kMessages - 4; j < kMessages; ++j) rig.expect(1, 0, step_frame(kept[j].size(), j), j);
  rig.complete(0, pending);
}

inline void keys_do_not_wait_for_each_other(const Factory& factory) {
  Rig rig(factory, 2);
  std::vector<Frame> frames(6, step_frame(40));
  frames[1].comm = 1;
  frames[2].seq = 1;
  frames[3].slice = 1;
  frames[4].lane = 1;
  frames[5].kind = FrameKind::user;
  std::vector<std::vector<std::byte>> kept;
  for (uint64_t round = 0; round < 2; ++round) {
    for (size_t i = 0; i < frames.size(); ++i) {
      frames[i].fingerprint = round;
      kept.push_back(payload(round * 10 + i, 40));
      rig.send(0, 1, frames[i], kept.back().data(), kept.size());
    }
  }
  Message none;
  StreamKey other = key_of(frames[0]);
  other.seq = 77;
  rig.settle();
  CHECK_FALSE(rig.link(1, 0).poll(other, &none));
  for (size_t i = frames.size(); i-- > 0;) {
    for (uint64_t round = 0; round < 2; ++round) {
      frames[i].fingerprint = round;
      rig.expect(1, 0, frames[i], round * 10 + i);
    }
  }
  rig.settle();
}

inline void payloads_of_every_size_arrive_unchanged(const Factory& factory) {
  Rig rig(factory, 2);
  const size_t most = rig.caps().message_bytes;
  REQUIRE(most >= 1);
  REQUIRE(rig.caps().inject_bytes <= most);
  std::vector<size_t> sizes;
  for (size_t bytes = 0; bytes <= 130; ++bytes) sizes.push_back(bytes);
  for (size_t bytes = 256; bytes < most; bytes *= 2) sizes.insert(sizes.end(), {bytes - 1, bytes, bytes + 1});
  const size_t inject = rig.caps().inject_bytes;
  sizes.insert(sizes.end(), {inject, inject + 1, most / 3, most - 1, most});
  const std::vector<std::byte> source = payload(9, most + 3);
  Token token = 0;
  for (const size_t bytes : sizes) {
    if (bytes > most) continue;
    const size_t skew = bytes % 3;  // sources are not aligned
    const Frame frame = step_frame(bytes);
    const bool pending = rig.send(0, 1, frame, bytes == 0 ? nullptr : source.data() + skew, ++token) == Sent::pending;
    CHECK_FALSE((pending && bytes <= inject));
    const Message message = rig.receive(1, 0, key_of(frame));
    REQUIRE(message.frame.bytes == bytes);
    CHECK((bytes == 0 || std::memcmp(message.data, source.data() + skew, bytes) == 0));
    rig.link(1, 0).release(message);
    if (pending) rig.complete(0, {token});
  }
}

inline void small_payloads_are_free_at_once(const Factory& factory) {
  Rig rig(factory, 2);
  const size_t bytes = std::min<size_t>(rig.caps().inject_bytes, 200);
  std::vector<std::byte> data(bytes);
  for (uint64_t i = 0; i < 10; ++i) {
    data = payload(i, bytes);
    REQUIRE(rig.send(0, 1, step_frame(bytes, i), data.data(), i) == Sent::done);
    std::fill(data.begin(), data.end(), std::byte{0xee});
  }
  for (uint64_t i = 0; i < 10; ++i) rig.expect(1, 0, step_frame(bytes, i), i);
  rig.settle();
  CHECK(rig.completions(0) == 0);
}

// Sends without the receiver progressing, until there is no room or `most` are on their way.
inline size_t fill_up(Rig& rig, const std::vector<std::byte>& data, size_t most, bool* refused) {
  size_t accepted = 0;
  int refusals = 0;  // a passing refusal is not a full link
  while (accepted < most && refusals < 50) {
    const Sent sent = rig.link(0, 1).send(step_frame(data.size(), accepted), data.data(), accepted);
    REQUIRE(sent != Sent::failed);
    rig.progress(0);
    if (sent == Sent::again) {
      ++refusals;
    } else {
      ++accepted;
      refusals = 0;
    }
  }
  *refused = refusals > 0;
  return accepted;
}

inline void a_full_link_says_again_and_recovers(const Factory& factory) {
  Rig rig(factory, 2);
  for (const size_t bytes : {size_t{16}, rig.caps().message_bytes}) {
    const std::vector<std::byte> data = payload(5, bytes);
    bool refused = false;
    const size_t accepted = fill_up(rig, data, 300, &refused);
    REQUIRE(accepted > 0);
    for (size_t i = 0; i < accepted; ++i) rig.expect(1, 0, step_frame(bytes, i), 5);
    const bool pending = rig.send(0, 1, step_frame(bytes, accepted), data.data(), 1'000'000 + bytes) == Sent::pending;
    rig.expect(1, 0, step_frame(bytes, accepted), 5);
    if (pending) rig.complete(0, {1'000'000 + bytes});
    rig.settle();
  }
}

// Waits for wait_fd() while `others` are progressed.
inline bool wakes(Rig& rig, Rank sleeper, const std::vector<Rank>& others) {
  const Deadline deadline = Deadline::after_ms(kPatienceMs);
  while (!deadline.passed()) {
    for (const Rank rank : others) rig.progress(rank);
    pollfd entry{.fd = rig.at(sleeper).wait_fd(), .events = POLLIN};
    if (poll(&entry, 1, 1) == 1) return true;
  }
  return false;
}

// Arms a rank that has nothing to do; false: it always has.
inline bool fall_asleep(Rig& rig, Rank rank) {
  for (int i = 0; i < 1000; ++i) {
    if (rig.at(rank).arm()) return true;
    rig.progress(rank);
  }
  return false;
}

inline void an_arrival_wakes_who_is_armed(const Factory& factory) {
  Rig rig(factory, 2);
  if (rig.at(1).wait_fd() < 0) return;
  const std::vector<std::byte> data = payload(3, 100);
  for (uint64_t i = 0; i < 20; ++i) {
    rig.settle();
    REQUIRE(fall_asleep(rig, 1));
    rig.send(0, 1, step_frame(100, i), data.data());
    REQUIRE(wakes(rig, 1, {0}));
    rig.at(1).disarm();
    rig.expect(1, 0, step_frame(100, i), 3);
  }
}

inline void who_was_told_again_is_woken_when_there_is_room(const Factory& factory) {
  Rig rig(factory, 2);
  const std::vector<std::byte> data = payload(5, rig.caps().message_bytes);
  bool refused = false;
  const size_t accepted = fill_up(rig, data, 300, &refused);
  if (refused && rig.at(0).wait_fd() >= 0 && fall_asleep(rig, 0)) {
    Endpoint& to_receiver = rig.link(0, 1);  // looked up here: Catch's assertions are not for several threads
    Endpoint& from_sender = rig.link(1, 0);
    std::thread receiver([&] {
      std::vector<Completion> none;
      for (size_t i = 0; i < accepted; ++i) {
        const Deadline deadline = Deadline::after_ms(kPatienceMs);
        Message message;
        while (!from_sender.poll(key_of(step_frame(0)), &message) && !deadline.passed()) rig.at(1).progress(none);
        if (!deadline.passed()) from_sender.release(message);
      }
    });
    Sent sent = Sent::again;
    const Deadline deadline = Deadline::after_ms(kPatienceMs);
    while (sent == Sent::again && !deadline.passed()) {
      pollfd entry{.fd = rig.at(0).wait_fd(), .events = POLLIN};
      poll(&entry, 1, deadline.poll_ms(1000));
      rig.at(0).disarm();
      do rig.progress(0);
      while (!rig.at(0).arm() && !deadline.passed());
      sent = to_receiver.send(step_frame(data.size(), accepted), data.data(), accepted);
    }
    // The receiver needs the sender to go on progressing what is still pending.
    std::atomic<bool> joined = false;
    std::thread joiner([&] {
      receiver.join();
      joined.store(true);
    });
    while (!joined.load()) rig.progress(0);
    joiner.join();
    REQUIRE(sent != Sent::again);
    rig.expect(1, 0, step_frame(data.size(), accepted), 5);
    return;
  }
  for (size_t i = 0; i < accepted; ++i) rig.expect(1, 0, step_frame(data.size(), i), 5);
}

inline void pending_sends_complete_exactly_once(const Factory& factory) {
  Rig rig(factory, 3);
  const size_t bytes = rig.caps().message_bytes;
  std::deque<std::vector<std::byte>> kept;
  std::vector<Token> pending;
  constexpr Token kSends = 24;
  for (Token token = 0; token < kSends; ++token) {
    const Rank to = 1 + token % 2;
    kept.push_back(payload(token, bytes - token));
    Frame frame = step_frame(kept.back().size());
    frame.seq = static_cast<uint32_t>(token);
    if (rig.send(0, to, frame, kept.back().data(), 100 + token) == Sent::pending) pending.push_back(100 + token);
  }
  for (Token token = kSends; token-- > 0;) {
    Frame frame = step_frame(kept[token].size());
    frame.seq = static_cast<uint32_t>(token);
    rig.expect(1 + token % 2, 0, frame, token);
  }
  rig.complete(0, pending);
  rig.settle();
  for (const Token token : pending) CHECK(rig.completions(0, token) == 1);
  CHECK(rig.completions(0) == pending.size());
}

inline void detached_sends_do_not_need_their_memory(const Factory& factory) {
  Rig rig(factory, 2);
  const size_t bytes = rig.caps().message_bytes;
  std::deque<std::vector<std::byte>> kept;
  std::vector<Token> pending;
  for (Token token = 0; token < 8; ++token) {
    kept.push_back(payload(token, bytes));
    const Sent sent = rig.link(0, 1).send(step_frame(bytes, token), kept.back().data(), token);
    REQUIRE(sent != Sent::failed);
    if (sent == Sent::again) {
      kept.pop_back();
      break;
    }
    if (sent == Sent::pending) pending.push_back(token);
  }
  rig.progress(0);
  for (const Token token : pending) rig.link(0, 1).detach(token);
  rig.link(0, 1).detach(4711);
  for (const Token token : pending) std::fill(kept[token].begin(), kept[token].end(), std::byte{0xee});
  for (Token token = 0; token < kept.size() && rig.link(0, 1).status().ok(); ++token)
    rig.expect(1, 0, step_frame(bytes, token), token);
  rig.complete(0, pending);
  rig.settle();
  for (const Token token : pending) CHECK(rig.completions(0, token) == 1);
}

inline Slot reserve(Rig& rig, Rank rank, size_t bytes, uint32_t readers) {
  Slot slot;
  rig.until("a free slot", [&] { return (slot = rig.at(rank).reserve(bytes, readers)).data != nullptr; });
  REQUIRE(slot.bytes >= bytes);
  return slot;
}

inline void a_slot_reaches_all_its_readers(const Factory& factory) {
  Rig rig(factory, 4);
  if (!rig.caps().slots) {
    CHECK(rig.at(0).reserve(8, 1).data == nullptr);
    return;
  }
  const uint32_t readers = rig.caps().multicast ? 3 : 1;
  for (uint64_t i = 0; i < 200; ++i) {
    const size_t bytes = i % 9 == 0 ? rig.caps().message_bytes : 1 + i * 7;
    const Slot slot = reserve(rig, 0, bytes, readers);
    const std::vector<std::byte> data = payload(i, bytes);
    std::copy(data.begin(), data.end(), slot.data);
    for (Rank to = 1; to <= readers; ++to) REQUIRE(rig.link(0, to).commit(step_frame(bytes, i), slot) != Sent::failed);
    std::vector<Message> loans(readers + 1);
    for (Rank at = 1; at <= readers; ++at) loans[at] = rig.receive(at, 0, key_of(step_frame(0)));
    for (Rank n = 1; n <= readers; ++n) {
      const Rank at = 1 + (n + i) % readers;
      CHECK(loans[at].frame == step_frame(bytes, i));
      CHECK(first_wrong(loans[at].data, i, bytes) == bytes);
      rig.link(at, 0).release(loans[at]);
    }
  }
}

inline void cancelled_slots_come_back(const Factory& factory) {
  Rig rig(factory, 2);
  if (!rig.caps().slots) return;
  for (int i = 0; i < 1000; ++i) rig.at(0).cancel(reserve(rig, 0, rig.caps().message_bytes, 1));
}

inline void slots_run_out_and_come_back(const Factory& factory) {
  Rig rig(factory, 2);
  if (!rig.caps().slots) return;
  std::vector<Slot> slots;
  int refusals = 0;
  while (slots.size() < 100'000 && refusals < 50) {
    const Slot slot = rig.at(0).reserve(rig.caps().message_bytes, 1);
    if (slot.data == nullptr) {
      ++refusals;
      continue;
    }
    refusals = 0;
    slots.push_back(slot);
  }
  REQUIRE(slots.size() < 100'000);
  for (size_t i = 0; i < slots.size(); ++i) REQUIRE(rig.link(0, 1).commit(step_frame(1, i), slots[i]) != Sent::failed);
  for (size_t i = 0; i < slots.size(); ++i) {
    const Message message = rig.receive(1, 0, key_of(step_frame(0)));
    CHECK(message.frame.fingerprint == i);
    rig.link(1, 0).release(message);
  }
  for (size_t i = 0; i < slots.size(); ++i) slots[i] = reserve(rig, 0, rig.caps().message_bytes, 1);
  for (const Slot& slot : slots) rig.at(0).cancel(slot);
}

inline void exposed_memory_gets_the_next_message_or_none(const Factory& factory) {
  Rig rig(factory, 2);
  Endpoint& receiver = rig.link(1, 0);
  const size_t most = rig.caps().message_bytes;
  std::vector<std::byte> memory(most + 16);
  Token token = 0;
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{100}, most / 2 + 1, most}) {
    for (int round = 0; round < 6; ++round) {
      std::fill(memory.begin(), memory.end(), std::byte{0xaa});
      const Frame frame = step_frame(bytes, ++token);
      const bool exposed = receiver.expose(key_of(frame), memory.data(), bytes);
      CHECK_FALSE((exposed && !rig.caps().expose));
      rig.settle();
      const std::vector<std::byte> data = payload(token, bytes), next = payload(token + 1000, bytes);
      const bool pending = rig.send(0, 1, frame, data.data(), token) == Sent::pending;
      const Frame second = step_frame(bytes, token + 1000);
      const bool pending_second = rig.send(0, 1, second, next.data(), token + 1000) == Sent::pending;
      const Message message = rig.receive(1, 0, key_of(frame));
      CHECK(message.frame == frame);
      CHECK_FALSE((message.placed && !exposed));
      if (message.placed) CHECK(message.data == memory.data());
      CHECK(first_wrong(message.data, token, bytes) == bytes);
      receiver.release(message);
      rig.expect(1, 0, second, token + 1000);  // by loan: the offer was for one message
      if (message.placed) CHECK(first_wrong(memory.data(), token, bytes) == bytes);
      CHECK(std::all_of(memory.begin() + (message.placed ? static_cast<ptrdiff_t>(bytes) : 0), memory.end(),
                        [](std::byte b) { return b == std::byte{0xaa}; }));
      if (pending) rig.complete(0, {token});
      if (pending_second) rig.complete(0, {token + 1000});
      rig.until("withdraw", [&] { return receiver.withdraw(key_of(frame)); });
    }
  }
}

inline void withdrawn_and_too_small_memory_is_not_written(const Factory& factory) {
  Rig rig(factory, 2);
  if (!rig.caps().expose) return;
  Endpoint& receiver = rig.link(1, 0);
  const size_t bytes = rig.caps().message_bytes;
  const std::vector<std::byte> data = payload(1, bytes);
  std::vector<std::byte> memory(bytes, std::byte{0xaa});
  const auto untouched = [&] {
    return std::all_of(memory.begin(), memory.end(), [](std::byte b) { return b == std::byte{0xaa}; });
  };
  const Frame frame = step_frame(bytes);
  for (Token token = 1; token <= 10; ++token) {
    static_cast<void>(receiver.expose(key_of(frame), memory.data(), token % 2 == 0 ? bytes : bytes - 1));
    if (token % 2 == 0) rig.until("withdraw", [&] { return receiver.withdraw(key_of(frame)); });
    const bool pending = rig.send(0, 1, frame, data.data(), token) == Sent::pending;
    rig.expect(1, 0, frame, 1);
    CHECK(untouched());
    if (pending) rig.complete(0, {token});
    rig.until("withdraw", [&] { return receiver.withdraw(key_of(frame)); });
  }
}

inline void loans_end_in_any_order(const Factory& factory) {
  Rig rig(factory, 2);
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::vector<std::byte>> kept;
    std::vector<Message> loans;
    std::vector<Token> pending;
    for (uint64_t i = 0; i < 8; ++i) {
      kept.push_back(payload(i, 1 + random() % rig.caps().message_bytes));
      const Token token = round * 100 + i;
      if (rig.send(0, 1, step_frame(kept[i].size(), i), kept[i].data(), token) == Sent::pending)
        pending.push_back(token);
      loans.push_back(rig.receive(1, 0, key_of(step_frame(0))));
    }
    std::shuffle(loans.begin(), loans.end(), random);
    for (const Message& loan : loans) {
      CHECK(first_wrong(loan.data, loan.frame.fingerprint, loan.frame.bytes) == loan.frame.bytes);
      rig.link(1, 0).release(loan);
    }
    rig.complete(0, pending);
  }
}

inline void user_messages_can_be_peeked(const Factory& factory) {
  Rig rig(factory, 2);
  Frame seen;
  const std::vector<std::byte> data = payload(1, 64);
  const Frame step{.comm = 3, .bytes = 8};
  rig.send(0, 1, step, data.data());
  rig.settle();
  CHECK_FALSE(rig.link(1, 0).peek_user(3, &seen));
  const Frame first{.kind = FrameKind::user, .comm = 3, .seq = 5, .slice = 1, .bytes = 10, .fingerprint = 10};
  const Frame second{.kind = FrameKind::user, .comm = 3, .seq = 9, .slice = 0, .bytes = 64, .fingerprint = 64};
  rig.send(0, 1, first, data.data());
  rig.send(0, 1, second, data.data());
  std::vector<Frame> got;
  for (int i = 0; i < 2; ++i) {
    rig.until("a user message", [&] { return rig.link(1, 0).peek_user(3, &seen); });
    Message message;
    REQUIRE(rig.link(1, 0).poll(key_of(seen), &message));
    CHECK(message.frame == seen);
    CHECK(first_wrong(message.data, 1, seen.bytes) == seen.bytes);
    rig.link(1, 0).release(message);
    got.push_back(seen);
    CHECK_FALSE(rig.link(1, 0).peek_user(4, &seen));
  }
  CHECK(((got[0] == first && got[1] == second) || (got[0] == second && got[1] == first)));
  rig.expect(1, 0, step, 1);
  CHECK_FALSE(rig.link(1, 0).peek_user(3, &seen));
}

}  // namespace rondo::conformance

#include "conformance_world.h"
