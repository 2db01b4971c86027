// Receiver: the receiving half of one socket. Frames come through a small buffer, payloads go straight to where they
// belong. Progress-lease holder only; no allocation after construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.h"
#include "transport/frame.h"

namespace rondo::tcp {

// A message that is arriving.
struct Incoming {
  Frame frame;
  std::byte* target = nullptr;  // frame.bytes of room
  size_t got = 0;
  bool placed = false;  // target is exposed memory
  uint64_t handle = 0;  // target is this staging buffer
  bool open = false;
};

// Where messages go: the endpoint.
class Sink {
 public:
  // Whether a further message may begin.
  virtual bool may_begin() const = 0;
  // A frame has come: checks it and chooses the target. A failure ends the link.
  virtual Status begin(Incoming& message) = 0;
  virtual void finish(Incoming& message) = 0;

 protected:
  ~Sink() = default;
};

class Receiver {
 public:
  Receiver() : buffer_(std::make_unique<std::byte[]>(kBufferBytes)) {}

  enum class Stop : uint8_t {
    drained,  // the socket is empty
    full,     // as many bytes as were wanted have been read, or the sink takes no more
    ended,    // the peer has closed its side
    failed,   // the socket: `error`; or the sink: `failure`
  };
  struct Outcome {
    Stop stop = Stop::drained;
    bool moved = false;
    int error = 0;
    Status failure;
  };
  // Reads until one of the reasons above, about `most` bytes.
  Outcome read(int fd, Sink& sink, size_t most);

  Incoming& incoming() { return incoming_; }
  // Whether a frame waits here that the kernel no longer knows about.
  bool has_frame() const { return !incoming_.open && end_ - begin_ >= sizeof(Frame); }
  // In the middle of a frame or a payload.
  bool in_message() const { return incoming_.open || end_ > begin_; }

 private:
  static constexpr size_t kBufferBytes = 8192;

  // Turns buffered bytes into messages. False: the sink wants no more now.
  bool consume(Sink& sink, Outcome& outcome);
  void finish(Sink& sink);

  std::unique_ptr<std::byte[]> buffer_;
  size_t begin_ = 0, end_ = 0;  // of what is unread in the buffer
  Incoming incoming_;
};

}  // namespace rondo::tcp
