// TcpEndpoint: this rank's end of the sockets to one peer; matches what arrives with who asks for it. Progress-lease
// holder only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fd.h"
#include "transport/contract.h"
#include "transport/match.h"
#include "transports/tcp/receiver.h"
#include "transports/tcp/send_queue.h"
#include "transports/tcp/staging.h"

namespace rondo::tcp {

// What the endpoints of one transport share.
struct Shared {
  size_t message_bytes = 0;
  size_t inject_bytes = 0;
  uint32_t queue_messages = 0;
  size_t staging_bytes = 0;  // per peer
  int64_t liveness_ms = 0;
  int epoll = -1;
  Staging staging;
  std::vector<Completion> completions;  // not yet handed out
  bool unacknowledged = false;          // something was sent since the last look at what peers have acknowledged
};

class TcpEndpoint final : public Endpoint, private Sink {
 public:
  struct Options {
    Rank peer;
    std::string address;  // of the peer, for texts
    std::vector<UniqueFd> sockets;
  };
  // `shared` outlives the endpoint. Registers the sockets with its epoll descriptor.
  TcpEndpoint(Options options, Shared& shared);
  ~TcpEndpoint() override;

  Sent send(const Frame& frame, const std::byte* data, Token token) override;
  Sent commit(const Frame& frame, const Slot& slot) override;
  bool poll(const StreamKey& key, Message* message) override;
  void release(const Message& message) override;
  bool expose(const StreamKey& key, std::byte* memory, size_t bytes) override;
  bool withdraw(const StreamKey& key) override;
  void detach(Token token) override;
  bool peek_user(uint32_t comm, Frame* frame) override;
  const Status& status() const override { return status_; }

  // Someone has asked in vain since the last arrival.
  bool wanted() const { return wanted_ && end_.ok(); }
  // Writes what waits; returns whether anything moved.
  bool flush();
  // Reads all sockets.
  bool read();
  // Reads on where the budget was used up and no longer is.
  bool resume();
  // The kernel reports `events` on a socket.
  bool on_event(uint32_t stream, uint32_t events);
  // Makes a loss visible once nothing that came before it is unasked for.
  bool settle();
  // Before sleeping: tells the kernel what to wake us for. False: there is something to do.
  bool arm();

  // Looks at what the peer's host has acknowledged; fails the link when it has been silent too long. Returns whether
  // anything is unacknowledged.
  bool check_acknowledged(int64_t now);

  // For the destructor of the transport.
  bool sending() const;     // something waits to be written
  bool unacknowledged();    // the peer's kernel has not got everything
  void shut_down();         // nothing more will be sent
  void discard_arrivals();  // reads and forgets
  void add_descriptors(std::vector<int>& descriptors) const;

 private:
  struct Stream {
    Stream(UniqueFd fd, const Shared& shared)
        : socket(std::move(fd)), queue(shared.queue_messages, shared.inject_bytes) {}
    UniqueFd socket;
    SendQueue queue;
    Receiver receiver;
    uint32_t interest = 0;       // registered with epoll
    bool ended = false;          // nothing more will be read
    bool touched = false;        // written to since everything was last seen acknowledged
    int64_t waits_since_ns = 0;  // each look since then has found something unacknowledged; 0: the last has not
  };
  struct Exposure {
    StreamKey key;
    std::byte* memory;
    size_t bytes;
  };

  // Sink
  bool may_begin() const override { return wanted_ || hung_up_ || held_bytes_ < shared_.staging_bytes; }
  Status begin(Incoming& message) override;
  void finish(Incoming& message) override;

  Stream& stream_of(const StreamKey& key);
  Receiver* arriving(const StreamKey& key);
  bool read(Stream& stream);
  void break_stream(Stream& stream);
  void end_stream(Stream& stream, Status cause);
  void end(Status cause);
  void set_interest(Stream& stream, uint32_t events);
  bool wants_to_read(const Stream& stream) const;
  Status closed_text(const Stream& stream) const;
  Status error_text(int error) const;

  Shared& shared_;
  const Rank peer_;
  const std::string address_;
  std::vector<Stream> streams_;
  Arrivals arrivals_;
  std::vector<Exposure> exposed_;
  size_t held_bytes_ = 0;  // staging in use and the notes of arrivals
  bool wanted_ = false;
  bool hung_up_ = false;  // the budget no longer matters
  Status cause_;          // the first end of a stream
  int64_t cause_at_ns_ = 0;
  Status end_;     // all streams have ended
  Status status_;  // end_, once that is to be seen
};

}  // namespace rondo::tcp
