// ShmEndpoint: the link to one peer: the ring to it in this rank's segment, the ring from it in the peer's. Messages
// that nobody has asked for yet wait in Arrivals; they are drawn out of the ring only when the ring fills, when nobody
// polls, or when the peer starves for slots. Lease holder only.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/fd.h"
#include "kernels/kernels.h"
#include "transport/contract.h"
#include "transport/match.h"
#include "transports/shm/bell.h"
#include "transports/shm/heap.h"
#include "transports/shm/pool.h"
#include "transports/shm/segment.h"
#include "transports/shm/staging.h"

namespace rondo::shm {

struct Link {
  Rank rank;
  UniqueFd socket;
  std::shared_ptr<Segment> segment;  // the peer's
  uint32_t pair_here = 0;            // the peer's index in this rank's segment
  uint32_t pair_there = 0;           // this rank's index in the peer's
  std::shared_ptr<Mapping> heap;     // the peer's, null: none is mapped here, and it names none of it in messages
  bool maps_heap = false;            // the peer has mapped this rank's heap
};

class ShmEndpoint final : public Endpoint {
 public:
  // `heap` is this rank's, null where nothing is sent by reference.
  ShmEndpoint(Link link, Segment& own, SlotPool& pool, Heap* heap);

  Sent send(const Frame& frame, const std::byte* data, Token token) override;
  Sent commit(const Frame& frame, const Slot& slot) override;
  bool poll(const StreamKey& key, Message* message) override;
  void release(const Message& message) override;
  bool expose(const StreamKey&, std::byte*, size_t) override { return false; }
  bool withdraw(const StreamKey&) override { return true; }
  void detach(Token token) override;
  bool peek_user(uint32_t comm, Frame* frame) override;
  bool wanted_back() const override { return peer_starving_.load(std::memory_order_relaxed) != 0; }  // a hint
  const Status& status() const override { return status_; }

  Rank rank() const { return link_.rank; }
  int socket() const { return link_.socket.get(); }
  const std::shared_ptr<Segment>& segment() const { return link_.segment; }
  bool gone() const { return eof_; }
  Bell& bell() { return bell_; }
  // The peer's heap, and whether it has mapped this rank's.
  const std::shared_ptr<Mapping>& heap() const { return link_.heap; }
  bool maps_heap() const { return link_.maps_heap; }

  bool progress(std::vector<Completion>& completions);
  // Whether the peer still reads memory of pending sends.
  bool pending() const { return pending_ > 0; }
  // The socket has something to read: bells, or the peer's end.
  void read_socket();
  // After the store of `sleeping`: draws in and gives back what has come meanwhile. True: there was something.
  bool look_before_sleep();
  // Whether accepted messages still wait for room in the ring of a live peer.
  bool unsent() const { return has_backlog() && !eof_ && status_.ok(); }

 private:
  struct Waiting {
    Frame frame;
    uint32_t slot;
  };
  // A pending send of heap memory.
  struct Reference {
    Token token = 0;
    uint64_t offset = 0, bytes = 0;
    bool live = false;
  };

  bool has_backlog() const { return backlog_at_ < backlog_.size(); }
  bool room();
  bool see_consumed(uint32_t consumed);
  void want_room();
  Sent send_reference(const Frame& frame, uint64_t offset, Token token);
  bool complete(std::vector<Completion>& completions);
  bool push_slot(const Frame& frame, uint32_t slot);
  void publish(Descriptor& descriptor, Carrier carrier, uint32_t index);
  bool flush_backlog();
  void drop_backlog();

  bool next(Message* message);
  bool accept(const Descriptor& descriptor, uint64_t mark, Message* message);
  bool drain();
  bool evacuate();
  void give_back(uint32_t what);
  void publish_consumed();

  bool usable();
  bool look_for_trouble();
  Status closed() const;
  void break_link(Status why);
  void fail_once(Status why);

  Link link_;
  Segment& own_;
  SlotPool& pool_;
  Pair& mine_;
  const Pair& theirs_;
  const std::atomic<uint32_t>& peer_starving_;
  const uint64_t peer_slot_bytes_;
  const uint32_t peer_slots_;
  const kernels::CopyFn copy_;
  Bell bell_;
  const uint32_t reader_;  // this peer's number in the pool

  // To the peer.
  uint32_t tail_ = 0;           // descriptors published
  uint32_t consumed_seen_ = 0;  // the peer's `consumed` when last read
  bool blocked_ = false;
  std::vector<Waiting> backlog_;  // committed while the ring was full
  size_t backlog_at_ = 0;
  Heap* const heap_;  // null: nothing is sent by reference
  std::vector<Reference> references_;
  std::vector<uint32_t> free_references_;
  uint32_t pending_ = 0;

  // From the peer.
  uint32_t head_ = 0;                // descriptors taken
  uint32_t consumed_told_ = 0;       // the last `consumed` that the peer can see
  uint32_t idle_head_ = UINT32_MAX;  // the head that the last progress() left in the ring for poll()
  uint32_t released_ = 0;            // releases published
  Arrivals arrivals_;
  Staging staging_;

  bool eof_ = false;     // the peer has closed its socket
  bool broken_ = false;  // the peer's memory has said something impossible: nothing more is read from it
  Status status_;
};

}  // namespace rondo::shm
