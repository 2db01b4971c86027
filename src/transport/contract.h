// The seam between the executor and whatever moves bytes. A Transport moves messages between this rank and the peers it
// reaches; an Endpoint is its end of the link to one peer. tests/transport holds the conformance suite that every
// implementation joins.
//
// Thread rule: everything here is called by the holder of the progress lease, one thread at a time. Nothing blocks,
// except connect() and the destructor, which end by their deadline. No callbacks, no threads, no signals (SIGPIPE
// included). Messages of one StreamKey from one peer arrive in the order sent; other order is not promised. Nothing is
// lost, dropped, doubled or cut: an endpoint that cannot keep this fails and stays failed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/types.h"
#include "transport/frame.h"

namespace rondo {

// Chosen by the sender's user; comes back in the Completion of a send that was pending.
using Token = uint64_t;

enum class Sent : uint8_t {
  done,     // accepted; the payload's memory is free again
  pending,  // accepted; the payload's memory is read until the Completion with its token
  again,    // nothing happened: no room now
  failed,   // the endpoint has failed: see status()
};

struct Completion {
  Token token;
};

// A message that has arrived. `data` is the transport's own memory (a slot, the peer's buffer mapped here, a staging
// buffer), valid until release(); with `placed` it is the memory that was exposed, and the payload is already there.
struct Message {
  Frame frame;
  const std::byte* data = nullptr;
  bool placed = false;
  uint64_t handle = 0;  // the transport's own
};

// Memory that a kernel writes and commit() then publishes without a copy. It belongs to the transport until committed
// to `readers` endpoints of that transport, or cancelled.
struct Slot {
  std::byte* data = nullptr;  // null: no room now, or the transport has no slots
  size_t bytes = 0;
  uint64_t handle = 0;
};

struct Caps {
  bool lend = false;         // messages arrive in the transport's own memory without a copy into it by this rank
  bool slots = false;        // reserve() and commit() exist
  bool multicast = false;    // one slot committed to several endpoints is written once
  bool expose = false;       // expose() can place payloads
  size_t inject_bytes = 0;   // send() of at most this many bytes is `done` at once whenever there is room
  size_t message_bytes = 0;  // the largest payload of one message
};

class Endpoint {
 public:
  virtual ~Endpoint() = default;

  // Sends one message of frame.bytes bytes (at most caps().message_bytes).
  virtual Sent send(const Frame& frame, const std::byte* data, Token token) = 0;
  // Publishes a reserved slot to this peer; frame.bytes <= slot.bytes. Never `again`; the slot's memory is the reader's
  // (or readers') from here on.
  virtual Sent commit(const Frame& frame, const Slot& slot) = 0;

  // The oldest message of the stream that has arrived and is not yet lent: fills *message and lends it. False: none
  // yet.
  virtual bool poll(const StreamKey& key, Message* message) = 0;
  // Ends a loan. Loans may end in any order.
  virtual void release(const Message& message) = 0;

  // Offers memory for the next message of the stream; the transport may place the payload there. False: not taken, the
  // message will arrive by loan. withdraw() takes the offer back: true: nobody will write there any more; false: being
  // written right now, withdraw again after progress.
  virtual bool expose(const StreamKey& key, std::byte* memory, size_t bytes) = 0;
  virtual bool withdraw(const StreamKey& key) = 0;

  // The payload of the pending send with this token is about to go away: the endpoint copies what it still has to send,
  // or fails. Its Completion still comes. Does nothing for a token that is not pending here.
  virtual void detach(Token token) = 0;

  // The next user-tag message that waits on `comm`, for receives from any tag or peer. False: none.
  virtual bool peek_user(uint32_t comm, Frame* frame) = 0;

  // Whether the peer has run out of slots and waits for those that it has lent: who cannot use a message yet copies it
  // and releases it, or both may wait for each other. What nobody has polled yet is the endpoint's own to clear.
  virtual bool wanted_back() const { return false; }
  // Ok while the peer can be reached; then the first cause, for ever.
  virtual const Status& status() const = 0;
};

// Who may write the pieces of a shared area.
enum class Writers : uint8_t { owner, members };

// Memory of one size that every member of a group owns one piece of and the others read, or read and write: flag lines,
// call boards, workspaces. Pieces start zeroed and are 128-byte aligned. Freed with the object; peers keep their
// mapping while they need it.
class SharedArea {
 public:
  virtual ~SharedArea() = default;
  virtual std::byte* mine() = 0;
  // The piece of member `index` (position in the list given), or null while that member has not made its piece yet.
  virtual const std::byte* of(uint32_t index) = 0;
  // The same piece for writing, where Writers::members was asked for; else null.
  virtual std::byte* open(uint32_t index) = 0;
  // Takes the memory of mine() from the system now, where it would come page by page at the first touch.
  virtual void populate() = 0;
  // Writers::members: no member will touch mine() any more, so that its room may be used again once the object is gone.
  // Without it the room stays out of use while the transport lives.
  virtual void settled() = 0;
  // After a store to mine() that others may wait for: wakes the members that sleep, each at most once a sleep. A member
  // that has slept since before the store, or looks at the area after its arm(), misses nothing. While the transport
  // lives.
  virtual void wake() = 0;
};

struct Peer {
  Rank rank;
  std::string address;  // what the peer's address() gave
};

class Transport {
 public:
  virtual ~Transport() = default;

  virtual std::string_view name() const = 0;
  virtual const Caps& caps() const = 0;

  // What peers need to know to connect here: opaque bytes, sent to all ranks before connect().
  virtual std::string address() const = 0;
  // Ok when a connection to a peer with that address is worth trying; else why not (for rondo-info and explain).
  virtual Status reaches(std::string_view address) const = 0;

  // Connects to all of `peers` at once, each of which calls connect() with this rank among its own. Blocks until the
  // deadline at most; the error names every rank that is missing.
  virtual Status connect(std::span<const Peer> peers, Deadline deadline) = 0;
  // Null for a rank that is not connected.
  virtual Endpoint* endpoint(Rank rank) = 0;

  // Moves what can be moved; appends the completions of pending sends. Returns whether anything happened.
  virtual bool progress(std::vector<Completion>& completions) = 0;
  // A descriptor that is readable when there may be something to progress, once arm() has returned true; -1: none,
  // poll.
  virtual int wait_fd() const = 0;
  // Before sleeping. False: there is more to progress. True: from now on an arrival, or a wake() of a shared area,
  // makes wait_fd() readable; what stands in shared areas is the caller's to look at once more before it sleeps.
  virtual bool arm() = 0;
  // After waking.
  virtual void disarm() = 0;

  // Memory for a result that `readers` peers will get.
  virtual Slot reserve(size_t bytes, uint32_t readers) = 0;
  virtual void cancel(const Slot& slot) = 0;

  // Null where the transport has no memory that `members` (ranks, this one included) all see, and write where that is
  // asked for. `id` names the area: all members use the same, each once at a time.
  virtual Result<std::unique_ptr<SharedArea>> share(uint64_t id, std::span<const Rank> members, size_t bytes,
                                                    Writers writers) = 0;

  // Memory that peers can map (rondo_alloc); 128-byte aligned, zeroed. unsupported where there is no such memory.
  virtual Result<void*> alloc(size_t bytes) = 0;
  virtual Status free(void* memory) = 0;
  // How peers name this memory: false unless all of it lies in one allocation of alloc() that peers map.
  virtual bool locate(const void* memory, size_t bytes, uint64_t* place) = 0;
  // A peer's memory, by what its locate() gave, mapped here for reading and writing; null: not mapped, or not inside
  // what the peer can allocate. Whether it is allocated is between the two ranks.
  virtual std::byte* view(Rank rank, uint64_t place, size_t bytes) = 0;
  // Takes located memory away from the peers: what they read and write at its place from now on is nobody's, and its
  // address shows a copy. locate() says false for it afterwards.
  virtual Status part(void* memory, size_t bytes) = 0;
};

}  // namespace rondo
